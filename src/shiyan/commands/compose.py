"""Write params.yaml from conf/, or say where the two differ."""

import argparse
import subprocess
import sys

from shiyan import composition
from shiyan.config import PARAMS_FILE, all_sections, check_all
from shiyan.jsonl import replacing

WAYS_OUT = (
    "`shiyan compose` goes back to conf/; `shiyan keep NAME` keeps these values as "
    "conf/experiment/NAME.yaml"
)

EDITED = (
    "if you edited conf/, `shiyan compose` takes your edit over into params.yaml; if you edited "
    "params.yaml, `shiyan keep NAME` keeps its values as conf/experiment/NAME.yaml"
)


def configure(parser: argparse.ArgumentParser) -> None:
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="write nothing; exit 1 if they differ")
    mode.add_argument(
        "--offer",
        action="store_true",
        help="as --check, but go on with the overrides that `dvc exp run -S` left behind",
    )
    parser.add_argument("overrides", nargs="*", help="Hydra overrides, e.g. experiment=smoke")


def run(arguments: argparse.Namespace) -> int:
    if arguments.check or arguments.offer:
        return compare(arguments.overrides, offer=arguments.offer)
    text = composition.text_of(composition.composed(arguments.overrides))
    # Where it is a link, what it leads to is replaced and the link stays.
    with replacing(PARAMS_FILE.resolve()) as file:
        file.write(text)
    print(f"{PARAMS_FILE} written")
    return 0


def compare(overrides: list[str], offer: bool) -> int:
    """Name what stands in params.yaml but not in conf/, and the two ways out.

    An experiment's overrides are a user's wish, so `offer` goes on with them; an edit
    of conf/ that was not composed is not yet one, so it stops.
    """
    if composition.check(overrides):
        return 0
    if PARAMS_FILE.exists():
        all_sections()
    found = composition.differences(overrides)
    rewritten = offer and differs_from_commit()
    say = [
        f"{PARAMS_FILE} holds overrides that conf/ does not:"
        if rewritten
        else f"{PARAMS_FILE} is not what conf/ composes to:"
    ]
    say += [f"  {key}: conf/ says {a!r}, {PARAMS_FILE} says {b!r}" for key, (a, b) in found.items()]
    if not found:
        say.append("  the same values, written in another way")
    print("\n".join([*say, WAYS_OUT if rewritten else EDITED]), file=sys.stderr)
    if not rewritten:
        return 1
    check_all()
    print(f"going on with {PARAMS_FILE} as it stands", file=sys.stderr)
    return 0


def differs_from_commit() -> bool:
    """Has params.yaml been rewritten since the last commit, as `dvc exp run -S` does?"""
    command = ["git", "diff", "--quiet", "HEAD", "--", str(PARAMS_FILE)]
    return subprocess.run(command, check=False, capture_output=True).returncode == 1
