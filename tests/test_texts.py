"""What is mended in a text as it came, and what is odd about it; people's and LLMs' alike."""

import json
import random

import pytest
from sections import option

from shiyan import poem, texts
from shiyan.ci.form import load_catalogue
from shiyan.ci.preface import preface_of
from shiyan.collection import files, modern_git
from shiyan.collection.files import PAGE_NUMBER, read_user_poems
from shiyan.config import FilesParams
from shiyan.generation.clean import Asked, clean

MODERN = Asked("modern", "台阶")


def rules_of(text: str) -> list[str]:
    return [oddity.rule for oddity in texts.oddities(text)]


def read(folder, *rows: str, genre="modern", **more):
    path = folder / "poems.jsonl"
    lines = [json.dumps({"id": f"{n}", "text": text} | more) for n, text in enumerate(rows)]
    path.write_text("\n".join(lines), encoding="utf-8")
    catalogue = load_catalogue()
    return read_user_poems(
        path, genre, has_preface=lambda text, cipai: preface_of(text, cipai, catalogue)
    )


# --- mended ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "verse"),
    [
        (r"雨洗台阶\n脚印不走\n\n第四遍\n石头让开", "雨洗台阶\n脚印不走\n\n第四遍\n石头让开"),
        (r"雨洗台阶\\n脚印不走\\n第四遍", "雨洗台阶\n脚印不走\n第四遍"),
        (r"雨洗台阶\r\n脚印不走\r\n第四遍", "雨洗台阶\n脚印不走\n第四遍"),
        (r'"雨洗\"台阶\"\n脚印不走\n第四遍"', '雨洗"台阶"\n脚印不走\n第四遍'),
        (r"雨洗\t台阶\n脚印\n不走" + "\n", "雨洗 台阶\n脚印\n不走"),
    ],
)
def test_line_breaks_as_two_characters_become_line_breaks(tmp_path, text, verse):
    row = read(tmp_path, text).rows[0]
    assert (row.poem.text, row.flags) == (verse, ["escaped breaks"])
    cleaned = clean(text, MODERN)
    assert (cleaned.body, "escaped_breaks" in cleaned.flags) == (verse, True)


@pytest.mark.parametrize(
    "text",
    [
        r"雨洗台阶\n脚印不走",  # One may be a slip, or meant.
        "雨洗台阶\n他写下\\n\n又写\\n\n脚印不走",
        r"在 C:\new\names 里找诗",
        "雨洗台阶/脚印不走",
    ],
)
def test_a_backslash_in_verse_stays(tmp_path, text):
    row = read(tmp_path, text).rows[0]
    assert (row.poem.text, row.flags) == (text, [])


def test_tags_and_entities_are_read_as_what_they_show(tmp_path):
    text = "午后&middot;之二<br>窗&nbsp;&nbsp;开着<br/><br/>钟停了&#x2026;"
    row = read(tmp_path, text).rows[0]
    assert row.poem.text == "午后·之二\n窗 开着\n\n钟停了…"
    assert row.flags == ["html"]
    assert clean(text, MODERN).body == row.poem.text


@pytest.mark.parametrize("text", ["灯 < 月 > 雨", "a&b;窗", "<三> 窗&门"])
def test_marks_that_are_no_mark_up_stay(text):
    assert texts.mended(text) == (text, [])


# --- odd, and kept ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("树影铺在上面\ufeff没有人", "lost_break"),
        ("铁扶手\ue012", "private_use"),
        ("铁\U000f0001扶手", "private_use"),
        ("- 47 -", "page_number"),
        ("第 12 页", "page_number"),
        ("他在k7车站等雨", "stray_letters"),
        ("多了一个ㄌ", "stray_letters"),
        ("风从ネ里吹来", "stray_letters"),
        ("望远하며感谢", "stray_letters"),
    ],
)
def test_what_is_odd_is_flagged_with_its_line_and_kept(tmp_path, line, rule):
    text = f"{line}\n窗开着\n钟停了"
    found = read(tmp_path, text)
    assert found.rows[0].flags == [texts.named(rule)]
    [notice] = found.notices
    assert notice.startswith(texts.named(rule))
    assert ":1: " in notice
    assert len(found.rows[0].poem.text.split("\n")) == 3, "no line is lost"
    assert rule in clean(text, Asked("modern")).flags


@pytest.mark.parametrize(
    "text",
    ["\ufeff窗开着\ufeff\n钟停了", "T恤和X光\nK7次车", "OK 窗开着", "α 与 β", "- 窗 -", "1984"],
)
def test_what_verse_may_hold_is_not_odd(text):
    assert rules_of(text) == []


def test_a_private_character_changes_no_count_and_no_score(tmp_path):
    """Only its maker's font shows it: it goes at the end of a line, else it is □."""
    odd = "铁扶手\ue012 \n \U00100000\n鸽子\ue013替\ufeff我\u200b们"
    assert poem.normalised(odd) == "铁扶手\n\n鸽子□替我们"
    assert poem.normalised(poem.normalised(odd)) == poem.normalised(odd)
    assert poem.normalised("铁扶手\ue012\n鸽子") == poem.normalised("铁扶手\n鸽子")
    assert poem.normalised("\ue012扶手") == "□扶手", "it may have been verse"


