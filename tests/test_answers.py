"""Thinking is told from the answer, whatever dress it comes in."""

import pytest

from shiyan.answers import retry_after, split_thinking

POEM = "檐下\n\n灯把雨数了一遍\n数到最后一滴睡着了"


@pytest.mark.parametrize(
    ("reply", "thinking", "answer"),
    [
        (f"<think>\n先想意象。\n</think>\n\n{POEM}", "先想意象。", POEM),
        (f"先想意象。\n</think>\n\n{POEM}", "先想意象。", POEM),  # opened before the reply
        (f"<think>\n\n</think>\n\n{POEM}", None, POEM),
        (POEM, None, POEM),
        (f"<THINK>想</THINK>{POEM}", "想", POEM),
        (f"<thinking>想</thinking>\n{POEM}", "想", POEM),
        (f"<think>想</think>\n<answer>\n{POEM}\n</answer>", "想", POEM),
        (f"&lt;think&gt;想&lt;/think&gt;\n{POEM}", "想", POEM),
        (f"[THINK]想[/THINK]{POEM}", "想", POEM),
        (f"◁think▷想◁/think▷{POEM}", "想", POEM),
        (f"<think>一</think>{POEM}<think>二</think>", "一\n二", POEM),
        ("<think>\n还没写", "还没写", ""),  # the token limit came first
        ("<think>写好了</think>\n\n", "写好了", ""),
        ("我想<你>\n你想[我]", None, "我想<你>\n你想[我]"),
        # What is quoted is spoken about.
        ("灯写着“</think>”，灭了", None, "灯写着“</think>”，灭了"),
        ('灯写着"</think>"，灭了', None, '灯写着"</think>"，灭了'),
        ("灯写着“<answer>亮</answer>”", None, "灯写着“<answer>亮</answer>”"),
        ("灯写着「<think>亮</think>」", None, "灯写着「<think>亮</think>」"),
        (f"灯写着`<think>`\n</think>\n{POEM}", "灯写着`<think>`", POEM),
        (f"<think>它写着“</think>”。\n</think>\n{POEM}", "它写着“\n”。", POEM),
        (f'先写"灯\n</think>\n{POEM}', '先写"灯', POEM),  # a mark without its partner
        ('{"灯": "</think>亮"}', None, '{"灯": "</think>亮"}'),
        ('```json\n{"灯": "写着"</think>"，亮"}', None, '```json\n{"灯": "写着"</think>"，亮"}'),
    ],
)
def test_split_thinking(reply, thinking, answer):
    assert split_thinking(reply) == (thinking, answer)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "120"}, 120.0),
        ({"RETRY-AFTER": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"Retry-After": "Thu, 01 Jan 1970 00:01:40 GMT"}, 70.0),
        ({"Retry-After": "Thu, 01 Jan 1970 00:00:10 GMT"}, None),  # past
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": "0"}, None),
        ({"Retry-After": "tomorrow"}, None),
        ({}, None),
    ],
)
def test_retry_after(headers, seconds):
    assert retry_after(headers, now=30.0) == seconds
