"""Raw replies become poems by written rules; each case names the rules it needs."""

import json

import pytest
from shared import bug_replies

from shiyan.generation.clean import Asked, ci_layout, clean, copied_share, is_loop
from shiyan.records import Poem

TITLE = "檐下"
BODY = "灯把雨数了一遍\n数到最后一滴睡着了\n\n屋檐不睡\n它替灯数下去"
REPLY = f"{TITLE}\n\n{BODY}"
MODERN = Asked("modern", TITLE)


@pytest.mark.parametrize(
    ("reply", "rules"),
    [
        (REPLY, {"title_line"}),
        (f"《{TITLE}》\n\n{BODY}", {"title_line"}),
        (f"{TITLE}，\n\n{BODY}", {"title_line"}),
        (f"题目：{TITLE}\n{BODY}", {"title_line"}),
        (f"题目：《{TITLE}》\n\n正文：\n{BODY}", {"title_line", "label"}),
        (f"【题目】{TITLE}\n\n【正文】\n{BODY}", {"title_line", "label"}),
        (f"诗歌题目：《{TITLE}》\n正文：\n{BODY}", {"title_line", "label"}),
        (f"**{TITLE}**\n\n{BODY}", {"markdown", "title_line"}),
        (f"### 标题：《{TITLE}》\n\n{BODY}", {"markdown", "title_line"}),
        (f"# {TITLE}\n{BODY}", {"markdown", "title_line"}),
        (f"{TITLE}\n\n《{TITLE}》\n\n{BODY}", {"title_line"}),
        (f"{TITLE}\n文/某某模型\n\n{BODY}", {"title_line", "author_line"}),
        (f"好的，以下是一首现代诗：\n\n{REPLY}", {"preamble", "title_line"}),
        (f"以下是为您写的诗：\n\n---\n\n{REPLY}", {"markdown", "preamble", "title_line"}),
        (f"Sure! Here is a modern poem for you:\n\n{REPLY}", {"preamble", "title_line"}),
        (f"请以“{TITLE}”为题写一首现代诗。\n\n{REPLY}", {"prompt_echo", "title_line"}),
        (f"{REPLY}\n只输出题目和正文，不要解释。", {"title_line", "prompt_echo"}),
        (f"{REPLY}\n\n赏析：这首诗写灯与雨。\n很安静。", {"title_line", "afterword"}),
        (f"{REPLY}\n\n---\n**创作说明**\n灯是人。", {"markdown", "title_line", "afterword"}),
        (f"{REPLY}\n\n这首诗通过灯与雨的对话，表达了守候的主题。", {"title_line", "afterword"}),
        (f"{REPLY}\n\n这是一首用拟人手法描绘雨夜的作品。", {"title_line", "afterword"}),
        (f"{REPLY}\n\n作者简介：某某，诗人，生于檐下。", {"title_line", "afterword"}),
        (f"{REPLY}\n\n（全诗完）\n字数：28", {"title_line", "afterword"}),
        (f"{REPLY}\n\nI hope you like this poem!", {"title_line", "afterword"}),
        (f"{REPLY}\n\n希望您喜欢这首诗。", {"title_line", "afterword"}),
        (f"```\n{REPLY}\n```", {"code_fence", "title_line"}),
        (f"好的：\n```text\n{REPLY}\n```\n请欣赏。", {"code_fence", "title_line"}),
        ("\n".join(f"> {line}" for line in REPLY.split("\n")), {"block_quote", "title_line"}),
        (f"{TITLE}<br><br>" + BODY.replace("\n", "<br>"), {"html", "title_line"}),
        (json.dumps({"title": TITLE, "poem": BODY}, ensure_ascii=False), {"json", "title_line"}),
        (
            "```json\n" + json.dumps({"题目": TITLE, "正文": BODY.split("\n")}) + "\n```",
            {"json", "title_line"},
        ),
        (
            f"{TITLE}\n1. 灯把雨数了一遍\n2. 数到最后一滴睡着了\n\n3. 屋檐不睡\n4. 它替灯数下去",
            {"numbers", "title_line"},
        ),
        (f"{REPLY}<|im_end|>\n<|im_start|>user\n再写一首", {"special_tokens", "title_line"}),
        (f"{REPLY}<｜end▁of▁sentence｜>", {"special_tokens", "title_line"}),
        (f"<think>灯，雨。</think>\n{REPLY}", {"thinking", "title_line"}),
        (f"{TITLE}\n(yán xià)\n\n{BODY}", {"title_line", "pinyin"}),
        (f"{REPLY}\n\n《另一首》\n\n风吹过\n又吹回来", {"title_line", "second_poem"}),
    ],
)
def test_every_dress_is_taken_off(reply, rules):
    cleaned = clean(reply, MODERN)
    assert cleaned.missing is None
    assert cleaned.title == TITLE
    assert cleaned.body == BODY
    assert rules <= set(cleaned.flags)


