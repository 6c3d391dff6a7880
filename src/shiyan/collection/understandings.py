"""Readings of poems that a user brings along: JSONL, CSV or XLSX, a reading a row."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, get_args

from shiyan.collection.ratings import Scale
from shiyan.collection.tables import read_rows
from shiyan.config import project_root
from shiyan.errors import UserError
from shiyan.records import Source, Understanding

COLUMNS = {
    "item_id": ("item_id", "item", "id", "条目", "编号"),
    "poem_id": ("poem_id", "poem", "诗", "诗编号"),
    "reader": ("reader", "读者"),
    "text": ("text", "reading", "understanding", "理解", "解读"),
    "dimension": ("dimension", "维度"),
    "source": ("source", "来源"),
}
DEFAULTS = {"dimension": "all", "source": "human"}
ALL = frozenset({"", "all", "全部", "所有", "全部维度"})
"""What a reading of every dimension may name as its dimension."""
SOURCES = (*get_args(Source), "generated")


def collect(
    path: str | None, poem_ids: Collection[str], scale: Scale
) -> tuple[list[Understanding], list[str]]:
    """(readings, notices) of a user's file; none without a file.

    A row has `item_id`, `poem_id`, `reader` and `text`, and may have `dimension` (all) and
    `source` (human: somebody vouches for it; generated: an LLM's). Other columns are
    ignored with one notice.

    Args:
        poem_ids: of the collected poems.
        scale: whose dimensions a reading may be of.

    Raises:
        UserError: a column or a cell that is missing, an item_id twice, a reading of a poem
            that was not collected, a dimension that there is not; each names its place.
    """
    if path is None:
        return [], []
    file = project_root() / Path(path)
    rows = read_rows(file, [name for names in COLUMNS.values() for name in names])
    fields = {name.casefold(): field for field, names in COLUMNS.items() for name in names}
    columns = list(dict.fromkeys(column for _, row in rows for column in row))
    named = {column: fields[column.casefold()] for column in columns if column.casefold() in fields}
    readings: dict[str, Understanding] = {}
    places: dict[str, str] = {}
    for place, row in rows:
        reading = _reading(place, row, named, scale)
        if reading.item_id in readings:
            raise UserError(
                f"two readings have the item_id {reading.item_id!r}, at "
                f"{places[reading.item_id]} and at {place}; ratings go by it, so keep one"
            )
        if reading.poem_id not in poem_ids:
            raise UserError(
                f"{place}: the reading {reading.item_id!r} is of the poem {reading.poem_id!r}, "
                "which is not among the collected poems; name one by its poem_id"
            )
        readings[reading.item_id], places[reading.item_id] = reading, place
    ignored = [column for column in columns if column not in named]
    notices = [f"{path}: ignored {', '.join(ignored)}"] if ignored else []
    return list(readings.values()), notices if rows else [f"{path} holds no reading"]


def _reading(
    place: str, row: Mapping[str, Any], named: Mapping[str, str], scale: Scale
) -> Understanding:
    cells = {field: row[column] for column, field in named.items() if row.get(column)}
    for field, value in cells.items():
        if isinstance(value, list | dict):
            raise UserError(f"{place}: {field} is {value!r}; one text is wanted")
    given = {field: str(value).strip() for field, value in cells.items()}
    for field in ("item_id", "poem_id", "reader", "text"):
        if not given.get(field):
            raise UserError(
                f"{place} has no {field} ({', '.join(COLUMNS[field])}); a reading needs item_id, "
                "poem_id, reader and text"
            )
    values = DEFAULTS | given
    if values["dimension"].casefold() in ALL:
        values["dimension"] = "all"
    elif (dimension := scale.dimension(values["dimension"])) is not None:
        values["dimension"] = dimension
    else:
        raise UserError(
            f"{place}: dimension is {values['dimension']!r}; allowed are all, "
            f"{', '.join(scale.names)}"
        )
    if values["source"] not in SOURCES:
        raise UserError(
            f"{place}: source is {values['source']!r}; allowed are {', '.join(SOURCES)}"
        )
    return Understanding.model_validate(values)
