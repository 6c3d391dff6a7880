"""What a chat server's HTTP answer says: a reply, a failure, or a reason to ask again.

Pure functions from bytes to values; `chat` does the asking. Servers that call
themselves OpenAI-compatible differ most in how they fail: errors inside a 200,
filters that speak six ways, empty choices, streams nobody asked for.
"""

import dataclasses
import datetime
import email.utils
import json
import math
import re
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from shiyan.hiding import Hiding

FailureKind = Literal[
    "filtered", "too_long", "rejected", "reasoning_only", "no_answer", "unavailable", "broken"
]
"""filtered: a content filter or a refusal field; too_long: prompt above the context;
rejected: the server minds the request itself; reasoning_only: the tokens were used up
before an answer; no_answer: finished and empty; unavailable: busy, rate-limited or
silent through all tries; broken: no readable chat completion through all tries."""


@dataclass(frozen=True)
class ChatReply:
    """A finished reply."""

    text: str
    """As it came, thinking tags and all."""
    reasoning: str | None
    """What the server itself kept apart as reasoning."""
    finish_reason: str | None
    prompt_tokens: int | None
    """None where the server told no usage."""
    completion_tokens: int | None
    model: str | None
    """As the server names it."""
    seconds: float = 0.0
    """From sending the request to having the reply, with the others at work."""
    cached_tokens: int | None = None
    """Of the prompt's, those that the server had read already; None where it says nothing."""
    log_probs: tuple[tuple[tuple[str, float], ...], ...] | None = None
    """The likeliest tokens and their ln p at each place of the text; None if not told."""

    @property
    def answer(self) -> str:
        """The text without thinking: what a poem or a verdict may be read from."""
        return split_thinking(self.text)[1]

    @property
    def thinking(self) -> str | None:
        """All reasoning: the server's field and the tags in the text."""
        parts = [part for part in (self.reasoning, split_thinking(self.text)[0]) if part]
        return "\n".join(parts) or None

    def failed(self, kind: FailureKind, reason: str) -> "ChatFailure":
        """The failure that this answer is after all; what was said is kept for reading."""
        return ChatFailure(
            kind,
            reason,
            self.text,
            self.reasoning,
            self.finish_reason,
            self.prompt_tokens,
            self.completion_tokens,
        )


@dataclass(frozen=True)
class ChatFailure:
    """A request without a reply: a value to be counted, never a zero or an empty text."""

    kind: FailureKind
    reason: str
    text: str = ""
    """What had been said before, if anything; kept for reading, never used."""
    reasoning: str | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float = 0.0


Outcome = ChatReply | ChatFailure

THOUGHT = "think(?:ing)?|thought|reasoning|analysis"
"""Names of the tags around thinking."""
_OPEN = rf"(?:<|&lt;|◁|\[)(?:{THOUGHT})(?:>|&gt;|▷|\])"
_CLOSE = rf"(?:<|&lt;|◁|\[)/(?:{THOUGHT})(?:>|&gt;|▷|\])"
_OPEN_TAG = re.compile(_OPEN, re.IGNORECASE)
_UNOPENED = re.compile(f"^(.*){_CLOSE}", re.DOTALL | re.IGNORECASE)
_UNCLOSED = re.compile(f"{_OPEN}(.*)$", re.DOTALL | re.IGNORECASE)
_ANSWER = re.compile(r"(?:<|&lt;)answer(?:>|&gt;)(.*?)(?:(?:<|&lt;)/answer(?:>|&gt;)|$)", re.DOTALL)
_OPENING_TAG = re.compile(f"{_OPEN}|(?:<|&lt;)answer(?:>|&gt;)", re.IGNORECASE)
_CLOSING_TAG = re.compile(_CLOSE, re.IGNORECASE)
_JSON_OBJECT = re.compile(r"\s*(?:```\w*\s*)?\{")
_QUOTE = re.compile(r"""(?<!\\)(?:"|`+|[“”‘’「」『』])""")
_STRAIGHT = '"`'
_OPENING_QUOTE = {"”": "“", "’": "‘", "」": "「", "』": "『"}
_SHIELD = "\ufdd0"
"""No character of any text; inside a tag it makes it none."""


