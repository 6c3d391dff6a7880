"""The `shiyan` command: a table of commands, each in its own module of `commands`.

Results go to stdout, progress and notices to stderr. Exit codes: 0 done, 1
something in the input was wrong or unscored, 2 the call was wrong.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence

from shiyan.stage import exit_code_of

COMMANDS = {
    "compose": "write params.yaml from conf/, or check that it is up to date",
    "keep": "keep the overrides found in params.yaml as conf/experiment/NAME.yaml",
    "report": "render the papers' tables and figures from the last run",
    "results": "print the last run's numbers as a short table",
    "models": "fetch, verify and list models",
    "personas": "personas of poets: made by an LLM from articles, or checked",
    "plan": "say what a run would ask of each LLM before it is asked",
    "score": "score a file of poems with every zero-shot detector",
    "check-ci": "check ci against their cipai's forms, line by line",
    "judge-table": "a table of judges' errors from a file of means",
    "ratings": "sheets for people who rate readings: export, import, agreement",
    "ui": "open the MLflow pages on this project's runs",
    "doctor": "find what killed runs and damaged caches left behind",
}


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command and exit with its code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    sys.exit(exit_code_of(lambda: dispatch(arguments)))


def dispatch(arguments: Sequence[str]) -> int:
    """Parse with the named command's own parser only, so that help stays quick."""
    name = arguments[0] if arguments else "--help"
    if name not in COMMANDS:
        width = max(map(len, COMMANDS))
        lines = "\n".join(f"  {command:{width}}  {what}" for command, what in COMMANDS.items())
        text = f"usage: shiyan COMMAND …\n\n{lines}\n\nshiyan COMMAND --help says more."
        if name in ("-h", "--help", "help"):
            print(text)
            return 0
        print(f"error: there is no command {name!r}\n{text}", file=sys.stderr)
        return 2
    module = importlib.import_module(f"shiyan.commands.{name.replace('-', '_')}")
    parser = argparse.ArgumentParser(f"shiyan {name}", description=module.__doc__)
    module.configure(parser)
    return int(module.run(parser.parse_args(arguments[1:])))