def test_odd_lines_are_named_a_few_of_each_kind(tmp_path):
    found = read(tmp_path, *(f"第{n}个ㄌ\n窗开着" for n in range(9)))
    [notice] = found.notices
    assert notice.count("poems.jsonl:") == files.NAMED
    assert notice.endswith("and 4 more")


def test_a_page_number_alone_is_no_poem(tmp_path):
    rows = read(tmp_path, "- 47 -", "第12页", "47", "一").rows
    assert [row.problem for row in rows] == [PAGE_NUMBER, PAGE_NUMBER, None, None]


def test_a_corpus_counts_what_was_mended_and_what_is_odd(tmp_path):
    read(tmp_path, r"雨\n洗\n阶", "多了ㄌ\n又ㄌ", "- 3 -", "窗")
    params = option(FilesParams, "corpus/files", path=str(tmp_path / "poems.jsonl"), genre="modern")
    corpus = files.collect(params)
    assert (corpus.flagged["escaped breaks"], corpus.flagged["stray letters"]) == (1, 1)
    assert corpus.left_out == {PAGE_NUMBER: 1}


def test_an_id_has_no_characters_without_a_shape(tmp_path):
    (tmp_path / "长凳\u200b.pt").write_text("title:长凳\u200b\n\n树影\ufeff铺着", encoding="utf-8")
    [row] = read_user_poems(tmp_path, "modern").rows
    assert (row.poem.poem_id, row.poem.title) == ("长凳.pt", "长凳")
    odd: dict[str, list[str]] = {}
    path = tmp_path / "长凳\u200b.pt"
    assert modern_git.read_poem(path, tmp_path, "甲", odd).poem_id == "长凳.pt"
    assert odd == {"长凳.pt": ["lost break"]}


# --- characters described by their parts ---------------------------------------------------


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("⿰氵丐在石头上", 5),
        ("⿱艹⿰氵丐生", 2),
        ("⿲彳氵亍走", 2),
        ("⿳亠口⿰氵丐走⿰木木", 3),
        ("石⿰氵", 2),
        ("石⿰，头", 3),
        ("石头", 2),
    ],
)
def test_a_character_that_is_described_counts_once(text, n):
    assert len(poem.characters(text)) == n


# --- a preface ------------------------------------------------------------------------------

CI = (
    "柳外风来一笛横。画桥灯暗晚潮平。旧时归燕认帘旌。\n\n"
    "客里光阴浑是梦。酒边心事可怜生。夜深和月听滩声。"
)
NOTE = "小雪后一日，与客饮于溪上，酒阑各赋此调。"
PROSE = "甲申初夏，泊舟桥下。友人寄鹧鸪天数首，灯下读之，因成此解。"


@pytest.mark.parametrize("preface", [PROSE, NOTE, f"{NOTE}\n灯下记。"])
def test_prose_above_a_ci_stands_beside_it(tmp_path, preface):
    row = read(tmp_path, f"{preface}\n\n{CI}", genre="ci", cipai="浣溪沙").rows[0]
    assert row.poem.text == CI
    assert row.poem.beside == {"preface": tuple(preface.split("\n"))}


def test_verse_is_never_taken_for_a_preface(tmp_path):
    """A slip, two ci under one title, two stanzas of which the second is a shorter form."""
    catalogue = load_catalogue()
    slip = CI.replace("画桥", "桥", 1)
    for text in (CI, slip, f"{CI}\n\n{CI}", CI.replace("\n\n", "\n"), CI.partition("\n\n")[2]):
        assert not preface_of(text, "浣溪沙", catalogue)
    single = "江南梦，灯影照人归。桥下水声深似语，楼头月色淡如衣。犹记旧柴扉。"
    spoilt = single.replace("桥下水声", "水")
    assert not preface_of(f"{single}\n\n{single}", "忆江南", catalogue)
    assert not preface_of(f"{spoilt}\n\n{single}", "忆江南", catalogue)
    assert preface_of(f"{NOTE}\n\n{single}", "忆江南", catalogue)
    assert not preface_of(f"{PROSE}\n\n{CI}", "无此调", catalogue)


def test_a_labelled_preface_of_a_reply_is_no_verse():
    cleaned = clean(f"浣溪沙\n\n序：{PROSE}\n\n{CI}", Asked("ci", cipai="浣溪沙"))
    assert cleaned.body.replace("\n\n", "\n").count("\n") == 5
    assert "preface" in cleaned.flags


# --- time -------------------------------------------------------------------------------------


def test_no_rule_changes_a_text_that_is_whole():
    """Lines of one's own of Han characters and marks, a hundred times."""
    rng = random.Random(0)
    for _ in range(100):
        lines = [
            "".join(rng.choices("灯雨山水云月风人，。、！", k=9)) for _ in range(rng.randint(1, 9))
        ]
        text = "\n".join(lines)
        assert texts.mended(text) == (text, [])
        assert rules_of(text) == []
        assert poem.normalised(text) == text