def split_thinking(text: str) -> tuple[str | None, str]:
    """(thinking, answer) of a reply whose thinking stands in tags in the text.

    Whole blocks go, wherever they stand; a closing tag alone ends a thought that
    began before the reply, an opening tag alone one that never ended, so that no
    answer is left. An <answer> tag says itself what the answer is. A tag in quotation
    marks is spoken about, and a reply that is a JSON object has tags only in its strings.
    """
    if _JSON_OBJECT.match(text):
        return None, text
    thoughts: list[str] = []

    def keep(match: re.Match[str]) -> str:
        thoughts.append(match[1].strip())
        return ""

    answer = _without_blocks(_shielded(text, _OPENING_TAG), thoughts)
    # Only now: a thought ends at its closing tag, whatever it quotes.
    answer = _shielded(answer, _CLOSING_TAG)
    for pattern in (_UNOPENED, _UNCLOSED):
        answer = pattern.sub(keep, answer)
    if inside := _ANSWER.search(answer):
        answer = inside[1]
    answer = answer.replace(_SHIELD, "")
    if answer != text:
        answer = answer.strip()
    return ("\n".join(filter(None, thoughts)).replace(_SHIELD, "") or None), answer


def _without_blocks(text: str, thoughts: list[str]) -> str:
    """The text without whole blocks of thinking, which are put to `thoughts`."""
    kept, at = [], 0
    while (opening := _OPEN_TAG.search(text, at)) is not None:
        closing = _CLOSING_TAG.search(text, opening.end())
        if closing is None:
            break
        kept.append(text[at : opening.start()])
        thoughts.append(text[opening.end() : closing.start()].strip())
        at = closing.end()
    return "".join([*kept, text[at:]])


def _shielded(text: str, tag: re.Pattern[str]) -> str:
    """The text with the tags in quotation marks made none."""
    if tag.search(text) is None:
        return text
    starts, ends = _united(_quotations(text))

    def shield(match: re.Match[str]) -> str:
        span = bisect_left(starts, match.start()) - 1
        is_quoted = span >= 0 and match.start() < ends[span]
        return f"{match[0][0]}{_SHIELD}{match[0][1:]}" if is_quoted else match[0]

    return tag.sub(shield, text)