def test_what_was_cut_is_kept_with_its_rule():
    cleaned = clean(f"{REPLY}\n\n注释：檐，屋檐。", MODERN)
    assert ("afterword", "注释：檐，屋檐。") in cleaned.removed


@pytest.mark.parametrize(
    ("reply", "body"),
    [
        ("注\n\n注：此门不开\n注：此门已开", "注：此门不开\n注：此门已开"),
        ("账\n\n一，还你的伞\n二，欠我的雨\n三，不算了", "一，还你的伞\n二，欠我的雨\n三，不算了"),
        ("信\n\n《春天》我没有读完\n*剩下的给你*", "《春天》我没有读完\n剩下的给你"),
        ("请\n\n请坐在雨里\n请把伞还给天", "请坐在雨里\n请把伞还给天"),
        ("说明\n\n说明书上没有写\n怎样关掉月亮", "说明书上没有写\n怎样关掉月亮"),
        ("好\n\n好的，我说\n好的，雨也说", "好的，我说\n好的，雨也说"),
    ],
)
def test_verse_that_looks_like_dress_stays(reply, body):
    assert clean(reply, Asked("modern")).body == body


def test_a_first_line_that_only_begins_like_the_title_stays():
    cleaned = clean("题目：《守夜》\n\n守夜！\n灯说。", Asked("modern"))
    assert (cleaned.title, cleaned.body) == ("守夜", "守夜！\n灯说。")


@pytest.mark.parametrize(
    ("reply", "finish_reason", "missing"),
    [
        ("", "stop", "empty"),
        ("  \n\n", "stop", "empty"),
        ("《檐下》", "stop", "title_only"),
        ("题目：檐下", "stop", "title_only"),
        ("灯。", "stop", "title_only"),
        (TITLE, "stop", "title_only"),
        ("<think>写什么好呢", "length", "thinking_only"),
        ("抱歉，作为编程助手，我无法写诗。", "stop", "refusal"),
        ("I'm sorry, but I can't help with that.", "stop", "refusal"),
        ("The rain counts the lamp\nThe lamp counts the rain", "stop", "not_chinese"),
        (f"{TITLE}\n\n" + "数一遍雨\n再数一遍\n" * 30, "stop", "loop"),
        (f"{TITLE}\n\n" + "我数雨，你数灯，" * 40, "stop", "loop"),
        (f"{TITLE}\n\n灯把雨数了一遍\n数到最后一", "length", "truncated"),
        ("请写一首现代诗。\n只输出正文。", "stop", "echo_only"),
    ],
)
def test_what_is_no_poem_has_a_reason(reply, finish_reason, missing):
    cleaned = clean(reply, MODERN, finish_reason)
    assert cleaned.missing == missing
    assert cleaned.body == ""


@pytest.mark.parametrize(
    "reply",
    [
        '{"poem":[' * 600,
        '{"poem":[' * 600 + "]}" * 600,
        "{" + "[" * 100_000 + "}",
        "<|im_start|>" * 3000,
        "<think>" * 1000,
        "《" * 3000,
    ],
)
def test_a_reply_of_any_depth_is_no_poem(reply):
    assert clean(reply, MODERN, "stop").missing


def test_a_limit_that_cut_the_afterword_left_the_poem_whole():
    cleaned = clean(f"{REPLY}\n\n赏析：灯在这里是一个", MODERN, "length")
    assert cleaned.missing is None
    assert cleaned.body == BODY
    assert "cut_afterword" in cleaned.flags


def test_without_a_finish_reason_a_cut_is_only_suspected():
    text = "灯，\n把雨，\n数了一遍，\n数到最后一"
    assert "maybe_truncated" in clean(text, MODERN).flags
    assert "maybe_truncated" not in clean(text, MODERN, "stop").flags


