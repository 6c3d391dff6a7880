"""Sheets for people who rate readings: export a blind one, import the filled ones.

  shiyan ratings export SHEET   a shuffled .csv or .xlsx, and SHEET.key.jsonl beside it
  shiyan ratings import SHEET --rater NAME --out ratings.jsonl   read it back; the exit code
                                is 1 while a score is missing, though what there is was written
  shiyan ratings show FILE      how far the raters are and how far they agree

Then `dvc exp run -S collect.ratings=ratings.jsonl` compares the judges with them.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from shiyan.config import JudgeParams, PathsParams, PromptTexts, load_params
from shiyan.errors import UserError
from shiyan.jsonl import read_records, write_records
from shiyan.judging.plan import read_readings
from shiyan.judging.rubric import RUBRICS, Rubric
from shiyan.judging.sheets import (
    ROW,
    SheetRow,
    blind_sheet,
    check_shown,
    read_ratings,
    shown_items,
    write_sheet,
)
from shiyan.records import HumanRating, Poem, Understanding

if TYPE_CHECKING:
    from shiyan.judging.sheets import Progress

RESAMPLES, SEED = 1000, 0
MOST_NAMED = 8


def configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    export = actions.add_parser("export", help="write a blind, shuffled sheet and its key")
    export.add_argument("sheet", type=Path, metavar="SHEET", help="a .csv or .xlsx to write")
    export.add_argument("--author", help="only readings of this poet's poems")
    export.add_argument("--seed", type=int, default=0, help="draws the order of the rows")
    export.add_argument(
        "--constructed", action="store_true", help="also rows with another poem's reading"
    )
    read = actions.add_parser("import", help="read a filled sheet into a file of ratings")
    read.add_argument("sheet", type=Path, metavar="SHEET", help="the filled .csv or .xlsx")
    read.add_argument("--rater", required=True, help="who filled it")
    read.add_argument("--key", type=Path, help="by default SHEET.key.jsonl")
    read.add_argument("--out", type=Path, default=Path("ratings.jsonl"), help="ratings.jsonl")
    read.add_argument(
        "--replace",
        action="store_true",
        help="this rater's earlier ratings of what the sheet shows go, cleared rows included",
    )
    read.add_argument("--json", action="store_true", help="progress as one object")
    show = actions.add_parser("show", help="progress and agreement of a file of ratings")
    show.add_argument("file", type=Path, metavar="FILE", help="a .jsonl of ratings")
    show.add_argument(
        "--json", action="store_true", help="one object a line: dimensions, then raters"
    )


def run(arguments: argparse.Namespace) -> int:
    actions = {"export": run_export, "import": run_import, "show": run_show}
    return actions[arguments.action](arguments)


def run_export(arguments: argparse.Namespace) -> int:
    rubric, paths = _rubric(), load_params("paths", PathsParams)
    key = _key_path(arguments.sheet)
    for file in (arguments.sheet, key):
        if file.exists():
            raise UserError(
                f"{file} exists already, and what is filled in is not written over; name another "
                "sheet, or delete sheet and key",
                2,
            )
    poems = _poems(paths)
    readings = [
        reading
        for reading in read_readings(paths)
        if arguments.constructed or reading.source != "constructed"
    ]
    if arguments.author is not None:
        readings = _of_author(arguments.author, readings, poems)
    sheet = blind_sheet(readings, poems, rubric, arguments.seed)
    for notice in write_sheet(arguments.sheet, sheet, _instructions(rubric)):
        print(f"notice: {notice}", file=sys.stderr)
    write_records(key, sheet.key)
    print(f"{arguments.sheet}: {len(sheet.rows)} readings to rate")
    print(f"{key}: which row shows which reading; raters must not see it", file=sys.stderr)
    return 0


def _poems(paths: PathsParams) -> list[Poem]:
    return [poem for path in (paths.poems, paths.generated) for poem in read_records(path, Poem)]


def _of_author(
    author: str, readings: Sequence[Understanding], poems: Sequence[Poem]
) -> list[Understanding]:
    """Raises UserError where there is no reading of a poem by the author."""
    author_of = {poem.poem_id: poem.author for poem in poems}
    own = [reading for reading in readings if author_of.get(reading.poem_id) == author]
    if readings and not own:
        known = sorted({author_of.get(reading.poem_id, "?") for reading in readings})
        more = " …" if len(known) > MOST_NAMED else ""
        raise UserError(
            f"there is no reading of a poem by {author!r}; there are some of poems by "
            f"{'、'.join(known[:MOST_NAMED])}{more}",
            2,
        )
    return own


def run_import(arguments: argparse.Namespace) -> int:
    from shiyan.collection.tables import read_table
    from shiyan.models import locked

    rater = arguments.rater = arguments.rater.strip()
    if not rater:
        raise UserError("--rater is empty; name who filled the sheet", 2)
    rubric, paths = _rubric(), load_params("paths", PathsParams)
    readings = {r.item_id: r for r in read_readings(paths)}
    key = {}
    for row in read_records(arguments.key or _key_path(arguments.sheet), SheetRow):
        if row.item_id not in readings:
            raise UserError(
                f"row {row.row} shows the reading {row.item_id!r}, which {paths.understandings} "
                "no longer holds; import with the readings that were exported"
            )
        key[row.row] = readings[row.item_id]
    table = read_table(arguments.sheet, _bytes(arguments.sheet), [ROW, *rubric.names])
    rows = [(row.place, row.cells) for row in table.rows]
    ratings, progress = read_ratings(rows, key, rater, rubric)
    check_shown(rows, key, _poems(paths))
    shown = shown_items(rows, key)
    rated = {rating.item_id for rating in ratings}
    anew = shown if arguments.replace else rated
    # Another import may write the file meanwhile, and its rater would be lost.
    with locked(arguments.out):
        kept = _earlier(arguments.out, rater, anew, arguments.replace)
        write_records(arguments.out, [*kept, *ratings])
    _tell(arguments, len(ratings), progress)
    return 1 if progress.missing or progress.untouched else 0


def run_show(arguments: argparse.Namespace) -> int:
    rubric, paths = _rubric(), load_params("paths", PathsParams)
    readings = read_readings(paths)
    ratings = list(read_records(arguments.file, HumanRating))
    for row in agreement_rows(ratings, readings, rubric):
        if arguments.json:
            print(json.dumps(row, ensure_ascii=False))
        else:
            value = "—" if row["value"] is None else f"{row['value']:.2f}"
            span = "" if row["low"] is None else f" [{row['low']:.2f}, {row['high']:.2f}]"
            print(f"{row['dimension']}: alpha {value}{span}, {row['n']} readings by two or more")
    for row in progress_rows(ratings, readings, rubric):
        if arguments.json:
            print(json.dumps(row, ensure_ascii=False))
        else:
            partly = f", {row['partly']} of them in part" if row["partly"] else ""
            print(f"{row['rater']}: {row['rated']} of {row['readings']} readings rated{partly}")
    raters = sorted({rating.rater_id for rating in ratings})
    print(f"{len(ratings)} ratings by {', '.join(raters) or 'nobody'}", file=sys.stderr)
    return 0


def progress_rows(
    ratings: Sequence[HumanRating], readings: Sequence[Understanding], rubric: Rubric
) -> list[dict[str, object]]:
    """A rater's readings with a score, those that lack one that was asked for, and how many
    there are to rate: constructed ones only where anybody rated them."""
    reading_of = {reading.item_id: reading for reading in readings}
    lacking: dict[str, dict[str, bool]] = {}
    for rating in ratings:
        reading = reading_of.get(rating.item_id)
        if reading is None or all(score is None for score in rating.scores.values()):
            continue
        scored = {rubric.dimension(n) for n, score in rating.scores.items() if score is not None}
        asked = rubric.only(reading.dimension).names
        of_rater = lacking.setdefault(rating.rater_id, {})
        of_rater[rating.item_id] = not scored.issuperset(asked)
    own = {reading.item_id for reading in readings if reading.source != "constructed"}
    n_readings = len(own.union(*lacking.values()))
    return [
        {"rater": rater, "rated": len(items), "partly": sum(items.values()), "readings": n_readings}
        for rater, items in sorted(lacking.items())
    ]


def agreement_rows(
    ratings: Sequence[HumanRating], readings: Sequence[Understanding], rubric: Rubric
) -> list[dict[str, object]]:
    """Krippendorff's alpha (interval) of people, by dimension."""
    from shiyan.judging.evaluate import Evaluation

    found = Evaluation([], readings, ratings, rubric, {}, resamples=RESAMPLES, seed=SEED)
    for notice in found.notices():
        print(f"notice: {notice}", file=sys.stderr)
    alphas = found.agreement("human")["krippendorff_alpha"]
    return [{"dimension": name, **alpha} for name, alpha in alphas.items()]


