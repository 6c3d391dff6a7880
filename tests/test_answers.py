"""Thinking is told from the answer, whatever dress it comes in."""

import dataclasses
import json

import pytest
from fakes import USED, completion

from shiyan.answers import (
    Again,
    ChatReply,
    StopAskingError,
    read_answer,
    retry_after,
    split_thinking,
)
from shiyan.hiding import Hiding

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


# --- answers of any shape -------------------------------------------------------------


def stream(*events: object) -> bytes:
    return b"\n\n".join(b"data: " + json.dumps(event).encode() for event in events)


def choice(**fields: object) -> dict:
    body = completion("四", usage=USED)
    body["choices"][0] |= fields
    return body


DEEP = b"[" * 100_000
NESTED = b'{"choices":' + b"[" * 700 + b"]" * 700 + b"}"
ODD = [
    DEEP,
    b'{"choices":' + DEEP,
    b'{"error":' + b'{"a":' * 100_000,
    NESTED,
    b"9" * 5000,
    b"data: " + DEEP,
    stream({"choices": [1]}),
    stream({"choices": 1}),
    stream({"choices": [{"delta": 5}]}),
    stream({"choices": [{"delta": {"content": 5}}]}),
    stream([]),
    {"choices": [7]},
    {"choices": {"0": {}}},
    {"choices": [{"message": [1]}]},
    {"error": {"message": {"deep": [1]}, "code": [2]}},
    {"error": [1, 2]},
    {"code": 3, "msg": None},
    [],
    None,
    "四",
    choice(message={"content": 5}),
    choice(message={"content": [5, {"text": 6}, {"text": None}]}),
    choice(message={"content": {"text": "四"}}),
    choice(message={"content": None, "refusal": [3]}),
    choice(message={"content": None, "reasoning_content": 3}),
]


@pytest.mark.parametrize("secret", ["", "sk-secret-1"])
@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("body", ODD, ids=range(len(ODD)))
def test_an_answer_of_another_shape_is_a_reason_to_ask_again(body, status, secret):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    assert isinstance(read_answer(status, content, {}, Hiding(secret)), Again)


@pytest.mark.parametrize("body", [DEEP, NESTED])
def test_a_status_that_stops_the_run_stops_it_whatever_the_body_is(body):
    with pytest.raises(StopAskingError, match="refused the key"):
        read_answer(401, body, {}, Hiding("sk-secret-1"))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (choice(finish_reason=["stop"]), "四"),
        (choice(finish_reason={"reason": "stop"}), "四"),
        (choice(message={"content": [{"text": "四"}, 5, {"text": 6}]}), "四"),
        (choice(logprobs={"content": [{"top_logprobs": 5}]}), "四"),
        (choice(logprobs={"content": [{"top_logprobs": [{"token": 4, "logprob": "x"}]}]}), "四"),
        (choice(logprobs={"content": [{"top_logprobs": [{"logprob": 10**400}]}]}), "四"),
        (choice(logprobs={"content": 5}), "四"),
        (completion("四", usage=USED) | {"model": 5}, "四"),
        (completion("四", usage=USED) | {"usage": [5]}, "四"),
        (completion("四", usage=USED) | {"usage": {"prompt_tokens_details": 5}}, "四"),
    ],
)
def test_what_stands_beside_the_text_may_be_anything(body, text):
    found = read_answer(200, json.dumps(body).encode(), {})
    assert isinstance(found, ChatReply)
    assert found.text == text


@pytest.mark.parametrize(
    "body",
    [
        completion("四\ud800", "\udc00") | {"model": "m\ud800"},
        choice(logprobs={"content": [{"top_logprobs": [{"token": "\ud800", "logprob": -1}]}]}),
        {"error": {"message": "no\ud800", "code": "\udc00"}},
        {"error": {"message": "content_filter\ud800"}},
    ],
)
def test_what_is_read_can_be_written(body):
    found = read_answer(200, json.dumps(body).encode(), {})
    json.dumps(dataclasses.asdict(found), ensure_ascii=False).encode()
    with pytest.raises(StopAskingError) as stop:
        read_answer(401, json.dumps({"error": "no\ud800"}).encode(), {})
    str(stop.value).encode()


@pytest.mark.parametrize(
    ("told", "count"),
    [
        (0, None),
        ("5", 5),
        ("5.5", None),
        ("9" * 31, None),
        (10**9, 10**9),
        (10**9 + 1, None),
        (10**31, None),
        (-1, None),
    ],
)
def test_a_count_that_no_answer_has_is_none(told, count):
    body = completion("四", usage={"prompt_tokens": told, "completion_tokens": 3})
    found = read_answer(200, json.dumps(body).encode(), {})
    assert found.prompt_tokens == count


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"input_tokens": 7, "output_tokens": 2}, (7, 2)),
        ({"prompt_tokens": "7", "completion_tokens": "2"}, (7, 2)),
        ({"prompt_tokens": None, "input_tokens": 7}, (7, None)),
        ({"prompt_tokens": 0, "completion_tokens": 0}, (None, None)),
    ],
)
def test_usage_by_other_names_and_usage_that_is_none(usage, counts):
    found = read_answer(200, json.dumps(completion("雨", usage=usage)).encode(), {})
    assert (found.prompt_tokens, found.completion_tokens) == counts