HUMAN = Poem(
    poem_id="h1",
    title=TITLE,
    text="灯在檐下站了一夜\n雨在灯下走了一夜\n谁也没有先说话\n天亮时都不见了",
    genre="modern",
    author="某",
)


def test_a_copy_of_the_human_poem_is_no_poem_of_an_llm():
    asked = Asked("modern", TITLE, human=HUMAN)
    assert clean(f"{TITLE}\n\n{HUMAN.text}", asked).missing == "copy_of_seed"
    altered = HUMAN.text.replace("先说话", "先开口")
    assert clean(f"{TITLE}\n\n{altered}", asked).missing == "copy_of_seed"
    passage = "灯在檐下站了一夜\n雨在灯下走了一夜\n后来风来了\n把两个影子吹成一个"
    cleaned = clean(f"{TITLE}\n\n{passage}", asked)
    assert cleaned.missing is None
    assert "seed_passage" in cleaned.flags
    assert clean(REPLY, asked).flags == ("title_line",)


def test_copied_share_is_a_share():
    assert copied_share(HUMAN.text, HUMAN.text) == 1.0
    assert copied_share("完全不同的另外一句", HUMAN.text) == 0.0


@pytest.mark.parametrize(
    ("text", "flag"),
    [
        ("秋雨檐前细，孤灯夜半明。\n无人同此坐，唯有打更声。", "regular_verse"),
        (
            "窗外下着雨，" + "，".join(f"{c}在雨里走" for c in "你我他猫狗风云花草月") + "。",
            "prose",
        ),
        ("我在等雨\n我在等 rain\n我在等你\n雨也在等", "mixed_script"),
        ("我說燈與雨\n雨說燈與我\n誰還記得這個夜晚\n門關著", "traditional"),
        ("我等雨\n我等雨\n雨等我\n雨等我", "repeated_lines"),
        ("灯与\ufffd雨\n雨与灯", "lost_character"),
    ],
)
def test_kept_but_flagged(text, flag):
    cleaned = clean(text, Asked("modern"), "stop")
    assert cleaned.missing is None
    assert flag in cleaned.flags


@pytest.mark.parametrize(
    ("lines", "loops"),
    [
        (["江水"] * 5, True),
        (["江水"] * 4, False),
        (["甲", "乙"] * 5, True),
        (["甲", "乙", "丙", "丁"] * 2, False),
        (["起", *["江水", "船"] * 10], True),
        (["一", "江水", "二", "江水", "三", "江水", "四", "江水", "五", "江水"], False),  # refrain
        (["我有梦想，" * 20], True),
    ],
)
def test_is_loop(lines, loops):
    assert is_loop(lines) is loops


# --- ci -------------------------------------------------------------------------------

# Lines of our own; what matters is where the marks and breaks stand.
LING = [
    "昨夜小楼听雨。",
    "梦里故人来去。",
    "灯火忽阑珊，只有一帘飞絮。",
    "无语。",
    "无语。",
    "晓色又侵庭树。",
]
SENTENCES = "\n".join(LING)
RUMENGLING = Asked("ci", "听雨", cipai="如梦令", joins_stanzas=True)


@pytest.mark.parametrize(
    "reply",
    [
        f"如梦令·听雨\n{SENTENCES}",
        f"**《如梦令·听雨》**\n\n{SENTENCES}",
        f"词牌：如梦令\n题目：听雨\n\n{SENTENCES}",
        f"如梦令\n听雨\n\n{''.join(LING)}",
        f"如梦令，听雨。\n\n{SENTENCES}",
        "如梦令（听雨）\n" + "\n\n".join(LING),
        "如梦令\n" + SENTENCES.replace("，", "，\n"),
        "如梦令\n" + "\n".join(f"{line}（中仄中平中仄）" for line in LING),
        "如梦令\n" + "\n".join(f"{n}. {line}" for n, line in enumerate(LING, start=1)),
        "如梦令\n" + "\n".join(f"第{n}句：{line}" for n, line in enumerate(LING, start=1)),
        f"如梦令听雨{SENTENCES}",
        f"如梦令\n{SENTENCES}\n下片同上。",
        f"如梦令\n听雨\n苏轼\n{SENTENCES}",
        f"如梦令·听雨\n{SENTENCES}\n\n注：阑珊，将尽。\n此词写雨夜怀人。",
        f"如梦令·听雨\n{SENTENCES}\n\n共33字，格律工整。",
        f"如梦令·听雨\n{SENTENCES}\n\n平仄：\n仄仄仄平平仄，仄仄仄平平仄。",
        f"如梦令·听雨\n{SENTENCES}\n\n上片：6仄仄平，6仄仄平；7仄仄平仄。",
        "如梦令\n" + "\n".join(f"{line}\n中仄中平中仄，押仄声韵，韵组甲" for line in LING),
        "如梦令\n" + "".join(f"{line}中仄平平，仄仄平。" for line in LING),
        f"如梦令·听雨\n{SENTENCES}\n\n如梦令·听雨\n{SENTENCES}",
        "| 句 | 词 | 平仄 |\n|---|---|---|\n"
        + "\n".join(f"| {n} | {line} | 中仄中平中仄 |" for n, line in enumerate(LING, start=1)),
    ],
)
def test_a_ci_becomes_its_sentences(reply):
    cleaned = clean(reply, RUMENGLING, "stop")
    assert cleaned.missing is None
    assert cleaned.body == SENTENCES


