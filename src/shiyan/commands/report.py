"""Render the papers' tables and figures from the last run: CSV, LaTeX, Markdown, PNG."""

import argparse
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from shiyan.config import PathsParams, load_params
from shiyan.errors import UserError
from shiyan.lockfile import outs_of_other_runs

if TYPE_CHECKING:
    from shiyan.report.table import Table

KINDS: dict[str, str] = {
    "detection": "detectors in-domain, out-of-domain, under attack (AIGenPoetry, Tables 2-6)",
    "ci": "structure, tone, rhyme and quality of ci (CCiV)",
    "judging": "judges that play the poet: means, errors, probes, agreement (Poller)",
    "poems": "lengths, nouns, emotions and asked counts (AIGenPoetry, 4, 6.1 and A)",
}

SUFFIXES = (".csv", ".tex", ".md", ".png")
"""Of what a report writes."""


class Report(Protocol):
    """What a module shiyan.report.of_KIND has."""

    def tables(self, paths: PathsParams, /) -> "Iterable[Table]": ...
    def figures(self, paths: PathsParams, folder: Path, /) -> Iterable[Path]: ...


def configure(parser: argparse.ArgumentParser) -> None:
    what = "; ".join(f"{kind}: {text}" for kind, text in KINDS.items())
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"all when left out. {what}")
    parser.add_argument("--out", type=Path, default=Path("report"), help="folder (report/)")


def run(arguments: argparse.Namespace) -> int:
    for kind in arguments.kinds:
        if kind not in KINDS:
            raise UserError(f"there is no report {kind!r}; there are {', '.join(KINDS)}", 2)
    paths = load_params("paths", PathsParams)
    lacking: list[UserError] = []
    written = 0
    for kind in arguments.kinds or KINDS:
        try:
            written += render(kind, paths, arguments.out / kind)
        except UserError as error:
            # A run of one question alone still gets its own tables.
            if arguments.kinds:
                raise
            lacking.append(error)
            sys.stderr.write(f"{kind}: {error}\n")
    if not written and lacking:
        raise UserError("there is nothing to report yet; `make run` runs the pipeline", 1)
    tell_mixed_runs()
    return 0


def tell_mixed_runs() -> None:
    """Say so where files of several runs lie side by side, as after a checkout by git alone."""
    if others := outs_of_other_runs():
        sys.stderr.write(
            f"notice: {', '.join(others)} are not as dvc.lock has them, so tables may mix two "
            "runs: `dvc checkout` brings the last run's data back, `dvc repro` runs what changed\n"
        )


def render(kind: str, paths: PathsParams, folder: Path) -> int:
    """Write a kind's tables and figures into a folder; print the tables and what was written."""
    report = loaded(kind)
    written: list[Path] = []
    for table in report.tables(paths):
        written += table.write(folder)
        print(table.markdown())
    written += report.figures(paths, folder)
    print(f"{len(written)} files in {folder}/")
    tell_others(folder, written)
    return len(written)


def loaded(kind: str) -> Report:
    """The module of one of `KINDS`; no other is imported."""
    match kind:
        case "detection":
            from shiyan.report import of_detection

            return of_detection
        case "ci":
            from shiyan.report import of_ci

            return of_ci
        case "judging":
            from shiyan.report import of_judging

            return of_judging
        case "poems":
            from shiyan.report import of_poems

            return of_poems
        case _:
            raise ValueError(f"no module for the report {kind!r}")


def tell_others(folder: Path, written: Collection[Path]) -> None:
    """Name what an earlier report may have left: it would stand beside tables of another run."""
    there = sorted(folder.iterdir()) if folder.exists() else []
    others = [path.name for path in there if path not in written and path.suffix in SUFFIXES]
    if others:
        sys.stderr.write(
            f"notice: {folder}/ also holds {', '.join(others)}, not written now: delete what is of "
            "an earlier run\n"
        )
