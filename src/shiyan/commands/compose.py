"""Write params.yaml from conf/, or check that it is what conf/ composes to."""

import argparse
import sys

from shiyan import composition
from shiyan.config import PARAMS_FILE
from shiyan.jsonl import replacing


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if out of step")
    parser.add_argument("overrides", nargs="*", help="Hydra overrides, e.g. experiment=smoke")


def run(arguments: argparse.Namespace) -> int:
    if arguments.check:
        return check(arguments.overrides)
    text = composition.text_of(composition.composed(arguments.overrides))
    with replacing(PARAMS_FILE) as file:
        file.write(text)
    print(f"{PARAMS_FILE} written")
    return 0


def check(overrides: list[str]) -> int:
    """Name the overrides that stand in params.yaml, and the two ways out."""
    if composition.check(overrides):
        return 0
    found = composition.differences()
    print(f"{PARAMS_FILE} is not what conf/ composes to:", file=sys.stderr)
    for key, (ours, theirs) in list(found.items())[:20]:
        print(f"  {key}: conf/ says {ours!r}, {PARAMS_FILE} says {theirs!r}", file=sys.stderr)
    if len(found) > 20:
        print(f"  … and {len(found) - 20} more", file=sys.stderr)
    print(
        "`shiyan compose` goes back to conf/; `shiyan keep NAME` keeps these values as "
        "conf/experiment/NAME.yaml",
        file=sys.stderr,
    )
    return 1
