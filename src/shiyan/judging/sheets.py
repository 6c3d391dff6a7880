"""Sheets on which people rate readings: blind and shuffled, and read back."""

import csv
import io
import random
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from shiyan.errors import UserError
from shiyan.jsonl import replacing
from shiyan.judging.expression import normalised
from shiyan.judging.prompts import heading
from shiyan.judging.rubric import Rubric
from shiyan.records import HumanRating, Poem, Record, Understanding

ROW, TITLE, POEM, READING, REMARK = "编号", "题目", "诗词", "读者的理解", "备注"


class SheetRow(Record):
    """Which reading a numbered row shows; kept apart from the sheet, which is blind."""

    row: str
    item_id: str


@dataclass(frozen=True)
class Sheet:
    """Rows to be rated, and the key to them."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    key: tuple[SheetRow, ...]


def blind_sheet(
    understandings: Iterable[Understanding], poems: Iterable[Poem], rubric: Rubric, seed: int
) -> Sheet:
    """A row a reading, in an order drawn by seed; nothing tells reader, source or item.

    Raises:
        UserError: there is no reading, or one of an unknown poem.
    """
    poem_of = {poem.poem_id: poem for poem in poems}
    readings = sorted(understandings, key=lambda reading: reading.item_id)
    random.Random(seed).shuffle(readings)
    if not readings:
        raise UserError("there is no reading to rate; run `dvc repro generate` first")
    rows, key = [], []
    for number, reading in enumerate(readings, start=1):
        poem = poem_of.get(reading.poem_id)
        if poem is None:
            raise UserError(f"the reading {reading.item_id!r} is of an unknown poem; run generate")
        # A reading of one dimension is rated on that one: the other cells are barred.
        asked = rubric.only(reading.dimension).names
        cells = ("" if name in asked else "—" for name in rubric.names)
        rows.append((str(number), heading(poem), poem.text, reading.text, *cells, ""))
        key.append(SheetRow(row=str(number), item_id=reading.item_id))
    columns = (ROW, TITLE, POEM, READING, *rubric.names, REMARK)
    return Sheet(columns, tuple(rows), tuple(key))


def write_sheet(path: Path, sheet: Sheet, instructions: Sequence[str]) -> list[str]:
    """As CSV that spreadsheet programs open as UTF-8, or as XLSX with a page of instructions.

    Returns:
        Notices of what could not be written as it stands.

    Raises:
        UserError: another suffix.
    """
    if path.suffix.lower() == ".csv":
        _write_csv(path, sheet)
        return []
    if path.suffix.lower() == ".xlsx":
        n_cleaned = _write_workbook(path, sheet, instructions)
        told = f"{path}: {n_cleaned} cell(s) lost control characters, which no workbook holds"
        return [told] if n_cleaned else []
    raise UserError(f"{path} is neither .csv nor .xlsx; name the sheet by one of them", 2)


def _write_csv(path: Path, sheet: Sheet) -> None:
    with replacing(path, "wb") as file:
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow(sheet.columns)
        writer.writerows([_as_text(cell) for cell in row] for row in sheet.rows)
        file.write(text.getvalue().encode("utf-8-sig"))


def _as_text(cell: str) -> str:
    """A cell that a spreadsheet program does not take for a formula."""
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@")) else cell


def _write_workbook(path: Path, sheet: Sheet, instructions: Sequence[str]) -> int:
    """Returns how many cells lost control characters."""
    from openpyxl import Workbook
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE
    from openpyxl.styles import Alignment

    book = Workbook()
    page = book.active
    page.title = "评分"
    n_cleaned = 0
    for number, row in enumerate((sheet.columns, *sheet.rows), start=1):
        for column, value in enumerate(row, start=1):
            cell = page.cell(number, column)
            if value:
                cell.value = ILLEGAL_CHARACTERS_RE.sub("", value)
                n_cleaned += cell.value != value
                cell.data_type = "s"  # text, whatever it begins with
            cell.alignment = Alignment(wrap_text=True, vertical="top")
    for letter, width in zip("ABCD", (6, 16, 30, 60), strict=True):
        page.column_dimensions[letter].width = width
    page.freeze_panes = "B2"
    notes = book.create_sheet("说明")
    for line in instructions:
        notes.append([line])
    notes.column_dimensions["A"].width = 100
    with replacing(path, "wb") as file:
        book.save(file)
    return n_cleaned


def check_shown(
    rows: Iterable[tuple[str, Mapping[str, str | None]]],
    key: Mapping[str, Understanding],
    poems: Iterable[Poem],
) -> None:
    """Every row of a filled sheet shows the poem and the reading that the key says it shows.

    Raises:
        UserError: a row shows another, or the sheet has lost the columns that tell.
    """
    poem_of = {poem.poem_id: poem for poem in poems}
    for place, cells in rows:
        number = _number_of(cells)
        if number not in key:
            continue  # `read_ratings` names it
        reading = key[number]
        poem = poem_of.get(reading.poem_id)
        for column, text in ((POEM, poem.text if poem else ""), (READING, reading.text)):
            if column not in cells:
                raise UserError(
                    f"{place}: the column {column} is missing; keep the sheet's columns"
                )
            if _letters(cells[column] or "") != _letters(text):
                raise UserError(
                    f"{place}: {column} of row {number} is not the one of {reading.item_id!r}, "
                    "which the key names; use the key and the readings of the same export, and "
                    "leave the texts as they were"
                )


def _letters(text: str) -> str:
    """What no spreadsheet program changes: letters and digits that a Chinese one can save."""
    plain = unicodedata.normalize("NFKC", text).encode("gbk", "ignore").decode("gbk")
    return "".join(filter(str.isalnum, plain))


@dataclass(frozen=True)
class Progress:
    """How far a rater has come.

    Attributes:
        missing: row -> dimensions left empty, of the rows that were begun.
        untouched: rows without any score.
    """

    n_rows: int
    missing: Mapping[str, tuple[str, ...]]
    untouched: tuple[str, ...]


def read_ratings(
    rows: Iterable[tuple[str, Mapping[str, str | None]]],
    key: Mapping[str, Understanding],
    rater_id: str,
    rubric: Rubric,
) -> tuple[list[HumanRating], Progress]:
    """The ratings on a filled sheet.

    Args:
        rows: (place, column -> cell).
        key: row number -> the reading it shows.

    Raises:
        UserError: a column or row number that is not the sheet's, a row twice, a cell that
            is no number or off the scale; each with its place.
    """
    ratings, missing, seen = [], {}, dict[str, str]()
    for place, cells in rows:
        number = _row_number(place, cells, key, rubric)
        if number in seen:
            raise UserError(f"{place}: row {number} stands at {seen[number]} already; keep one")
        seen[number] = place
        reading = key[number]
        asked = rubric.only(reading.dimension).names
        scores = {name: _score(f"{place}: {name}", cells.get(name), rubric) for name in asked}
        if empty := tuple(name for name, score in scores.items() if score is None):
            missing[number] = empty
        if len(empty) < len(asked):
            ratings.append(
                HumanRating(
                    item_id=reading.item_id,
                    rater_id=rater_id,
                    rubric=rubric.name,
                    scores=scores,
                    source="human",
                )
            )
    begun = {rating.item_id for rating in ratings}
    untouched = tuple(number for number, reading in key.items() if reading.item_id not in begun)
    partly = {number: names for number, names in missing.items() if number not in untouched}
    return ratings, Progress(len(key), partly, untouched)


def _row_number(
    place: str, cells: Mapping[str, str | None], key: Mapping[str, Understanding], rubric: Rubric
) -> str:
    absent = [column for column in (ROW, *rubric.names) if column not in cells]
    if absent:
        raise UserError(f"{place}: the column {absent[0]} is missing; keep the sheet's columns")
    number = _number_of(cells)
    if number not in key:
        raise UserError(
            f"{place}: there is no row {number!r} in the key, which has {len(key)} rows; "
            "keep the sheet's numbers, and use the key that was written with it"
        )
    return number


def shown_items(
    rows: Iterable[tuple[str, Mapping[str, str | None]]], key: Mapping[str, Understanding]
) -> set[str]:
    """The item ids of the readings that stand on a sheet."""
    numbers = {_number_of(cells) for _, cells in rows}
    return {reading.item_id for number, reading in key.items() if number in numbers}


def _number_of(cells: Mapping[str, str | None]) -> str:
    return (cells.get(ROW) or "").strip().removesuffix(".0")


def _score(where: str, cell: str | None, rubric: Rubric) -> float | None:
    text = normalised(cell or "").strip().removesuffix("分").strip()
    if text in {"", "-", "—", "/", "无"}:
        return None
    try:
        score = float(text)
    except ValueError:
        score = float("nan")
    if not rubric.allows(score):
        raise UserError(
            f"{where} is {cell!r}; allowed is a number from {rubric.lowest:g} to "
            f"{rubric.highest:g}, or an empty cell"
        )
    return score
