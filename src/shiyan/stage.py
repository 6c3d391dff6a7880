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


def run_stage(main: Callable[[], None], noted: bool = True) -> None:
    """Run a stage's main function and exit 0, 1 or 2; 130 after Ctrl-C.

    A `UserError` is printed as its one sentence. Anything else is a fault of ours
    and keeps its traceback. Under DVC the attempt and its end are noted for MLflow,
    unless `noted` is false.
    """
    stage = os.environ.get("DVC_STAGE")
    sys.exit(exit_code_of(with_note(main, stage) if noted and stage else main))


def with_note(main: Callable[[], None], stage: str) -> Callable[[], None]:
    """`main` under wholly checked params, leaving a note of how it went."""
    from shiyan.config import check_all
    from shiyan.notes import OpenNote

    def watched() -> None:
        note = OpenNote(stage)
        try:
            check_all()
            main()
        except UserError as error:
            note.end("failed", str(error))
            raise
        except KeyboardInterrupt:
            note.end("stopped", "stopped by the user")
            raise
        except BaseException as error:
            first_line = str(error).strip().partition("\n")[0]
            note.end("failed", f"{type(error).__name__}: {first_line[:500]}")
            raise
        note.end("finished")

    return watched


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
