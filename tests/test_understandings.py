"""Readings that a user brings along."""

import json

import pytest

from shiyan.collection import understandings
from shiyan.errors import UserError
from shiyan.judging.rubric import POLLER

ONE = {"item_id": "u1", "poem_id": "p1", "reader": "甲", "text": "写灯。"}


def write(path, *rows):
    path.write_text("\n".join(json.dumps(r, ensure_ascii=False) for r in rows), encoding="utf-8")
    return str(path)


def collect(path):
    return understandings.collect(path, {"p1", "p2"}, POLLER)


def test_without_a_file_there_are_none():
    assert collect(None) == ([], [])


def test_an_empty_file_is_told(tmp_path):
    path = write(tmp_path / "u.jsonl")
    assert collect(path) == ([], [f"{path} holds no reading"])


def test_what_is_left_out_is_filled_in(tmp_path):
    alone = {"item_id": "u2", "dimension": "修辞", "source": "generated", "remark": "?"}
    path = write(tmp_path / "u.jsonl", ONE, ONE | alone)
    found, notices = collect(path)
    assert [(u.dimension, u.source) for u in found] == [("all", "human"), ("修辞手法", "generated")]
    assert notices == [f"{path}: ignored remark"]


def test_a_table_names_its_columns_in_chinese(tmp_path):
    path = tmp_path / "u.csv"
    path.write_text(
        '编号,诗编号,读者,理解,维度\n007,p1,乙,"写灯，\n写雨。",全部\n', encoding="utf-8-sig"
    )
    ((found,), _) = collect(str(path))
    assert (found.item_id, found.text, found.dimension) == ("007", "写灯，\n写雨。", "all")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([ONE, ONE], r"item_id 'u1', at \S+:1 and at \S+:2"),
        ([ONE | {"poem_id": "p9"}], r":1: the reading 'u1' is of the poem 'p9', which is not"),
        ([ONE | {"text": " "}], r":1 has no text \(text, reading"),
        ([{"item_id": "u1"}], r":1 has no poem_id"),
        ([ONE | {"source": "somebody"}], r":1: source is 'somebody'; allowed are human"),
        (
            [ONE | {"dimension": "内容,语言"}],
            r":1: dimension is '内容,语言'; allowed are all, 内容",
        ),
        ([ONE | {"text": ["a", "b"]}], r":1: text is \['a', 'b'\]; one text is wanted"),
    ],
)
def test_what_cannot_be_judged_names_its_place(tmp_path, rows, words):
    with pytest.raises(UserError, match=words):
        collect(write(tmp_path / "u.jsonl", *rows))
