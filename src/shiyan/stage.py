"""What every stage does around its work: errors as one sentence, quiet libraries."""

import os
import sys
from collections.abc import Callable

from shiyan.errors import UserError

QUIET = {
    # Progress belongs to our own bars; telemetry has no place on a research machine.
    "TOKENIZERS_PARALLELISM": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1",
}


def run_stage(main: Callable[[], None]) -> None:
    """Run a stage's main function and exit 0, 1 or 2; 130 after Ctrl-C.

    A `UserError` is printed as its one sentence. Anything else is a fault of ours
    and keeps its traceback.
    """
    sys.exit(exit_code_of(main))


def exit_code_of(main: Callable[[], int | None]) -> int:
    """Call `main` under the rules of `run_stage` and return its exit code."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    for stream in (sys.stdout, sys.stderr):
        # A console that cannot show ◎ or 𫛛 gets an escape, not a crash.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        return main() or 0
    except UserError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("stopped; what was finished is kept, run again to go on\n")
        return 130
    except BrokenPipeError:
        # `shiyan … | head`: the reader has had enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
