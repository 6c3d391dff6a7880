"""People's ratings of readings: JSONL, CSV or XLSX, one rater's scores of one item a row."""

import math
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, get_args

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


class Scale(Protocol):
    """What people rate, and from where to where."""

    @property
    def name(self) -> str: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def lowest(self) -> float: ...
    @property
    def highest(self) -> float: ...
    def allows(self, score: float) -> bool: ...
    def dimension(self, key: str) -> str | None:
        """The dimension that a column is the name of; None for another column."""


def collect(path: str | None, scales: Mapping[str, Scale]) -> tuple[list[HumanRating], list[str]]:
    """(ratings, notices) of a user's file; none without a file.

    A row has `item_id` and `rater_id`, and may have `rubric` (poller) and `source`
    (human). Its scores stand in an object `scores` or in columns that are named as the
    rubric's dimensions; other columns of words are ignored with one notice. A missing
    score is null.

    Args:
        scales: rubric -> its dimensions and scale.

    Raises:
        UserError: a column that is missing, an unknown rubric or dimension, a cell that is
            no number of the scale, two ratings of one item by one rater on scales that are
            one for people; each names its place.
    """
    if path is None:
        return [], []
    file = project_root() / Path(path)
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
    ratings: dict[tuple[str, str, tuple[str, ...]], HumanRating] = {}
    places: dict[tuple[str, str, tuple[str, ...]], str] = {}
    for place, row in rows:
        rating = _rating(place, row, fields, others, scales)
        # Rubrics that differ in their prompts alone ask people the same.
        key = (rating.item_id, rating.rater_id, scales[rating.rubric].names)
        if key in ratings:
            rubrics = dict.fromkeys((ratings[key].rubric, rating.rubric))
            raise UserError(
                f"{rating.rater_id!r} rates {rating.item_id!r} twice, at {places[key]} and at "
                f"{place} (rubric {' and '.join(rubrics)}); keep one row"
            )
        ratings[key], places[key] = rating, place
    if not any(
        score is not None for rating in ratings.values() for score in rating.scores.values()
    ):
        raise UserError(f"{file} holds no score: no column but {', '.join(fields)} has a number")
    used = {rating.rubric for rating in ratings.values()}
    ignored = [c for c in others if all(scales[rubric].dimension(c) is None for rubric in used)]
    return list(ratings.values()), [f"{path}: ignored {', '.join(ignored)}"] if ignored else []


def _rating(
    place: str,
    row: Mapping[str, Any],
    fields: Mapping[str, str],
    others: Sequence[str],
    scales: Mapping[str, Scale],
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
    if known["rubric"] not in scales:
        raise UserError(
            f"{place}: there is no rubric {known['rubric']!r}; allowed are {', '.join(scales)}"
        )
    given = row.get("scores") or {}
    if not isinstance(given, dict):
        raise UserError(f'{place}: scores is no object like {{"内容": 80}}')
    scale = scales[known["rubric"]]
    # Words in another column are a remark; a number there is a misspelt dimension's.
    columns = [
        (column, row[column])
        for column in others
        if column in row
        if scale.dimension(column) is not None or _number(row[column]) is not None
    ]
    scores = _scores(place, [*columns, *given.items()], scale)
    return HumanRating.model_validate({**known, "scores": scores})


def _scores(place: str, cells: Sequence[tuple[str, Any]], scale: Scale) -> dict[str, float | None]:
    scores: dict[str, float | None] = {}
    for name, value in cells:
        dimension = scale.dimension(name)
        if dimension is None:
            raise UserError(
                f"{place}: {name!r} has {value!r} but is no dimension of {scale.name}; allowed are "
                f"{', '.join(scale.names)}"
            )
        if dimension in scores:
            raise UserError(f"{place} has {dimension} twice; keep one column of it")
        scores[dimension] = _score(place, name, value, scale)
    return scores


def _score(place: str, name: str, value: Any, scale: Scale) -> float | None:
    """A cell as a score; None where it was left out.

    Raises:
        UserError: it is neither, or off the scale.
    """
    if value is None or (isinstance(value, str) and _plain(value).casefold() in MISSING):
        return None
    number = _number(value)
    if number is None:
        raise UserError(f"{place}: {name} is {value!r}, a number or an empty cell is wanted")
    if not scale.allows(number):
        raise UserError(
            f"{place}: {name} is {number:g}; allowed is {scale.lowest:g} to {scale.highest:g}, "
            "or an empty cell"
        )
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