def _united(spans: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Starts and ends of the parts that any of the spans covers, in order."""
    starts: list[int] = []
    ends: list[int] = []
    for start, end in sorted(spans):
        if ends and start < ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            starts.append(start)
            ends.append(end)
    return starts, ends


def _quotations(text: str) -> list[tuple[int, int]]:
    """Where quotation marks stand around something.

    Marks that open and close alike say so only by their number: where it is odd, which
    of them belong together is not known, and none counts.
    """
    opened: defaultdict[str, list[int]] = defaultdict(list)
    found: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for match in _QUOTE.finditer(text):
        mark, at = match[0], match.start()
        opening = _OPENING_QUOTE.get(mark, mark)
        if opening == mark and not (mark[0] in _STRAIGHT and opened[mark]):
            opened[opening].append(at)
        elif opened[opening]:
            found[opening].append((opened[opening].pop(), at))
    for mark in opened:
        if mark[0] in _STRAIGHT and opened[mark]:
            found[mark].clear()
    return [span for spans in found.values() for span in spans]


@dataclass(frozen=True)
class Again:
    """Not a reply, but the next try may bring one."""

    reason: str
    kind: FailureKind = "unavailable"
    wait_s: float | None = None
    """As the server asked; None: the client's own back-off."""
    empty: ChatReply | None = None
    """The reply without an answer, which was paid for."""


class StopAskingError(Exception):
    """What would fail every request: the reason, as a clause."""


_FILTERED = re.compile(
    r"content.?filter|data_?inspection|inspection.?failed|sensitive|responsible.?ai|"
    r"content.?polic|moderation|敏感|违规|审核",
    re.IGNORECASE,
)
_TOO_LONG = re.compile(
    r"context.{0,12}(?:length|size|window)|exceed_context|maximum context|prompt (?:is )?too "
    r"(?:long|large)|too many (?:input )?tokens|上下文.{0,6}(?:超|长度)|输入.{0,6}过长",
    re.IGNORECASE,
)
_NO_MONEY = re.compile(
    r"insufficient.{0,3}(?:quota|balance|funds)|billing|arrears|payment|余额|欠费|额度不足",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(
    r"model.{0,20}(?:not.{0,3}(?:found|exist)|does not exist)|no such model|模型不存在|无此模型",
    re.IGNORECASE,
)
_NO_ACCESS = re.compile(
    r"(?:invalid|incorrect|wrong|expired).{0,10}(?:api.?)?key|unauthori[sz]ed|鉴权|认证失败|密钥",
    re.IGNORECASE,
)
_BROKEN_FINISH = frozenset(
    {"network_error", "error", "abort", "aborted", "insufficient_system_resource"}
)
_FILTER_FINISH = frozenset(
    {"content_filter", "sensitive", "safety", "prohibited_content", "recitation", "blocklist"}
    | {"spii", "refusal"}
)
_OTHER_NAMES = {
    **dict.fromkeys(("max_tokens", "max_output_tokens", "model_length"), "length"),
    **dict.fromkeys(("eos", "eos_token", "end_turn", "stop_sequence"), "stop"),
}


def finish_of(told: Any) -> str | None:
    """A finish_reason by the name that most servers give it, whatever the gateway wrote."""
    if not isinstance(told, str):
        return None
    name = told.strip().lower()
    return _OTHER_NAMES.get(name, name)


def read_answer(
    status: int, body: bytes, headers: Mapping[str, str], hiding: Hiding | None = None
) -> ChatReply | ChatFailure | Again:
    """What an HTTP answer says: a reply, a failure of this request, or a reason to ask again.

    Here, and nowhere later, the key is hidden that a server may echo, and text is made
    writable as UTF-8; the answer may be of any shape.

    Args:
        hiding: knows the key.

    Raises:
        StopAskingError: every other request would fail alike.
    """
    hiding = hiding or Hiding()
    try:
        return _without_secrets(_read(status, body, headers, hiding), hiding)
    except UNREADABLE:
        return Again("answered with what cannot be read as a chat completion", "broken")


UNREADABLE = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError)
"""What reading a value of another shape than expected ends in."""


def _read(
    status: int, body: bytes, headers: Mapping[str, str], hiding: Hiding
) -> ChatReply | ChatFailure | Again:
    try:
        # Before any text is cut to length: half a key would no longer be found.
        told = _json_of(body)
        value = hiding.value(told)
    except RecursionError:
        told = value = None
    if status != 200:
        words = hiding.text(body.decode("utf-8", "replace")).strip()
        return _read_error(status, value or {}, words, headers)
    if value is None:
        kind = headers.get("content-type", "something without a type")
        return Again(
            f"answered with {hiding.text(kind).split(';')[0]}, not a chat completion", "broken"
        )
    if value != told:
        # The tokens of a text with the key in it spell the key.
        for choice in value.get("choices") or ():
            choice.pop("logprobs", None)
    if not value.get("choices") and (error := _error_in(value)) is not None:
        return _classify_error(None, *error, wait_s=None, value=value)
    choices = value.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return Again("answered without choices", "broken")
    return _read_choice(choices[0], value)


Found = TypeVar("Found", ChatReply, ChatFailure, Again, ChatReply | ChatFailure | Again)


def _without_secrets(found: Found, hiding: Hiding) -> Found:
    """The same once more without the key, which parts or events may have held in pieces."""
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(found):
        value = getattr(found, field.name)
        if isinstance(value, str):
            changes[field.name] = hiding.text(_writable(value))
        elif isinstance(value, ChatReply):
            changes[field.name] = _without_secrets(value, hiding)
    if isinstance(found, ChatReply) and found.log_probs is not None:
        likeliest = "".join(place[0][0] for place in found.log_probs if place)
        if hiding.text(likeliest) != likeliest:
            changes["log_probs"] = None
    return dataclasses.replace(found, **changes)


def _writable(text: str) -> str:
    """JSON may hold halves of surrogate pairs, which no file can."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _json_of(body: bytes) -> dict[str, Any] | None:
    """The body's JSON object, also of an event stream that was read to its end."""
    start = body.lstrip()[:6]
    try:
        if start.startswith((b"data:", b":", b"event:", b"id:")):
            return _joined_stream(body)
        value = json.loads(body)
    except UNREADABLE:
        return None
    return value if isinstance(value, dict) else None


def _joined_stream(body: bytes) -> dict[str, Any] | None:
    """The events of a stream as the one object that `stream: false` would have brought."""
    text, reasoning, finish = "", "", None
    whole: dict[str, Any] = {}
    for line in re.split(rb"\r\n|\n|\r", body):
        payload = line.removeprefix(b"data:").strip()
        if not line.startswith(b"data:") or payload == b"[DONE]":
            continue
        try:
            event = json.loads(payload)
        except ValueError:
            return None
        if not isinstance(event, dict) or (_error_in(event) and not event.get("choices")):
            return event if isinstance(event, dict) else None
        whole |= {name: event[name] for name in ("model", "usage") if event.get(name)}
        for choice in (event.get("choices") or [])[:1]:
            delta = choice.get("delta") or {}
            text += delta.get("content") or ""
            reasoning += delta.get("reasoning_content") or delta.get("reasoning") or ""
            finish = choice.get("finish_reason") or finish
    if finish is None:
        # The connection closed early: half a text must not pass for a reply.
        return whole | {
            "error": {"message": "the stream ended without a finish_reason", "code": 502}
        }
    message = {"content": text, "reasoning_content": reasoning}
    return whole | {"choices": [{"message": message, "finish_reason": finish}]}


def _error_in(value: Mapping[str, Any]) -> tuple[str, str] | None:
    """(code, message) of an error body in any vendor's dress, or None."""
    error = value.get("error")
    if isinstance(error, str) and error:
        return "", error
    if isinstance(error, Mapping) and error:
        inner = error.get("innererror")
        codes = [
            error.get("code"),
            error.get("type"),
            inner.get("code") if isinstance(inner, Mapping) else None,
        ]
        return " ".join(str(code) for code in codes if code), str(error.get("message") or error)
    for code, message in (
        ("code", "msg"),
        ("error_code", "error_msg"),
        ("code", "message"),
        ("code", "detail"),
    ):
        if code in value and message in value:
            return str(value[code]), str(value[message])
    if value.get("success") is False or "detail" in value or "message" in value:
        return "", str(value.get("detail") or value.get("message") or value)
    return None


def _place(url: str) -> str:
    """Host and path of an address, without what may be a key."""
    return re.sub(r"[?#].*|(?<=//)[^/@]*@", "", " ".join(url.split()))[:200]


_MARKUP = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)