def test_the_form_repeated_is_no_ci():
    rows = "第1句：6字，中仄中平中仄，押仄声韵\n第2句：6字，中仄中平中仄，押仄声韵"
    assert clean(f"如梦令\n\n{rows}", RUMENGLING, "stop").missing == "echo_only"
    labelled = f"如梦令\n\n上片：\n{rows}\n\n下片：\n{rows}"
    assert clean(labelled, RUMENGLING, "stop").missing == "echo_only"
    assert clean("如梦令，听雨。", RUMENGLING, "stop").missing == "title_only"


def test_words_with_the_characters_of_tones_are_verse():
    verse = "江中浪渐平平，心中仄。\n不平平。"
    assert clean(f"如梦令\n{verse}", RUMENGLING, "stop").body == verse


def test_stanzas_stay_where_the_corpus_has_them():
    text = "前句。后句。\n\n又一句。"
    assert ci_layout(text, joins_stanzas=False) == "前句。\n后句。\n\n又一句。"
    assert ci_layout(text, joins_stanzas=True) == "前句。\n后句。\n又一句。"


def test_a_ci_without_marks_keeps_its_lines():
    assert (
        ci_layout("昨夜小楼听雨\n梦里故人来去", joins_stanzas=True) == "昨夜小楼听雨\n梦里故人来去"
    )


# --- the collected cases --------------------------------------------------------------


@pytest.mark.parametrize("case", bug_replies("12-think-shapes"))
def test_collected_think_shapes(case):
    cleaned = clean(case["reply"], Asked("modern", "雨后"), case.get("finish_reason"))
    if case["expect"] is None:
        assert cleaned.missing == "thinking_only"
        assert cleaned.thinking
    else:
        assert f"{cleaned.title}\n\n{cleaned.body}" == case["expect"]


@pytest.mark.parametrize("title", ["雨后", None])
@pytest.mark.parametrize(
    "case", bug_replies("15-preamble-markdown-afterword"), ids=lambda case: case["id"]
)
def test_collected_preambles_and_afterwords(case, title):
    cleaned = clean(case["reply"], Asked("modern", None if "keep" in case["id"] else title))
    if "body" in case:
        assert cleaned.body == case["body"]
    else:
        assert all(part in cleaned.body for part in case["body_contains"])


@pytest.mark.parametrize(
    "case", bug_replies("17-truncated-or-looping"), ids=lambda case: case["id"]
)
def test_collected_cuts_and_loops(case):
    cleaned = clean(case["reply"], Asked("modern"), case.get("finish_reason"))
    if "expect" in case:
        assert f"{cleaned.title}\n\n{cleaned.body}" == case["expect"]
    elif case["status"] == "ok or suspected":
        assert cleaned.missing is None
    else:
        assert cleaned.missing == case["status"]


@pytest.mark.parametrize("case", bug_replies("34-llm-ci-reply"))
def test_collected_ci_replies(case):
    cleaned = clean(case["reply"], Asked("ci", "春晓", cipai="如梦令"), case.get("finish_reason"))
    if case["id"] == "short":
        assert cleaned.missing == "truncated"
        return
    from shiyan.poem import characters

    assert len(characters(cleaned.body)) == 33
