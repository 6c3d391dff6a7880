"""Sheets as people save them."""

import io
import zipfile
from pathlib import Path

import pytest
from openpyxl import Workbook

from shiyan.collection.tables import read_table, unescaped
from shiyan.errors import UserError

KNOWN = ("id", "编号", "正文", "text", "title")


def read(text: str | bytes):
    raw = text if isinstance(text, bytes) else text.encode()
    return read_table(Path("诗.csv"), raw, KNOWN)


def workbook(*rows, second=()) -> bytes:
    book = Workbook()
    for row in rows:
        book.active.append(row)
    if second:
        sheet = book.create_sheet("其他")
        for row in second:
            sheet.append(row)
    stream = io.BytesIO()
    book.save(stream)
    return stream.getvalue()


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_breaks_quotes_and_separators_inside_a_cell_are_its_own(separator):
    header = separator.join(["编号", "正文", "注"])
    table = read(f'\ufeff{header}\r\n7{separator}"门，\n""开""{separator}着\n"{separator}\r\n')
    assert table.columns == ("编号", "正文", "注")
    assert table.rows[0].cells == {"编号": "7", "正文": f'门，\n"开"{separator}着\n', "注": None}


def test_only_an_empty_cell_is_missing():
    table = read("id,title,text\n007,NA,无\n1e5,null,NaN\nNA,1984,\n")
    assert [tuple(row.cells.values()) for row in table.rows] == (
        [("007", "NA", "无"), ("1e5", "null", "NaN"), ("NA", "1984", None)]
    )
    assert [row.place for row in table.rows] == (
        ["诗.csv:2, row 1", "诗.csv:3, row 2", "诗.csv:4, row 3"]
    )


def test_blank_rows_are_no_rows_and_short_ones_lack_cells():
    table = read("id,text\n\n,\n1\n")
    assert [row.cells for row in table.rows] == [{"id": "1", "text": None}]


def test_a_row_with_a_cell_too_many_is_not_trusted():
    table = read("id,text\n1,门开着,风来\n2,门,\n")
    assert "3 cells where the header names 2" in table.rows[0].problem
    assert table.rows[1].problem is None


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ('id,text\n1,"门', "诗.csv:2 is not valid CSV"),  # a quote that nobody closes
        ('id,text\n1,"门"开\n', "诗.csv:2 is not valid CSV"),
        ("id,id\n1,2\n", "two columns named 'id'"),
        ("", "is empty"),
        (b"\xd0\xcf\x11\xe0rest", "old .xls workbook"),
        (b"PK\x03\x04rest", "no readable .xlsx"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_sentence(raw, said):
    with pytest.raises(UserError, match=said) as caught:
        read(raw)
    assert "\n" not in str(caught.value)


def test_a_cell_of_any_length_is_read():
    assert len(read("id,text\n1," + "诗" * 200_000).rows[0].cells["text"]) == 200_000


def test_a_workbook_is_known_by_its_bytes_and_its_numbers_stay_as_shown():
    raw = workbook(["id", "text", None], [7, "门_x000D_\n开", None], [1.5, True, None], [None] * 3)
    table = read(raw)
    assert [row.cells for row in table.rows] == (
        [{"id": "7", "text": "门\n开"}, {"id": "1.5", "text": "TRUE"}]
    )
    assert table.rows[0].place == "诗.csv row 2"


def test_a_cell_of_per_cent_is_read_as_it_is_shown():
    book = Workbook()
    book.active.append(["id", "text"])
    for number, (value, form) in enumerate(
        [(0.85, "0%"), (0.855, "0.0%"), (1, "0%"), (0.85, "0.00")]
    ):
        book.active.append([f"p{number}", value])
        book.active.cell(number + 2, 2).number_format = form
    stream = io.BytesIO()
    book.save(stream)
    found = [row.cells["text"] for row in read(stream.getvalue()).rows]
    assert found == ["85%", "85.5%", "100%", "0.85"]


@pytest.mark.parametrize("told", ["A1", "A1:B2"])
def test_a_workbook_that_understates_its_size_is_read_whole(told):
    rows = [("id", "text"), *((f"p{n}", f"第{n}行") for n in range(5))]
    whole = io.BytesIO(workbook(*rows))
    changed = io.BytesIO()
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(changed, "w") as target:
        for name in source.namelist():
            part = source.read(name)
            if name == "xl/worksheets/sheet1.xml":
                assert b'<dimension ref="A1:B6"' in part
                part = part.replace(b'ref="A1:B6"', f'ref="{told}"'.encode())
            target.writestr(name, part)
    assert len(read(changed.getvalue()).rows) == 5


def test_a_second_sheet_is_not_passed_over_in_silence():
    table = read(workbook(["id", "text"], ["1", "门"], second=[["x"]]))
    assert table.notices == ("诗.csv: only the sheet 'Sheet' was read",)


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("门_x000D_\n开", "门\n开"),
        ("门_x000D_开", "门\n开"),
        ("门_x000d_\r\n_x000D_\n开", "门\n\n开"),
        ("_x005F_x000D_", "_x000D_"),
        ("a_x0041_b", "a_x0041_b"),  # a letter that nobody need escape
    ],
)
def test_escapes_of_spreadsheets(cell, text):
    assert unescaped(cell) == text
