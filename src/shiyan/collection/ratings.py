"""People's ratings of readings: JSONL, CSV or XLSX, one rater's scores of one item a row."""

import math
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from shiyan.collection.tables import read_rows
from shiyan.config import project_root
from shiyan.errors import UserError
from shiyan.records import HumanRating, Source

COLUMNS = {
    "item_id": ("item_id", "item", "条目", "编号"),
    "rater_id": ("rater_id", "rater", "评分人", "评审"),
    "rubric": ("rubric", "量表"),
    "source": ("source", "来源"),
}
DEFAULTS = {"rubric": "poller", "source": "human"}
MISSING = frozenset({"", "-", "—", "/", "na", "n/a", "nan", "null", "none", "无", "缺"})
"""What raters write in a cell that they leave out, case aside."""


def collect(path: str | None) -> tuple[list[HumanRating], list[str]]:
    """(ratings, notices) of a user's file; none without a file.

    A row has `item_id` and `rater_id`, and may have `rubric` (poller) and `source`
    (human). Its scores stand in an object `scores`, or every other column that
    holds a number is a dimension; a column without any number is ignored with one
    notice. A missing score is null.

    Raises:
        UserError: a column that is missing, a cell that is no number, two ratings of
            one item by one rater; each names its place.
    """
    if path is None:
        return [], []
    file = project_root() / Path(path).expanduser()
    rows = read_rows(file, [name for names in COLUMNS.values() for name in names])
    if not rows:
        raise UserError(f"{file} holds no rating; it needs item_id, rater_id and a score a column")
    names = {name.casefold(): field for field, found in COLUMNS.items() for name in found}
    columns = list(dict.fromkeys(column for _, row in rows for column in row))
    fields = {column: names[column.casefold()] for column in columns if column.casefold() in names}
    for field in ("item_id", "rater_id"):
        if field not in fields.values():
            raise UserError(
                f"{file} has no column {field} (or {', '.join(COLUMNS[field][1:])}); it has "
                f"{', '.join(columns)}"
            )
    others = [column for column in columns if column not in fields and column != "scores"]
    dimensions = [c for c in others if any(_number(row.get(c)) is not None for _, row in rows)]
    ratings: dict[tuple[str, str, str], HumanRating] = {}
    places: dict[tuple[str, str, str], str] = {}
    for place, row in rows:
        rating = _rating(place, row, fields, dimensions)
        key = (rating.item_id, rating.rater_id, rating.rubric)
        if key in ratings:
            raise UserError(
                f"{rating.rater_id!r} rates {rating.item_id!r} twice, at {places[key]} and at "
                f"{place}; keep one row"
            )
        ratings[key], places[key] = rating, place
    if not any(
        score is not None for rating in ratings.values() for score in rating.scores.values()
    ):
        raise UserError(f"{file} holds no score: no column but {', '.join(fields)} has a number")
    ignored = [column for column in others if column not in dimensions]
    return list(ratings.values()), [f"{path}: ignored {', '.join(ignored)}"] if ignored else []


def _rating(
    place: str, row: Mapping[str, Any], fields: Mapping[str, str], dimensions: list[str]
) -> HumanRating:
    known = {fields[column]: str(row[column]).strip() for column in fields if row.get(column)}
    for field in ("item_id", "rater_id"):
        if not known.get(field):
            raise UserError(f"{place}: {field} is empty; every rating names its item and its rater")
    known = DEFAULTS | known
    if known["source"] not in get_args(Source):
        raise UserError(
            f"{place}: source is {known['source']!r}; allowed are {', '.join(get_args(Source))}"
        )
    given = row.get("scores") or {}
    if not isinstance(given, dict):
        raise UserError(f'{place}: scores is no object like {{"内容": 80}}')
    scores = {**{d: row.get(d) for d in dimensions}, **given}
    return HumanRating.model_validate(
        {**known, "scores": {name: _score(place, name, value) for name, value in scores.items()}}
    )


def _score(place: str, name: str, value: Any) -> float | None:
    """A cell as a score; None where it was left out.

    Raises:
        UserError: it is neither.
    """
    if value is None or (isinstance(value, str) and _plain(value).casefold() in MISSING):
        return None
    number = _number(value)
    if number is None:
        raise UserError(f"{place}: {name} is {value!r}, a number or an empty cell is wanted")
    return number


def _number(value: Any) -> float | None:
    """A finite number, also written as text or in full-width digits; else None."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = float(_plain(value) if isinstance(value, str) else value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).strip()
