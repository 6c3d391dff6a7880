"""Personas of a user's file and of the project."""

import json

import pytest

from shiyan.collection import personas
from shiyan.errors import UserError

ONE = {"poet_id": "甲", "basic_information": "a", "views_on_poetry": "b", "critics_comments": "c"}


def write(path, *rows):
    path.write_text("\n".join(json.dumps(r, ensure_ascii=False) for r in rows), encoding="utf-8")
    return str(path)


def test_further_fields_are_ignored_with_one_notice(tmp_path):
    path = write(tmp_path / "p.jsonl", ONE | {"x": 1}, ONE | {"poet_id": "乙", "x": 2})
    found, notices = personas.collect(path)
    assert [p.poet_id for p in found] == ["甲", "乙"]
    assert notices == [f"{path}: ignored the fields x"]


def test_a_poet_with_two_personas_is_an_error_with_both_places(tmp_path):
    with pytest.raises(UserError, match=r"'甲' has two personas, at \S+:1 and at \S+:2"):
        personas.collect(write(tmp_path / "p.jsonl", ONE, ONE))


def test_a_line_that_is_no_persona_names_itself(tmp_path):
    with pytest.raises(UserError, match=r"p.jsonl:1 is not a Persona: 'views_on_poetry' is miss"):
        personas.collect(write(tmp_path / "p.jsonl", {"poet_id": "甲", "basic_information": "a"}))
    with pytest.raises(UserError, match="does not exist"):
        personas.collect(str(tmp_path / "absent.jsonl"))


def test_the_projects_own_are_read_where_no_file_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(personas, "BUNDLED", tmp_path)
    assert personas.collect(None) == ([], [])
    write(tmp_path / "b.jsonl", ONE)
    write(tmp_path / "a.jsonl", ONE | {"poet_id": "乙"})
    assert [p.poet_id for p in personas.collect(None)[0]] == ["乙", "甲"]
