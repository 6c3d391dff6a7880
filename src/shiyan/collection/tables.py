"""CSV and XLSX as rows of strings: nothing is guessed to be a number, a date or missing."""

import csv
import io
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from shiyan.collection.encoding import decoded
from shiyan.errors import UserError
from shiyan.jsonl import read_objects

DELIMITERS = ",;\t|"
ZIP = b"PK\x03\x04"
OLD_OFFICE = b"\xd0\xcf\x11\xe0"
_ESCAPED = re.compile("_x(?:(?P<return>000[Dd])_(?:\r?\n)?|(?P<code>00[01][0-9A-Fa-f]|005[Ff])_)")


@dataclass(frozen=True)
class Row:
    """One row below the header.

    Attributes:
        place: file:line of the row's last line, and its number among the rows from 1.
        cells: column -> text; None is an empty cell, and nothing else is.
        problem: why the row's cells cannot be trusted.
    """

    place: str
    cells: dict[str, str | None]
    problem: str | None = None


@dataclass(frozen=True)
class Table:
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    notices: tuple[str, ...] = ()


def read_table(path: Path, raw: bytes, known: Sequence[str]) -> Table:
    """A .csv, .tsv or .xlsx, told apart by what is in it, not by its name.

    Args:
        known: column names that may be expected; they tell the separator.

    Raises:
        UserError: another kind of file, a broken quote, two columns of one name.
    """
    if raw.startswith(OLD_OFFICE):
        raise UserError(f"{path} is an old .xls workbook; save it as .xlsx or as CSV UTF-8")
    if raw.startswith(ZIP):
        return _read_workbook(path, raw)
    text, encoding = decoded(raw, str(path))
    notices = () if encoding == "UTF-8" else (f"{path} was read as {encoding}",)
    return _read_csv(path, text, known, notices)


def read_rows(path: Path, known: Sequence[str]) -> list[tuple[str, Mapping[str, Any]]]:
    """(place, column -> value) of a .jsonl, .csv or .xlsx file, a row an object.

    Args:
        known: column names that may be expected; they tell a CSV's separator.

    Raises:
        UserError: as `read_table` and `jsonl.read_objects`, or a row that cannot be trusted.
    """
    if path.suffix.lower() == ".jsonl":
        return [(f"{path}:{number}", value) for number, value in read_objects(path)]
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} could not be read: {error.strerror}") from error
    table = read_table(path, raw, known)
    names = {name.casefold() for name in known}
    fits_its_name = path.suffix.lower() != ".xlsx" or raw.startswith(ZIP)
    if not fits_its_name and not any(column.casefold() in names for column in table.columns):
        raise UserError(f"{path} is no .xlsx workbook, whatever its name; save it anew as one")
    for row in table.rows:
        if row.problem:
            raise UserError(f"{row.place}: {row.problem}")
    return [(row.place, row.cells) for row in table.rows]


def _read_csv(path: Path, text: str, known: Sequence[str], notices: tuple[str, ...]) -> Table:
    # Poems are longer than the csv module's limit of 128 kB a cell.
    csv.field_size_limit(2**31 - 1)
    if not text.strip():
        raise UserError(f"{path} is empty; its first line must name the columns")
    delimiter = _delimiter(text, known)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    records: list[tuple[str, list[str]]] = []
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                records.append((f"{path}:{reader.line_num}", cells))
    except csv.Error as error:
        raise UserError(
            f"{path}:{reader.line_num} is not valid CSV ({error}); put a cell with a line break, "
            'a quote or the separator in "…" and double the quotes inside it'
        ) from None
    return _table(path, records, notices)


def _delimiter(text: str, known: Sequence[str]) -> str:
    """The separator that makes the header name the most known columns, then the most columns."""
    names = {name.casefold() for name in known}

    def fits(delimiter: str) -> tuple[int, int]:
        try:
            header = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
        except (csv.Error, StopIteration):
            return -1, 0
        return sum(cell.strip().casefold() in names for cell in header), len(header)

    return max(DELIMITERS, key=fits)


def _read_workbook(path: Path, raw: bytes) -> Table:
    from openpyxl import load_workbook
    from openpyxl.utils.exceptions import InvalidFileException

    try:
        book = load_workbook(io.BytesIO(raw), read_only=True, data_only=True)
        for sheet in book.worksheets:
            # A file may understate its own size, and rows beyond it would be lost.
            sheet.reset_dimensions()
        sheets = [sheet for sheet in book.worksheets if any(_full_rows(sheet))]
        records = [
            (f"{path} row {number}", cells)
            for sheet in sheets[:1]
            for number, cells in _full_rows(sheet)
        ]
    except (InvalidFileException, zipfile.BadZipFile, KeyError, ValueError, OSError, EOFError):
        raise UserError(
            f"{path} is a zip file but no readable .xlsx workbook; save the sheet as CSV UTF-8"
        ) from None
    notices = () if len(sheets) < 2 else (f"{path}: only the sheet {sheets[0].title!r} was read",)
    return _table(path, records, notices)


def _full_rows(sheet: object) -> Iterator[tuple[int, list[str]]]:
    rows = sheet.iter_rows()  # type: ignore[attr-defined]
    for number, row in enumerate(rows, start=1):
        cells = [_as_text(cell.value, cell.number_format or "") for cell in row]
        if any(cell.strip() for cell in cells):
            yield number, cells


def _as_text(value: object, number_format: str) -> str:
    """A workbook's cell as a person reads it there: 0.85 in a cell of per cent is 85%."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int | float) and "%" in number_format:
        return f"{100 * value:.10g}%"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == value.time().min else str(value)
    return str(value)


def _table(
    path: Path, records: Sequence[tuple[str, Sequence[str]]], notices: tuple[str, ...]
) -> Table:
    if not records:
        raise UserError(f"{path} is empty; its first row must name the columns")
    columns = [cell.strip() for cell in records[0][1]]
    while columns and not columns[-1]:
        columns.pop()
    named = [column for column in columns if column]
    if twice := next((column for column in named if named.count(column) > 1), None):
        raise UserError(f"{path} has two columns named {twice!r}; rename one of them")
    rows = []
    for number, (place, cells) in enumerate(records[1:], start=1):
        where = place if " row " in place else f"{place}, row {number}"
        surplus = [cell for cell in cells[len(columns) :] if cell.strip()]
        problem = None
        if surplus:
            problem = (
                f"{len(cells)} cells where the header names {len(columns)}; put a cell that "
                'holds the separator in "…"'
            )
        values = [*cells, *[""] * len(columns)]
        pairs = zip(columns, values, strict=False)
        rows.append(Row(where, {c: unescaped(v) or None for c, v in pairs if c}, problem))
    return Table(tuple(named), tuple(rows), notices)


def unescaped(cell: str) -> str:
    """A cell without the escapes that spreadsheets write for control characters.

    `_x000D_` is a carriage return that came with a line break; before one it is
    that same break, alone it is a break of its own.
    """
    if "_x" not in cell:
        return cell
    return _ESCAPED.sub(lambda m: "\n" if m["return"] else chr(int(m["code"], 16)), cell)
