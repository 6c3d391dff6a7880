"""From a text of any shape to characters and breaks."""

import pytest
from ci_fakes import HUANXISHA, RUMENGLING

from shiyan.ci.form import load_catalogue
from shiyan.ci.reading import lengths, read_ci


@pytest.fixture(scope="module")
def catalogue():
    return load_catalogue()


WHOLE = (6, 6, 5, 6, 2, 2, 6)
PLAIN = "昨夜小园新雨|吹落一庭花絮|燕子不归来|谁与旧巢同住|归去|归去|山外暮云无数"


@pytest.mark.parametrize(
    "text",
    [
        RUMENGLING,
        PLAIN.replace("|", "\n"),
        PLAIN.replace("|", "\r\n"),
        PLAIN.replace("|", "."),
        PLAIN.replace("|", "．") + "．",
        f"如梦令．夜雨\n{PLAIN.replace('|', '．')}．",
        PLAIN.replace("|", "! "),
        PLAIN.replace("|", "——"),
        PLAIN.replace("|", "……"),
        PLAIN.replace("|", "　"),
        PLAIN.replace("|", " / "),
        "\ufeff　　" + RUMENGLING,
        f"“{RUMENGLING}”",
        f"如梦令·夜雨\n\n{RUMENGLING}",
        f"如梦令\n夜雨\n{RUMENGLING}",
        f"如梦令\n[清] 某某\n{RUMENGLING}",
        f"**如梦令·夜雨**\n\n{RUMENGLING}\n\n共32字，格律工整。",
        f"好的，这是一首如梦令：\n\n{RUMENGLING}\n\n注：第一句写雨。\n又一句。",
        "Here is the ci:\n" + RUMENGLING,
        "1. " + PLAIN.replace("|", "\n2. "),
        "| 句 | 词 | 平仄 |\n|--|--|--|\n"
        + "\n".join(f"| {n} | {x} | 仄仄平 |" for n, x in enumerate(PLAIN.split("|"))),
        "平仄中平\n" + PLAIN.replace("|", "\n（中仄中平）\n"),
        RUMENGLING.replace("归去。归去。", "归去。々々。"),
        RUMENGLING.replace("归去。归去。", "归去。〻〻。"),
        RUMENGLING.replace("归去。归去。", "归去。归去（叠）。"),
        "上片：\n" + RUMENGLING,
        "昨夜小园新\u200b雨。" + RUMENGLING[7:],
    ],
)
def test_the_same_ci_in_many_shapes(catalogue, text):
    read = read_ci(text, catalogue)
    assert read.units == WHOLE
    assert read.characters == PLAIN.replace("|", "")


def test_stanzas_and_soft_breaks(catalogue):
    read = read_ci(HUANXISHA, catalogue)
    assert lengths(read.stanzas) == (21,)
    assert read_ci("春来、秋去。", catalogue).soft == 1 << 2
    assert read_ci("春来、秋去。", catalogue).hard == 1 << 4


def test_a_lacuna_and_foreign_matter_are_one_unknown_character(catalogue):
    assert read_ci("春□秋■。", catalogue).characters == "春□秋■"
    read = read_ci("春love秋{木示}去。夏去。", catalogue)
    assert read.characters == "春※秋※去夏去"
    assert any("love" in remark for remark in read.remarks)


def test_everything_left_out_is_said(catalogue):
    text = f"如梦令\n某某\n{RUMENGLING[:-1]}（叠）。\n全词写夜雨。"
    remarks = " ".join(read_ci(text, catalogue).remarks)
    assert all(word in remarks for word in ("某某", "（叠）", "全词写夜雨"))


def test_a_first_line_that_is_a_tunes_name_can_be_kept(catalogue):
    text = "江南好\n山水旧曾游"
    assert read_ci(text, catalogue).characters == "山水旧曾游"
    assert read_ci(text, catalogue, keep_title=True).characters == "江南好山水旧曾游"


@pytest.mark.parametrize("text", ["", "\n\n", "。，", "abc", "![]()", "\x00", "|||", "々"])
def test_no_characters_is_an_empty_ci(catalogue, text):
    assert len(read_ci(text, catalogue)) <= 1


@pytest.mark.parametrize("between", ["\n\n", "", "\n《夜雨》\n"])
def test_the_cipai_that_an_answers_opening_words_quote_is_its_title(catalogue, between):
    text = f"好的，以下是一首《如梦令》：{between}{RUMENGLING}{between[:1]}希望你喜欢！"
    read = read_ci(text, catalogue)
    assert read.units == WHOLE
    assert [tune.name for tune in read.title.cipai] == ["如梦令"]
    told = " ".join(read.remarks)
    assert "the cipai 如梦令 is named in the opening words" in told
    assert "`希望你喜欢！`" in told


def test_emoji_and_control_characters_are_counted(catalogue):
    text = RUMENGLING.replace("新雨", "新\x07雨🌧") + "☔"
    read = read_ci(text, catalogue)
    assert read.units == WHOLE
    assert read.remarks == ("3 emoji or control characters are not counted",)
    assert read_ci("春☐秋。", catalogue).remarks == ()