@pytest.mark.parametrize(
    ("told", "finish"),
    [
        ("LENGTH", "length"),
        ("MAX_TOKENS", "length"),
        ("max_output_tokens", "length"),
        ("model_length", "length"),
        ("STOP", "stop"),
        ("eos", "stop"),
        ("end_turn", "stop"),
        ("tool_calls", "tool_calls"),
        (None, None),
    ],
)
def test_a_finish_reason_by_another_name(told, finish):
    found = read_answer(200, json.dumps(completion("雨声渐", told)).encode(), {})
    assert isinstance(found, ChatReply)
    assert found.finish_reason == finish


@pytest.mark.parametrize("told", ["SAFETY", "Content_Filter", "recitation", "PROHIBITED_CONTENT"])
def test_a_filter_by_another_name(told):
    found = read_answer(200, json.dumps(completion("雨声渐", told)).encode(), {})
    assert found.kind == "filtered"


def error(status: int, message: str, code: str = "", **fields: object):
    body = {"error": {"message": message, "code": code, **fields}}
    return read_answer(status, json.dumps(body).encode(), {})


@pytest.mark.parametrize(
    ("status", "message", "code", "stop"),
    [
        (404, "Model names are case-sensitive: no model Q", "", "does not know"),
        (401, "the key is case sensitive", "", "refused the key"),
        (403, "企业资料正在审核", "under_review", "denied access"),
        (402, "moderation of your payment", "", "asks for money"),
        (429, "no quota left, retry in 3s", "insufficient_quota", "asks for money"),
        (429, "账户余额不足", "1113", "asks for money"),
    ],
)
def test_what_stops_a_run_is_no_filter_whatever_words_it_has(status, message, code, stop):
    with pytest.raises(StopAskingError, match=stop):
        error(status, message, code)


@pytest.mark.parametrize(
    ("status", "message", "code", "kind"),
    [
        (400, "the field is case-sensitive", "", "rejected"),
        (400, "输入含敏感内容", "", "filtered"),
        (403, "no", "content_policy_violation", "filtered"),
        (451, "moderation blocked it", "", "filtered"),
        (500, "no", "content_filter", "filtered"),
    ],
)
def test_a_filter_is_known_by_status_and_words(status, message, code, kind):
    assert error(status, message, code).kind == kind


@pytest.mark.parametrize(
    ("status", "message", "fields", "wait"),
    [
        (429, "too many requests for the moderation queue", {}, None),
        (429, "see your plan and billing; retry in 2.5s.", {}, 2.5),
        (429, "rate limit; please try again in 1m30s. Add a payment method", {}, 90.0),
        (429, "try again in 250ms", {}, 0.25),
        (429, "try again in 20 seconds", {}, 20.0),
        (429, "欠费或限流，请5秒后重试", {}, 5.0),
        (429, "plan and billing", {"details": [1, {"retryDelay": "7s"}]}, 7.0),
        (503, "reset at 1999-01-01 00:00:00", {}, None),
        (503, "reset at 2999-99-99 00:00:00", {}, None),
    ],
)
def test_a_limit_that_says_when_it_ends_is_waited_for(status, message, fields, wait):
    found = error(status, message, **fields)
    assert isinstance(found, Again)
    assert found.wait_s == wait


def test_a_quota_that_comes_back_at_a_time_tells_how_long():
    found = error(429, "额度已用完，将于 2999-01-01 08:00:00 恢复", "1308")
    assert found.wait_s > 3e10


def test_of_a_page_the_words_are_told():
    page = b"<html><style>p{}</style><body><h1>502 Bad Gateway</h1><p>try later</p></body></html>"
    assert read_answer(502, page, {}).reason == "HTTP 502: 502 Bad Gateway try later"
    assert read_answer(502, b"<" * 1_000_000, {}).reason.startswith("HTTP 502")


@pytest.mark.parametrize(
    ("reply", "thinking", "answer"),
    [
        ("<think>" * 20_000, None, ""),
        ("<think>想</think>" * 10_000 + POEM, "\n".join(["想"] * 10_000), POEM),
        ("灯“<think>”" * 10_000, None, "灯“<think>”" * 10_000),
        (f"<think>一<think>二</think>{POEM}", "一<think>二", POEM),
    ],
)
def test_endless_tags_are_read_as_few_are(reply, thinking, answer):
    told, said = split_thinking(reply)
    assert said == answer
    assert thinking is None or told == thinking
