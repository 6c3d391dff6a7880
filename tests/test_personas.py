"""Personas of a user's file and of the project."""

import csv
import json

import pytest
from shared import SHARED, needs_shared

from shiyan.collection import personas
from shiyan.errors import UserError
from shiyan.records import Persona, Poem

ONE = {"poet_id": "甲", "basic_information": "a", "views_on_poetry": "b", "critics_comments": "c"}


def write(path, *rows):
    path.write_text("\n".join(json.dumps(r, ensure_ascii=False) for r in rows), encoding="utf-8")
    return str(path)


def test_further_fields_are_ignored_with_one_notice(tmp_path):
    path = write(tmp_path / "p.jsonl", ONE | {"x": 1}, ONE | {"poet_id": "乙", "x": 2})
    found, notices = personas.collect(path)
    assert [p.poet_id for p in found] == ["甲", "乙"]
    assert notices == [
        f"{path}: ignored the fields x",
        f"{path}: not of 1,000 to 2,500 characters, as the paper's personas are: 甲 (3), 乙 (3)",
    ]


def test_an_empty_file_is_told(tmp_path):
    path = write(tmp_path / "p.jsonl")
    assert personas.collect(path) == ([], [f"{path} holds no persona"])


def test_personas_that_fit_the_corpus_badly_are_told():
    line = "灯把雨数了一遍又一遍"
    poem = Poem(poem_id="p", title="", text=line, genre="modern", author="甲")
    people = [
        Persona.model_validate(ONE | changes)
        for changes in ({"critics_comments": f"人说“{line}”最好"}, {"poet_id": "乙"})
    ]
    assert personas.misfits("p.jsonl", people, [poem]) == [
        f"p.jsonl: the persona of 甲 quotes a poem that may be judged ({line}), "
        "which gives it away",
        "p.jsonl: no poem of the corpus is by 乙",
    ]
    assert personas.misfits(None, people, [poem]) == [], "the project's own serve many corpora"


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


def test_a_table_of_personas(tmp_path):
    path = tmp_path / "p.csv"
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["诗人", "基本信息", "诗歌观点", "评论", "来源"])
        writer.writerow(["甲", "渔民\n出海", "慢", "好", "访谈\n诗集序"])
    ((found,), _) = personas.collect(str(path))
    assert found.basic_information == "渔民\n出海"
    assert found.sources == ("访谈", "诗集序")
    path.write_text("诗人,基本信息\n甲,渔民\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"p.csv:2, row 1 is not a Persona: 'views_on_poetry'"):
        personas.collect(str(path))


def poem(text: str) -> Poem:
    return Poem(poem_id="p", title="", text=text, genre="modern", author="甲")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("船在雾里数自己的桨声", ["船在雾里数自己的桨声"]),
        ("船在雾里数，自己的桨", ["船在雾里数自己的桨"]),
        ("船在雾里\n数自己的桨声", ["船在雾里数自己的桨声"]),
        ("灯\n船在雾里", []),
        ("船在水里数自己的", []),
    ],
)
def test_a_quotation_gives_a_judged_poem_away(text, found):
    told = Persona(
        poet_id="甲",
        basic_information="渔民",
        views_on_poetry="他写过“船在雾里数自己的桨声”这样的句子",
        critics_comments="",
    )
    assert personas.quotations(told, [poem(text)]) == found


@pytest.mark.parametrize(
    ("lines", "said", "found"),
    [
        (
            "风吹过\n雨打过\n人走过\n都忘了",
            "风吹过/雨打过/人走过/都忘了",
            ["风吹过雨打过人走过都忘了"],
        ),
        ("我来\n我见\n我走\n天黑了", "他写：我来，我见，我走，天黑了。", ["我来我见我走天黑了"]),
        ("船开了\n我是一条河流\n灯灭了", "那句“我是一条河流”传遍全城", ["我是一条河流"]),
        ("船开了\n我是一条河流\n灯灭了", "那句「我是一条河流，」传遍", ["我是一条河流"]),
        ("门开着\n\n灯在里面\n谁也不说话", "他问“灯在里面，人呢？”", ["灯在里面"]),
        ("船开了\n我是一条河流\n灯灭了", "他说自己我是一条河流", []),
        ("船开了\n我是一条河流\n灯灭了", "他写“一条河流”与“灯灭了”", []),
    ],
)
def test_short_lines_are_quoted_too(lines, said, found):
    """Several in a row, or a whole one in quotation marks."""
    told = Persona.model_validate(ONE | {"critics_comments": said})
    assert personas.quotations(told, [poem(lines)]) == found


def test_the_projects_own_have_the_papers_length_and_sources():
    found, notices = personas.collect(None)
    assert notices == []
    assert all(1000 <= personas.length(p) <= 2500 and p.sources for p in found)
    assert {"徐志摩", "闻一多", "戴望舒", "苏轼"} <= {p.poet_id for p in found}


@needs_shared
def test_the_projects_own_quote_no_modern_poem():
    rows = (
        json.loads(line)
        for line in (SHARED / "data/modern_pd.jsonl").read_text(encoding="utf-8").splitlines()
    )
    poems = [poem(row["text"]) for row in rows]
    assert not {
        p.poet_id: q for p in personas.collect(None)[0] if (q := personas.quotations(p, poems))
    }