def _read_error(
    status: int, value: Mapping[str, Any], words: str, headers: Mapping[str, str]
) -> ChatFailure | Again:
    code, message = _error_in(value) or ("", "")
    if 300 <= status < 400 and (to := headers.get("location")):
        raise StopAskingError(f"sends requests on to {_place(to)}, which may be another base_url")
    if not message:
        # Of a page, what is to be read; a cut beforehand bounds the time.
        plain = _MARKUP.sub(" ", words[:5000]) if words.startswith("<") else words
        message = " ".join(plain.split())[:200] or f"HTTP {status}"
    return _classify_error(status, code, message, wait_s=retry_after(headers), value=value)


def _classify_error(
    status: int | None, code: str, message: str, *, wait_s: float | None, value: Mapping[str, Any]
) -> ChatFailure | Again:
    """An error by its HTTP status (None: it came inside a 200) and its own words."""
    said = f"{code} {message}"
    where = f"HTTP {status}: " if status else ""
    told = f"{where}{_writable(' '.join(message.split()))[:300]}"
    if _is_filter(status, code, message):
        return ChatFailure("filtered", f"the content filter stopped it ({told})")
    if wait_s is None:
        wait_s = _wait_in(message, value)
    if status == 401 or (status is None and _NO_ACCESS.search(said)):
        raise StopAskingError(f"refused the key ({told})")
    if status == 403:
        raise StopAskingError(f"denied access with this key ({told})")
    if status == 402 or (_NO_MONEY.search(said) and (_EMPTY.search(code) or wait_s is None)):
        raise StopAskingError(f"asks for money ({told})")
    if status == 404 or _NO_MODEL.search(said):
        raise StopAskingError(f"does not know the model or the address ({told})")
    if _TOO_LONG.search(said):
        return ChatFailure("too_long", _too_long(value, told))
    if status in (400, 405, 406, 413, 415, 422):
        return ChatFailure("rejected", f"the server minds the request ({told})")
    return Again(told or f"error {code}", wait_s=wait_s)


