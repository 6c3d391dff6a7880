"""Ratings as raters hand them in."""

import io
import json

import pytest
from openpyxl import Workbook

from shiyan.collection import ratings
from shiyan.errors import UserError
from shiyan.judging.rubric import RUBRICS

HEADER = "item_id,rater_id,内容,语言,备注\n"


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return str(path)


def collect(path):
    return ratings.collect(path, RUBRICS)


def test_every_column_named_as_a_dimension_is_one_and_an_empty_cell_is_null(tmp_path):
    path = write(tmp_path / "r.csv", HEADER + "a,r1,80,,好\na,r2,７５.5,NA,\nb,r1,-,－,\n")
    found, notices = collect(path)
    assert [(r.item_id, r.rater_id, r.scores) for r in found] == [
        ("a", "r1", {"内容": 80.0, "语言": None}),
        ("a", "r2", {"内容": 75.5, "语言": None}),
        ("b", "r1", {"内容": None, "语言": None}),
    ]
    assert {(r.rubric, r.source) for r in found} == {("poller", "human")}
    assert notices == [f"{path}: ignored 备注"]


def test_jsonl_in_the_form_of_the_record_and_flat(tmp_path):
    rows = [
        {
            "item_id": "a",
            "rater_id": "r",
            "scores": {"内容": 80, "语言": None},
            "rubric": "poller_ci",
        },
        {"item_id": 7, "rater_id": "r", "内容": 60, "source": "published"},
    ]
    lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    found, _ = collect(write(tmp_path / "r.jsonl", lines))
    assert found[0].scores == {"内容": 80.0, "语言": None}
    assert (found[1].item_id, found[1].scores["内容"], found[1].source) == ("7", 60, "published")
    assert [r.rubric for r in found] == ["poller_ci", "poller"]


def test_a_workbook_in_chinese(tmp_path):
    book = Workbook()
    for row in (["编号", "评分人", "内容"], ["a", "r", 80], ["b", "r", None]):
        book.active.append(row)
    stream = io.BytesIO()
    book.save(stream)
    path = tmp_path / "r.xlsx"
    path.write_bytes(stream.getvalue())
    found, _ = collect(str(path))
    assert [(r.item_id, r.scores) for r in found] == [("a", {"内容": 80}), ("b", {"内容": None})]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEADER + "a,r1,80,9O,\na,r2,70,80,\n", r"r.csv:2, row 1: 语言 is '9O', a number or"),
        (HEADER + "a,r1,80,,\na,r1,81,,\n", r"'r1' rates 'a' twice, at \S+:2, row 1 and at"),
        (HEADER + ",r1,80,,\n", "row 1: item_id is empty"),
        (HEADER + "a,r1,,,\n", "holds no score"),
        (HEADER, "holds no rating"),
        ("item_id,内容\na,80\n", "no column rater_id .* it has item_id, 内容"),
        ("item_id,rater_id,source,内容\na,r,me,80\n", "source is 'me'; allowed are human"),
        (HEADER + "a,r1,80,90,好,多\n", "6 cells where the header names 5"),
        (HEADER + "a,r1,inf,,\nb,r1,80,,\n", "内容 is 'inf'"),
        (HEADER + "a,r1,80-85,90,\n", "r.csv:2, row 1: 内容 is '80-85', a number"),
        (HEADER + "a,r1,90分,90,\n", "r.csv:2, row 1: 内容 is '90分', a number"),
        (HEADER + "a,r1,800,90,\n", "r.csv:2, row 1: 内容 is 800; allowed is 0 to 100"),
        (HEADER + "a,r1,-81,90,\n", "r.csv:2, row 1: 内容 is -81; allowed is 0 to 100"),
        ("item_id,rater_id,内荣\na,r,80\n", "r.csv:2, row 1: '内荣' has '80' but is no dimension"),
        ("item_id,rater_id,内容,Content\na,r,80,80\n", "row 1 has 内容 twice"),
        (
            "item_id,rater_id,rubric,内容\na,r,poler,80\n",
            "r.csv:2, row 1: there is no rubric 'poler'; allowed are poller, poller_ci, ci_quality",
        ),
        (
            "item_id,rater_id,rubric,内容\na,r,poller,80\na,r,poller_ci,80\n",
            r"'r' rates 'a' twice, .*\(rubric poller and poller_ci\)",
        ),
    ],
)
def test_a_wrong_cell_is_named(tmp_path, text, said):
    with pytest.raises(UserError, match=said):
        collect(write(tmp_path / "r.csv", text))


def test_what_is_no_workbook_is_named(tmp_path):
    with pytest.raises(UserError, match=r"r\.xlsx is no \.xlsx workbook"):
        collect(write(tmp_path / "r.xlsx", "damaged"))


def test_no_file_no_ratings():
    assert collect(None) == ([], [])
