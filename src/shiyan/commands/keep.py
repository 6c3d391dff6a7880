"""Keep the overrides found in params.yaml as conf/experiment/NAME.yaml."""

import argparse
import re
from collections.abc import Mapping
from pathlib import Path

from omegaconf import OmegaConf

from shiyan import composition
from shiyan.config import PARAMS_FILE, read_params
from shiyan.errors import UserError
from shiyan.jsonl import replacing
from shiyan.roles import is_derived
from shiyan.selection import CONF

FOLDER = CONF / "experiment"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="letters, digits, - and _")
    parser.add_argument("--force", action="store_true", help="replace an experiment of that name")


def run(arguments: argparse.Namespace) -> int:
    name: str = arguments.name
    if not NAME.fullmatch(name):
        raise UserError(
            f"{name!r} is no name for an experiment; use letters, digits, - and _, e.g. my_judge-2",
            2,
        )
    path = FOLDER / f"{name}.yaml"
    if path.exists() and not arguments.force:
        raise UserError(f"{path} is there already; choose another name, or --force replaces it", 2)
    wanted = composition.flattened(read_params())
    default = composed_values([])
    if wanted == default:
        raise UserError(f"{PARAMS_FILE} is what conf/ composes to; there is nothing to keep")
    options = chosen_options(wanted, default)
    changed = difference(wanted, [f"{group}={option}" for group, option in options.items()])
    write_checked(path, text_of(name, options, changed), wanted)
    print(f"{path} written; dvc exp run -S experiment={name} runs it")
    return 0


def difference(wanted: Mapping[str, object], overrides: list[str]) -> dict[str, object]:
    """The values of `wanted` that conf/ with these overrides does not give."""
    ours = composed_values(overrides)
    return {
        k: v for k, v in wanted.items() if not is_derived(k) and (k not in ours or ours[k] != v)
    }


def composed_values(overrides: list[str]) -> dict[str, object]:
    values = OmegaConf.to_container(composition.composed(overrides, complete=False))
    return composition.flattened(values)


def chosen_options(wanted: Mapping[str, object], default: Mapping[str, object]) -> dict[str, str]:
    """Group -> option, where another option than the default's is nearer to the params.

    A value can be changed in an experiment's file but no key removed: a corpus of
    another kind, say, needs the option that has its keys.
    """
    chosen: dict[str, str] = {}
    for group, usual in single_choice_groups().items():
        tried = {usual: distance(wanted, default, group)}
        if tried[usual] > 0:
            for option in sorted(p.stem for p in (CONF / group).glob("*.yaml")):
                if option != usual:
                    values = composed_values([f"{group}={option}"])
                    tried[option] = distance(wanted, values, group)
        nearest = min(tried, key=lambda option: tried[option])
        if nearest != usual:
            chosen[group] = nearest
    return chosen


def single_choice_groups() -> dict[str, str]:
    """Groups of conf/config.yaml that hold one option -> that of the default."""
    defaults = OmegaConf.load(CONF / "config.yaml").defaults
    return {
        str(group): option
        for entry in defaults
        if OmegaConf.is_dict(entry)
        for group, option in entry.items()
        if isinstance(option, str)
    }


def distance(wanted: Mapping[str, object], ours: Mapping[str, object], section: str) -> float:
    """How many lines an experiment's file would need; a key too many cannot be mended."""
    keys = [k for k in {**wanted, **ours} if k == section or k.startswith(f"{section}.")]
    surplus = sum(k not in wanted for k in keys)
    return sum(k not in ours or ours[k] != wanted.get(k) for k in keys) + 1000 * surplus


def text_of(name: str, options: Mapping[str, str], changed: Mapping[str, object]) -> str:
    """The experiment's file: the package, the command, the groups, the values."""
    values = nested(changed)
    head = f"# @package _global_\n# dvc exp run -S experiment={name}\n"
    if options:
        lines = "".join(f"  - override /{group}: {option}\n" for group, option in options.items())
        head += f"defaults:\n{lines}"
    return head + (OmegaConf.to_yaml(OmegaConf.create(values)) if values else "")


def nested(flat: Mapping[str, object]) -> dict[str, object]:
    """Dotted keys as nested mappings, by the nesting that params.yaml has."""
    return _picked(read_params(), "", flat)


def _picked(
    tree: Mapping[str, object], prefix: str, flat: Mapping[str, object]
) -> dict[str, object]:
    # A model's name holds dots itself, so the keys cannot just be split.
    found: dict[str, object] = {}
    for key, value in tree.items():
        path = f"{prefix}{key}"
        if path in flat:
            found[key] = value
        elif isinstance(value, dict) and (below := _picked(value, f"{path}.", flat)):
            found[key] = below
    return found


def write_checked(path: Path, text: str, wanted: Mapping[str, object]) -> None:
    """Write the file if composing it gives params.yaml back, and else leave no trace.

    Raises:
        UserError: some value cannot be said in an experiment's file.
    """
    before = path.read_bytes() if path.exists() else None
    with replacing(path) as file:
        file.write(text)
    try:
        got = composed_values([f"experiment={path.stem}"])
        wrong = sorted(k for k in {**wanted, **got} if wanted.get(k) != got.get(k))
        if wrong:
            raise UserError(
                f"{PARAMS_FILE} cannot be kept as an experiment: {', '.join(wrong[:5])} would come "
                "out otherwise (an experiment adds and changes keys, it removes none); change "
                "conf/ itself"
            )
    except UserError:
        if before is None:
            path.unlink()
        else:
            with replacing(path, "wb") as file:
                file.write(before)
        raise
