"""The parser of poems, against counts made by hand."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shared import BUGS, SHARED, needs_shared

from shiyan import poem
from shiyan.jsonl import read_objects
from shiyan.poem import Apart

CLEAN = "窗台上的杯子\n装着昨天的雨\n\n我把它倒掉\n它又落下来"


@pytest.mark.parametrize(
    "dirty",
    [
        "\ufeff" + CLEAN,
        CLEAN.replace("\n", "\r\n"),
        CLEAN.replace("\n", "\r\r\n"),
        CLEAN.replace("\n", "\r"),
        CLEAN.replace("\n", "\u2028"),
        "　　" + CLEAN.replace("\n", "　\n　　"),
        CLEAN.replace("\n\n", "\n\u3000\t\u00a0\n\u200b\n\n"),
        "\n\n" + CLEAN + "\n \n",
        CLEAN.replace("杯", "\u200b杯\ufe0f"),
    ],
)
def test_how_a_text_was_saved_does_not_change_it(dirty):
    assert poem.normalised(dirty) == CLEAN


def test_counts_by_hand():
    counts = poem.counts("杯", CLEAN + "，\n（笑） Ok")
    assert counts == poem.Counts(
        stanzas=2, lines=5, lines_with_title_and_blanks=7, characters=23, symbols=28
    )
    assert poem.counts("", "").lines_with_title_and_blanks == 0


def test_a_rare_character_is_one_and_a_lacuna_is_none():
    assert poem.characters("𫛛□々〇，a1") == "𫛛々〇"


def test_canonically_equivalent_texts_are_one_but_full_width_marks_stay():
    assert poem.normalised("\uf9d0，") == unicodedata.normalize("NFC", "\uf9d0") + "，"


def test_blanks_inside_a_line_become_one_space():
    assert poem.lines("走　　过\u00a0\u00a0去") == ("走 过 去",)


def test_the_first_line_is_the_title_with_or_without_a_blank_line():
    assert poem.titled("\ufeff杯\n\n" + CLEAN) == ("杯", CLEAN)
    assert poem.titled("杯\n" + CLEAN) == ("杯", CLEAN)
    assert poem.titled(" \n") == ("", "")
    assert poem.titled("杯") == ("杯", "")


@given(st.text(alphabet="诗a，\n\r\t \u3000\u200b\ufeff\u0301e", max_size=40))
def test_normalising_twice_changes_nothing_and_keeps_every_character(text):
    once = poem.normalised(text)
    assert poem.normalised(once) == once
    assert poem.characters(once) == poem.characters(text)
    assert poem.counts("", once) == poem.counts("", text)


@given(st.lists(st.text(alphabet="诗一二十1IV.注：——“”", min_size=1, max_size=6), max_size=8))
def test_parts_lose_no_line(drawn):
    text = "\n\n".join(drawn)
    verse, apart = poem.parts(text)
    assert sorted([*poem.lines(verse), *(a.line for a in apart)]) == sorted(poem.lines(text))
    assert bool(verse) == bool(poem.lines(text))


@pytest.mark.parametrize(
    ("text", "apart"),
    [
        ("——赠老陈\n\n门开着\n风进来", ["dedication"]),
        ("“门是墙的借口。”\n——某书\n\n门开着\n风进来", ["epigraph", "epigraph"]),
        ("题记：写在门上\n\n门开着\n风进来", ["epigraph"]),
        ("一\n门开着\n\n二\n风进来", ["section", "section"]),
        ("1\n门开着\n2\n风进来", ["section", "section"]),
        ("五\n门开着\n\n八\n风进来", ["section", "section"]),  # an excerpt keeps its numbers
        ("Ⅰ\n门开着\n\nⅡ\n风进来", ["section", "section"]),
        ("门开着\n风进来\n\n2001.5.3 于旧居", ["date"]),
        ("门开着\n风进来\n一九三五年五月七日夜", ["date"]),
        ("门开着\n风进来\n\n一九三五年春", ["date"]),
        ("门开着\n风进来\n（1935年）", ["date"]),
        ("门开着\n风进来\n\n注：门，木门。\n①风，北风。", ["note", "note"]),
        ("门开着\n风进来\n\n选自《门》", ["source"]),
    ],
)
def test_what_stands_beside_the_verse_is_kept_apart(text, apart):
    verse, found = poem.parts(text)
    assert poem.lines(verse) == ("门开着", "风进来")
    assert [a.kind for a in found] == apart


@pytest.mark.parametrize(
    "verse",
    [
        "塔没有说话\n——它问一次海\n\n海替它翻译",  # a dash begins a line of verse
        "注：此地无人\n注：此人无地",  # all there is
        "数一数\n一\n二\n三",  # counting aloud
        "一\n门开着",  # a lone numeral
        "二\n门开着\n一\n风进来",  # numbers that do not grow
        "那年\n一九九七年的水位线\n高过额头",
        "门开着\n一九九七年",  # a bare year that closes a stanza
        "门开着\n一，二，三",
        "“门开着”\n\n——风进来了，它说",
    ],
)
def test_what_could_be_verse_stays_verse(verse):
    assert poem.parts(verse) == (verse, ())


@pytest.mark.parametrize(
    ("date", "year"),
    [
        ("1999年05", 1999),
        ("19210207", 1921),
        ("192510", 1925),
        ("1918", 1918),
        ("１９３６.5.3", 1936),
        ("2012｜2013", None),  # a range
        ("1931-1932", None),
        ("0090715", None),
        ("311", None),
        ("19219", None),
        ("", None),
        (None, None),
    ],
)
def test_a_year_is_read_only_where_it_is_sure(date, year):
    assert poem.year_of(date) == year


def test_a_title_in_a_file_however_it_was_saved():
    saved = "\ufeff" + f"空杯\n\n{CLEAN}\n".replace("\n", "　\r\n　　")
    assert poem.titled(saved) == poem.titled(f"空杯\n\n{CLEAN}") == ("空杯", CLEAN)


def test_all_that_stands_beside_the_verse_of_one_poem():
    text = (
        "旧桥\n——给守桥人\n\n“桥是河的一句话。”\n——桥头的碑\n\n1.\n\n石头数着脚\n脚数着石头\n\n2.\n\n"
        "一九六三年的水印\n还在我的膝上\n\n二〇〇八年十月五日，于旧桥\n\n注：旧桥，村名。\n选自《旧桥》"
    )
    verse, apart = poem.parts(poem.titled(text)[1])
    assert (len(poem.stanzas(verse)), len(poem.lines(verse))) == (2, 4)
    assert [a.kind for a in apart] == (
        ["dedication", "epigraph", "epigraph", "section", "section", "date", "note", "source"]
    )
    assert Apart("section", "1.") in apart


@needs_shared
def test_bug_01_and_11_from_the_shared_cases():
    texts = [
        (BUGS / "01-bom-crlf-fullwidth" / name).read_bytes().decode("utf-8")
        for name in ("clean.txt", "dirty.txt")
    ]
    assert poem.titled(texts[0]) == poem.titled(texts[1])
    assert poem.counts(*poem.titled(texts[1])).characters == 58
    notes = (BUGS / "11-epigraph-notes-sections" / "notes.txt").read_text(encoding="utf-8")
    verse, apart = poem.parts(poem.titled(notes)[1])
    assert (len(poem.stanzas(verse)), len(poem.lines(verse))) == (2, 6)
    assert [a.kind for a in apart] == (
        ["dedication", "epigraph", "epigraph", "section", "section", "date", "note", "source"]
    )
    assert Apart("section", "1.") in apart


BY_HAND = {
    # poem: (stanzas, lines, lines with the title and the blank lines, characters)
    "mpd-0002": (2, 8, 10, 75),
    "mpd-0057": (1, 4, 5, 22),
    "mpd-0060": (1, 15, 16, 91),
    "mpd-0062": (3, 10, 13, 61),  # three section numbers are no lines
    "mpd-0082": (1, 6, 7, 32),
    "mpd-0109": (1, 15, 16, 133),
    "mpd-0159": (2, 8, 10, 82),
    "mpd-0231": (4, 8, 12, 68),
    "mpd-0277": (5, 11, 16, 103),  # five section numbers, without blank lines after them
    "mpd-0411": (4, 18, 22, 128),
}


@needs_shared
def test_ten_poems_counted_by_hand():
    rows = read_objects(SHARED / "data" / "modern_pd.jsonl")
    poems = {row["id"]: row for _, row in rows if row["id"] in BY_HAND}
    counted = {
        poem_id: poem.counts(row["title"], poem.parts(row["text"])[0])
        for poem_id, row in poems.items()
    }
    assert {
        poem_id: (c.stanzas, c.lines, c.lines_with_title_and_blanks, c.characters)
        for poem_id, c in counted.items()
    } == BY_HAND


def test_without_punctuation_a_mark_inside_a_line_leaves_a_blank():
    assert poem.unpunctuated("灯亮，风起。\n《夜》\n\n——雨") == "灯亮 风起\n夜\n\n雨"
    assert poem.unpunctuated("……") == ""
