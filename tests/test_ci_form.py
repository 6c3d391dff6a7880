"""The notation, the forms that come with the project, and the names of the tunes."""

import re

import pytest

from shiyan.ci.form import describe_form, load_catalogue, parse_lines, read_notation
from shiyan.errors import UserError

PAPER = re.findall(
    r"\S+",
    """
    金缕曲 贺新郎 摸鱼儿 沁园春 水龙吟 念奴娇 水调歌头 满庭芳 满江红 渔家傲 蝶恋花 临江仙 踏莎行
    鹊桥仙 虞美人 鹧鸪天 西江月 清平乐 采桑子 卜算子 减字木兰花 菩萨蛮 浣溪沙 点绛唇 江城子
    如梦令 浪淘沙 南乡子 望江南 忆江南
    """,
)


@pytest.fixture(scope="module")
def catalogue():
    return load_catalogue()


def test_a_line_holds_its_tones_end_group_and_signs():
    lines = parse_lines("中仄、平平。｜ 仄仄。乙叶 仄仄。乙叶叠", "f:1")
    assert [(x.tones, x.end, x.group) for x in lines] == [
        ("中仄", "读", ""),
        ("平平", "韵", "甲"),
        ("仄仄", "韵", "乙"),
        ("仄仄", "韵", "乙"),
    ]
    assert [x.closes_stanza for x in lines] == [False, True, False, True]
    assert [x.crosses for x in lines] == [False, False, True, True]
    assert [x.repeats for x in lines] == [False, False, False, True]


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ("平平仄", r"line 1 has no end"),
        ("平平。 平x平。", r"line 2: 'x' is not allowed"),
        ("平平，平仄，", r"no rhyme"),
        ("平平。仄仄、", r"last line ends in 、"),
        ("平平，乙 平平。", r"line 1 ends in ， and yet has 乙"),
        ("平平。 平。叠", r"line 2 has 叠"),
        ("。", r"line 1: '。' is not allowed"),
    ],
)
def test_malformed_notation_is_named_by_file_and_line(written, complaint):
    with pytest.raises(UserError, match=rf"^mine\.txt:7: .*{complaint}"):
        parse_lines(written, "mine.txt:7")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("我1 平平。", r"f:1: '我1 平平。' stands before any"),
        ("词牌 甲调\n\n词牌 乙调\n我1 平平。", r"f:1: 甲调 has no form"),
        ("词牌\n我1 平平。", r"f:1: write `词牌` with one name"),
        ("词牌 甲调 乙调\n我1 平平。", r"f:1: write `词牌` with one name"),
        ("词牌 甲调\n我1 平平。\n我1 仄仄。", r"f:3: 甲调 has the form '我1' twice"),
        ("词牌 甲调\n我1* 平平。\n我2* 仄仄。", r"f:3: 甲调 already has the standard form 我1"),
        ("词牌 甲调\n平平。", r"f:2: '平平。' is not a form"),
    ],
)
def test_a_malformed_file_is_named_by_file_and_line(text, complaint):
    with pytest.raises(UserError, match=complaint):
        for tune in read_notation(text, "f"):
            _ = tune.variants


def test_a_user_adds_a_tune_and_a_form_of_a_known_one(tmp_path):
    mine = tmp_path / "mine.txt"
    mine.write_text(
        "# mine\n词牌 新腔\n别名 试腔\n我1 平平仄，中仄仄平平。\n\n词牌 如梦令\n我1 仄仄。平平。\n",
        encoding="utf-8",
    )
    catalogue = load_catalogue(str(mine))
    assert catalogue.find("试腔")[0].standard.lengths == (3, 5)
    known = catalogue["如梦令"]
    assert known.standard.variant_id == "如梦令/钦1"
    assert known.variants[-1].variant_id == "如梦令/我1"
    assert len(catalogue) == len(load_catalogue()) + 1


@pytest.mark.parametrize(
    ("content", "complaint"), [(None, "does not exist"), (b"\xb4\xca", "UTF-8")]
)
def test_a_file_of_forms_that_cannot_be_read_is_one_sentence(tmp_path, content, complaint):
    path = tmp_path / "forms.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=complaint):
        load_catalogue(str(path))


