"""The `shiyan` command: a table of commands, each in its own module of `commands`.

Results go to stdout, progress and notices to stderr. Exit codes: 0 done, 1
something in the input was wrong or unscored, 2 the call was wrong.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Protocol

from shiyan.stage import exit_code_of

COMMANDS = {
    "compose": "write params.yaml from conf/, or check that it is up to date",
    "keep": "keep the overrides found in params.yaml as conf/experiment/NAME.yaml",
    "report": "render the papers' tables and figures from the last run",
    "results": "print the last run's numbers as a short table",
    "recompute": "compute published numbers of detectors again, from their scores",
    "models": "fetch, verify and list models",
    "personas": "personas of poets: made by an LLM from articles, or checked",
    "plan": "say what a run would ask of each LLM and train, beforehand",
    "score": "score a file of poems with every zero-shot detector",
    "check-ci": "check ci against their cipai's forms, line by line",
    "judge-table": "a table of judges' errors from a file of means",
    "ratings": "sheets for people who rate readings: export, import, agreement",
    "ui": "open the MLflow pages on this project's runs",
    "doctor": "find what killed runs and damaged caches left behind",
}


class Command(Protocol):
    """What a module of `commands` has; its docstring is the command's help."""

    __doc__: str | None

    def configure(self, parser: argparse.ArgumentParser, /) -> None: ...
    def run(self, arguments: argparse.Namespace, /) -> int: ...


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
    command = loaded(name)
    parser = argparse.ArgumentParser(f"shiyan {name}", description=command.__doc__)
    command.configure(parser)
    return command.run(parser.parse_args(arguments[1:]))


def loaded(name: str) -> Command:
    """The module of one of `COMMANDS`; no other is imported."""
    match name:
        case "compose":
            from shiyan.commands import compose

            return compose
        case "keep":
            from shiyan.commands import keep

            return keep
        case "report":
            from shiyan.commands import report

            return report
        case "recompute":
            from shiyan.commands import recompute

            return recompute
        case "results":
            from shiyan.commands import results

            return results
        case "models":
            from shiyan.commands import models

            return models
        case "personas":
            from shiyan.commands import personas

            return personas
        case "plan":
            from shiyan.commands import plan

            return plan
        case "score":
            from shiyan.commands import score

            return score
        case "check-ci":
            from shiyan.commands import check_ci

            return check_ci
        case "judge-table":
            from shiyan.commands import judge_table

            return judge_table
        case "ratings":
            from shiyan.commands import ratings

            return ratings
        case "ui":
            from shiyan.commands import ui

            return ui
        case "doctor":
            from shiyan.commands import doctor

            return doctor
        case _:
            raise ValueError(f"no module for the command {name!r}")