def _is_filter(status: int | None, code: str, message: str) -> bool:
    """Is it a content filter, not an error that only speaks of one?

    Where a status has a meaning of its own, the server's code must say so.
    """
    if status in (401, 402, 404, 429):
        return False
    said = code if status in (403, 500) else f"{code} {message}"
    return _FILTERED.search(_NO_FILTER.sub("", said)) is not None


_NO_FILTER = re.compile(
    r"case.?(?:in)?sensitive|(?:账号|账户|实名|资料|资质|企业|认证)[^，。,.]{0,8}审核",
    re.IGNORECASE,
)
_EMPTY = re.compile(r"insufficient|billing|arrears|balance|\b1113\b", re.IGNORECASE)
"""Codes of an account without money; words alone also stand in limits per minute."""
_IN = re.compile(
    r"(?:retry|try again)\s+(?:in|after)\s+((?:\d+(?:\.\d+)?\s*(?:ms|h|m|s)[a-z]{0,8}\s*)+)",
    re.IGNORECASE,
)
_AFTER = re.compile(r"(\d+(?:\.\d+)?\s*(?:秒|分钟|小时))\s*(?:之?后|内)")
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|h|m|s|秒|分钟|小时)", re.IGNORECASE)
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "秒": 1, "分钟": 60, "小时": 3600}
_MOMENT = re.compile(r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d)(?::(\d\d))?")
_COMES_BACK = re.compile(r"恢复|重置|reset|available|retry|try again|重试", re.IGNORECASE)


def _wait_in(message: str, value: Mapping[str, Any]) -> float | None:
    """Seconds to wait by an error's own words: a delay, or the time at which it ends."""
    error = value.get("error")
    details = error.get("details") if isinstance(error, Mapping) else None
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, Mapping) else None
        if isinstance(delay, str) and (found := _seconds_in(delay)):
            return found
    if (said := _IN.search(message) or _AFTER.search(message)) and (found := _seconds_in(said[1])):
        return found
    if _COMES_BACK.search(message) and (moment := _MOMENT.search(message)):
        with suppress(ValueError, OverflowError):
            year, month, day, hour, minute, second = (int(n or 0) for n in moment.groups())
            at = datetime.datetime(year, month, day, hour, minute, second)
            # Servers write their own time, which is taken for ours.
            return max(at.timestamp() - time.time(), 0.0) or None
    return None


def _seconds_in(text: str) -> float:
    """'1m30.5s' -> 90.5; 0 where no amount stands there."""
    return sum(float(n) * _SECONDS[unit.lower()] for n, unit in _AMOUNT.findall(text))


def _too_long(value: Mapping[str, Any], told: str) -> str:
    """Says prompt length and limit, from llama.cpp's own fields where it has them."""
    error = value.get("error")
    fields = error if isinstance(error, Mapping) else {}
    if "n_prompt_tokens" in fields and "n_ctx" in fields:
        return (
            f"the prompt of {fields['n_prompt_tokens']:,} tokens does not fit into the context "
            f"of {fields['n_ctx']:,}"
        )
    return f"the prompt does not fit into the context ({told})"