# --- what comes with the project ----------------------------------------------------------


def test_every_form_parses_and_has_one_standard(catalogue):
    for tune in catalogue.values():
        assert sum(form.is_standard for form in tune.variants) == 1, tune.name
        assert tune.standard.is_standard
    assert (len(catalogue), catalogue.n_forms) == (817, 2524)


def test_the_papers_thirty_are_there_and_two_pairs_are_one_tune(catalogue):
    tunes = [catalogue.find(name)[0] for name in PAPER]
    assert tunes[0] is tunes[1]
    assert tunes[-1] is tunes[-2]
    assert len(set(tunes)) == 28


@pytest.mark.parametrize(
    ("cipai", "lengths", "form"),
    [
        ("浪淘沙", (7, 7, 7, 7), "浪淘沙/钦1"),
        ("浪淘沙令", (5, 4, 7, 7, 4) * 2, "浪淘沙令/钦1"),
        ("临江仙", (7, 6, 7, 4, 5) * 2, "临江仙/龙1"),
        ("虞美人", (7, 5, 7, 6, 3) * 2, "虞美人/钦1"),
        ("忆江南", (3, 5, 7, 7, 5), "忆江南/钦1"),
    ],
)
def test_standard_forms_known_by_heart(catalogue, cipai, lengths, form):
    standard = catalogue[cipai].standard
    assert (standard.lengths, standard.variant_id) == (lengths, form)


def test_jianzi_mulanhua_changes_its_rhyme_four_times(catalogue):
    for form in catalogue["减字木兰花"].variants:
        assert "".join(line.group for line in form.lines) == "甲甲乙乙丙丙丁丁"


def test_a_caesura_is_a_line_for_lengths_and_none_for_sentences(catalogue):
    form = catalogue["虞美人"].standard
    assert len(form.lines) == 10
    assert [sum(len(part.tones) for part in s) for s in form.sentences] == [7, 5, 7, 9] * 2


# --- names and titles -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("title", "cipai", "topic"),
    [
        ("浣溪沙", ["浣溪沙"], ""),
        ("浣溪沙·晚晴", ["浣溪沙"], "晚晴"),
        ("浣溪沙•晚晴", ["浣溪沙"], "晚晴"),
        ("浣溪沙・晚晴", ["浣溪沙"], "晚晴"),
        ("浣溪沙—晚晴", ["浣溪沙"], "晚晴"),
        ("浣溪沙（晚晴）", ["浣溪沙"], "晚晴"),
        ("浣溪沙(2)晚晴", ["浣溪沙"], "晚晴"),
        ("《浣溪沙·晚晴》", ["浣溪沙"], "晚晴"),
        ("【浣溪沙】晚晴", ["浣溪沙"], "晚晴"),
        ("浣溪沙 其二 晚晴", ["浣溪沙"], "其二 晚晴"),
        ("浣溪沙晚晴二首", ["浣溪沙"], "晚晴二首"),
        ("词牌：浣溪沙\n题目：晚晴", ["浣溪沙"], "晚晴"),
        ("浣 溪 沙", ["浣溪沙"], ""),
        ("浣溪纱·晚晴", ["浣溪沙"], "晚晴"),
        ("菩薩蠻·題畫", ["菩萨蛮"], "題畫"),
        ("臨江仙", ["临江仙"], ""),
        ("減字木蘭花·晚晴", ["减字木兰花"], "晚晴"),
        # The longest known name wins.
        ("摊破浣溪沙·晚晴", ["山花子"], "晚晴"),
        ("木兰花慢·送别", ["木兰花慢"], "送别"),
        ("木兰花令·送别", ["木兰花令"], "送别"),
        ("江南好·忆旧", ["忆江南"], "忆旧"),
        # Two names of one tune are no topic; a second name may decide.
        ("望江南・忆江南", ["忆江南"], ""),
        ("凤栖梧・蝶恋花", ["蝶恋花"], ""),
        ("木兰花・玉楼春", ["玉楼春"], ""),
        ("红娘子/连理枝", ["连理枝"], ""),
        # Names that several tunes have, and names of none.
        ("乌夜啼·晚晴", ["乌夜啼", "相见欢"], "晚晴"),
        ("卖花声·晚晴", ["浪淘沙令", "谢池春"], "晚晴"),
        ("晚晴·浣溪沙", ["浣溪沙"], "晚晴"),
        ("失调名", [], "失调名"),
        ("无此调·晚晴", [], "无此调·晚晴"),
        ("不见故人", [], "不见故人"),
        ("", [], ""),
    ],
)
def test_titles(catalogue, title, cipai, topic):
    read = catalogue.read_title(title)
    assert ([tune.name for tune in read.cipai], read.topic) == (cipai, topic)


