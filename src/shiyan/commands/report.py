"""Render the papers' tables and figures from the last run: CSV, LaTeX, Markdown, PNG."""

import argparse
import importlib
import sys
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from shiyan.config import PathsParams, load_params
from shiyan.errors import UserError
from shiyan.lockfile import outs_of_other_runs
from shiyan.report.table import Table

KINDS: dict[str, str] = {
    "detection": "detectors in-domain, out-of-domain, under attack (AIGenPoetry, Tables 2-6)",
    "ci": "structure, tone, rhyme and quality of ci (CCiV)",
    "judging": "judges that play the poet: means, errors, probes, agreement (Poller)",
    "poems": "lengths, nouns, emotions and asked counts (AIGenPoetry, 4, 6.1 and A)",
}
"""Each is a module shiyan.report.of_KIND with `tables(paths)` and `figures(paths, folder)`."""

SUFFIXES = (".csv", ".tex", ".md", ".png")
"""Of what a report writes."""


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
    module = importlib.import_module(f"shiyan.report.of_{kind}")
    tables: Callable[[PathsParams], Iterable[Table]] = module.tables
    figures: Callable[[PathsParams, Path], Iterable[Path]] = module.figures
    written: list[Path] = []
    for table in tables(paths):
        written += table.write(folder)
        print(table.markdown())
    written += figures(paths, folder)
    print(f"{len(written)} files in {folder}/")
    tell_others(folder, written)
    return len(written)


def tell_others(folder: Path, written: Collection[Path]) -> None:
    """Name what an earlier report may have left: it would stand beside tables of another run."""
    there = sorted(folder.iterdir()) if folder.exists() else []
    others = [path.name for path in there if path not in written and path.suffix in SUFFIXES]
    if others:
        sys.stderr.write(
            f"notice: {folder}/ also holds {', '.join(others)}, not written now: delete what is of "
            "an earlier run\n"
        )