def _read_choice(
    choice: Mapping[str, Any], value: Mapping[str, Any]
) -> ChatReply | ChatFailure | Again:
    message = choice.get("message")
    finish = finish_of(choice.get("finish_reason"))
    if not isinstance(message, Mapping):
        return Again("answered with a choice that has no message", "broken")
    if finish in _BROKEN_FINISH:
        return Again(f"broke off with finish_reason {finish}")
    text = _text_of(message.get("content"))
    reasoning = _text_of(
        message.get("reasoning_content") or message.get("reasoning") or message.get("thinking")
    )
    usage = value.get("usage")
    usage = usage if isinstance(usage, Mapping) else {}
    model = value.get("model")
    reply = ChatReply(
        text=text,
        reasoning=reasoning or None,
        finish_reason=finish,
        # Zero tokens for what is not empty are no count.
        prompt_tokens=_told(usage, "prompt_tokens", "input_tokens") or None,
        completion_tokens=_told(usage, "completion_tokens", "output_tokens")
        or (None if text or reasoning else 0),
        model=model if isinstance(model, str) else None,
        cached_tokens=_cached(usage),
        log_probs=_log_probs(choice.get("logprobs")),
    )
    if finish in _FILTER_FINISH:
        return reply.failed("filtered", f"the content filter stopped it (finish_reason {finish})")
    if not text.strip() and (refusal := _text_of(message.get("refusal"))):
        return reply.failed("filtered", f"the model refused ({refusal[:200]})")
    if reply.answer.strip():
        return reply
    if finish == "length":
        used = reply.completion_tokens
        tokens = f" ({used} of {used} tokens)" if used else ""
        reason = f"the budget of tokens was used up by reasoning{tokens}; raise max_tokens"
        return reply.failed("reasoning_only", reason)
    said = "the answer is empty, reasoning only" if reply.thinking else "the answer is empty"
    return Again(said, "no_answer", empty=reply)


def _text_of(content: Any) -> str:
    """Text of a content field: a string, null, or a list of parts; always writable as UTF-8."""
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, Mapping)]
        content = "".join(text for text in texts if isinstance(text, str))
    if not isinstance(content, str):
        return ""
    return _writable(content)


def _cached(usage: Mapping[str, Any]) -> int | None:
    """Tokens of a common beginning that were not read anew, in either dress."""
    details = usage.get("prompt_tokens_details")
    inner = details.get("cached_tokens") if isinstance(details, Mapping) else None
    return _count(inner if inner is not None else usage.get("prompt_cache_hit_tokens"))


def _log_probs(told: Any) -> tuple[tuple[tuple[str, float], ...], ...] | None:
    """The tokens of each place, the likeliest first; None where a server tells none."""
    content = told.get("content") if isinstance(told, Mapping) else None
    if not isinstance(content, list) or not content:
        return None
    places = []
    for place in content:
        top = place.get("top_logprobs") if isinstance(place, Mapping) else None
        known = [
            (_text_of(entry.get("token")), float(entry["logprob"]))
            for entry in (top if isinstance(top, list) else [])
            if isinstance(entry, Mapping)
            and isinstance(entry.get("logprob"), float | int)
            and abs(entry["logprob"]) < MOST
        ]
        places.append(tuple(sorted(known, key=lambda entry: -entry[1])))
    return tuple(places) if any(places) else None


MOST = 10**9
"""Tokens of an answer; what is more is a server's mistake, and no file could hold all of it."""


def _told(usage: Mapping[str, Any], *names: str) -> int | None:
    """The first count that stands under one of these names."""
    counts = (_count(usage.get(name)) for name in names)
    return next((count for count in counts if count is not None), None)


def _count(value: Any) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,10}", value):
        value = int(value)
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST
    return value if is_count else None


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds that a server asks to wait; None where it says nothing usable.

    Seconds, decimals and HTTP dates are understood; zero, negative, past and unreadable
    values leave the waiting to the client's own back-off.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    seconds = _number(lower.get("retry-after-ms", ""))
    if seconds is not None:
        seconds /= 1000
    else:
        text = lower.get("retry-after", "")
        seconds = _number(text)
        if seconds is None:
            with suppress(ValueError):
                moment = email.utils.parsedate_to_datetime(text).timestamp()
                seconds = moment - (time.time() if now is None else now)
    return seconds if seconds is not None and seconds > 0 else None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