def _tell(arguments: argparse.Namespace, n_rated: int, progress: "Progress") -> None:
    if arguments.json:
        told = {
            "rater": arguments.rater,
            "rated": n_rated,
            "rows": progress.n_rows,
            "missing": progress.missing,
            "untouched": progress.untouched,
        }
        print(json.dumps(told, ensure_ascii=False))
        return
    print(f"{arguments.rater}: {n_rated} of {progress.n_rows} readings rated")
    for number, names in progress.missing.items():
        print(f"  row {number} lacks {', '.join(names)}")
    if progress.untouched:
        print(f"  not rated yet: rows {', '.join(progress.untouched)}")
    print(f"{arguments.out}: use it with -S collect.ratings={arguments.out}", file=sys.stderr)


def _earlier(out: Path, rater: str, items: set[str], replace: bool) -> list[HumanRating]:
    """What the file holds already, without what is imported anew."""
    if not out.exists():
        return []
    earlier = list(read_records(out, HumanRating))
    twice = [r.item_id for r in earlier if r.rater_id == rater and r.item_id in items]
    if twice and not replace:
        raise UserError(
            f"{out} holds ratings of {len(twice)} of these readings by {rater!r} already, e.g. of "
            f"{twice[0]!r}; add --replace to put the new ones in their place"
        )
    return [r for r in earlier if r.rater_id != rater or r.item_id not in items]


def _rubric() -> Rubric:
    return RUBRICS[load_params("judge", JudgeParams).prompt_set]


def _instructions(rubric: Rubric) -> list[str]:
    """What people are told: the same definitions and scale as the judges."""
    texts = getattr(load_params("prompts", PromptTexts), rubric.name)
    meanings = [f"{name}：{texts[name]}" for name in rubric.names]
    return [texts["rules"].replace("你认为", "您认为").replace("你给", "您给"), *meanings]


def _key_path(sheet: Path) -> Path:
    return sheet.with_name(f"{sheet.name}.key.jsonl")


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} could not be read: {error.strerror}", 2) from error