def test_what_is_not_certain_in_a_title_is_said(catalogue):
    assert "read as 浣溪沙" in catalogue.read_title("浣溪沙晚晴").doubt
    assert "may mean 乌夜啼, 相见欢" in catalogue.read_title("乌夜啼·晚晴").doubt
    assert "after the topic" in catalogue.read_title("晚晴·浣溪沙").doubt
    assert not catalogue.read_title("浣溪沙·晚晴").doubt


def test_every_tune_is_found_by_each_of_its_names(catalogue):
    for tune in catalogue.values():
        assert catalogue.find(tune.name)[0] is tune
        assert all(tune in catalogue.find(name) for name in tune.names)


def test_an_unknown_name_says_what_to_do(catalogue):
    with pytest.raises(UserError, match="no cipai '无此调' among the 817"):
        catalogue.named("无此调")


# --- for the prompt -----------------------------------------------------------------------


def test_the_form_in_words_gives_every_line_and_no_sample(catalogue):
    words = describe_form(catalogue["虞美人"])
    assert words.startswith("词牌《虞美人》，共56字，2片，8句。")
    assert "第4句：9字，中仄中平中仄、仄平平，句中停顿（6、3），押平声韵，韵组乙" in words
    assert words.count("第") == 8
    assert "重复上一句" in describe_form(catalogue["如梦令"])
    assert "与同组平仄通押" in describe_form(catalogue["西江月"])


@pytest.mark.parametrize("cipai", PAPER)
def test_every_form_of_the_paper_can_be_described(catalogue, cipai):
    tune = catalogue.find(cipai)[0]
    words = describe_form(tune)
    assert words.count("字，") >= len(tune.standard.sentences)
    assert "不押韵" in words or all(line.end != "句" for line in tune.standard.lines)


@pytest.mark.parametrize(("written", "meant"), [("浣沙溪", "浣溪沙"), ("念奴橋", "念奴娇")])
def test_a_name_that_is_nearly_right_is_asked_about(catalogue, written, meant):
    with pytest.raises(UserError, match=f"did you mean {meant}"):
        catalogue.named(written)
    with pytest.raises(UserError, match="check the name"):
        catalogue.named("无此调")


def test_a_name_in_simplified_characters(catalogue):
    assert [catalogue.plain(name) for name in ("金縷曲", "《浣溪沙》", "無此調")] == [
        "金缕曲",
        "浣溪沙",
        "無此調",
    ]
    assert catalogue.named_in("賀新郎（夜渡）") == ("贺新郎", "夜渡")
    assert catalogue.named_in("晚晴") is None


def test_keywords_may_be_traditional_and_stand_before_any_blank():
    (tune,) = read_notation("詞牌\u3000新腔\n別名\t甲乙调\n我1\u3000平平仄，平仄平。", "mine.txt")
    assert (tune.name, tune.aliases, len(tune.variants)) == ("新腔", ("甲乙调",), 1)


def test_forms_of_ones_own_that_are_none_or_take_a_name_are_told(tmp_path, capsys):
    (tmp_path / "empty.txt").write_text("# nothing yet\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"empty\.txt holds no cipai"):
        load_catalogue(str(tmp_path / "empty.txt"))
    path = tmp_path / "taken.txt"
    path.write_text("词牌 新腔\n别名 浣溪沙 甲乙调\n我1 平平仄，平仄平。\n", encoding="utf-8")
    assert [tune.name for tune in load_catalogue(str(path)).find("浣溪沙")] == ["浣溪沙", "新腔"]
    (told,) = capsys.readouterr().err.splitlines()
    assert "浣溪沙, a second name of 新腔, is also 浣溪沙" in told
