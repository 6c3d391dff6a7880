"""What a reply is wrapped in: special tokens, HTML, JSON, code fences, tables, Markdown.

Each rule takes the text and returns it without its wrapping, unchanged where the
rule does not apply; what it dropped is told to `drop(text)`.
"""

import html
import json
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

Drop = Callable[[str], None]

_SPECIAL = re.compile(
    r"<\|?(?:im_end|im_start|endoftext|eot_id|end_of_text|eos|end_of_turn|user|assistant)\|?>"
    r"|<｜[^｜>]{1,40}｜>|</?s>|\[/?INST\]|<(?:eos|pad|unk)>",
    re.IGNORECASE,
)
_BREAK_TAG = re.compile(r"</?(?:br|p|div|li|tr|h[1-6])\b[^<>]{0,80}/?>", re.IGNORECASE)
_TAG = re.compile(
    r"</?(?:b|i|u|em|strong|span|font|center|ul|ol|body|html|poem|title|text|pre|sup|sub|table|td)"
    r"\b[^<>]{0,80}>",
    re.IGNORECASE,
)
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[^\n`]*$", re.MULTILINE)
_EMPHASIS = re.compile(r"(\*{1,3}|_{1,3}|~~|`)(?=\S)(.{1,200}?)(?<=\S)\1")
_LOOSE_EMPHASIS = re.compile(r"^(?:\*{1,3}|_{1,3})|(?:\*{1,3}|_{1,3})$")
_HEADING = re.compile(r"^#{1,6}\s*(?=\S)")
_RULE = re.compile(r"^[-*_=—─~·•]{3,}$")
_NUMBER = re.compile(r"^[（(\[]?(\d{1,3})[.、)．）\]:：]\s*")
_BULLET = re.compile(r"^[-*•·‧●○◦]\s+")
_TITLE_KEYS = ("title", "题目", "标题", "诗题", "诗名")
_BODY_KEYS = (
    "poem",
    "body",
    "content",
    "text",
    "lines",
    "正文",
    "诗",
    "诗歌",
    "诗文",
    "词",
    "内容",
)
_BODY_HEADS = ("词", "词句", "句", "诗句", "原文", "正文", "内容", "文本", "诗")


def without_special_tokens(text: str, drop: Drop) -> str:
    """The text up to the first token that ends a turn; what follows is another turn."""
    start = 0
    for match in _SPECIAL.finditer(text):
        if text[start : match.start()].strip():
            drop(text[match.start() :])
            return text[start : match.start()]
        # A token in front of everything opens the turn; the next one may end it.
        drop(match[0])
        start = match.end()
    return text[start:]


def without_html(text: str, drop: Drop) -> str:
    """Break tags as line breaks, other tags gone, entities as their characters."""
    plain = _TAG.sub("", _BREAK_TAG.sub("\n", text))
    plain = re.sub(r"&(?:[a-zA-Z]{2,8}|#\d{2,6});", lambda m: html.unescape(m[0]), plain)
    if plain != text:
        drop("tags")
    return plain


def without_json(text: str, drop: Drop) -> str:
    """A reply that is one JSON object with a poem in it, as title line and body."""
    start, end = text.find("{"), text.rfind("}")
    outside = _FENCE.sub("", text[: max(start, 0)] + text[end + 1 :])
    if start < 0 or end < start or len(outside.strip()) > 60:
        return text
    try:
        value = json.loads(text[start : end + 1], strict=False)
    except (ValueError, RecursionError):
        return text
    if not isinstance(value, dict):
        return text
    inner = [value, *(v for v in value.values() if isinstance(v, dict))]
    body = next((b for v in inner if (b := _first(v, _BODY_KEYS))), "")
    if not body:
        return text
    title = next((t for v in inner if (t := _first(v, _TITLE_KEYS))), "")
    drop(text)
    return f"《{title}》\n\n{body}" if title else body


def _first(value: dict[str, Any], keys: tuple[str, ...]) -> str:
    for key in keys:
        found = value.get(key)
        if isinstance(found, str) and found.strip():
            return found
        if isinstance(found, list) and found and all(isinstance(line, str) for line in found):
            return "\n".join(found)
    return ""


def without_fence(text: str, drop: Drop) -> str:
    """The inside of the first code fence that holds more than a word; else no fence lines."""
    fences = list(_FENCE.finditer(text))
    if not fences:
        return text
    for opening, closing in pairwise(fences):
        inside = text[opening.end() : closing.start()].strip("\n")
        if inside.count("\n") >= 1:
            drop(text[: opening.end()])
            drop(text[closing.start() :])
            return inside
    drop("fence")
    return _FENCE.sub("", text)


def without_table(text: str, drop: Drop) -> str:
    """The column of a Markdown table that holds the verse."""
    lines = text.split("\n")
    rows = [index for index, line in enumerate(lines) if re.match(r"\s*\|.*\|\s*$", line)]
    if len(rows) < 2:
        return text
    cells = {i: [cell.strip() for cell in lines[i].strip().strip("|").split("|")] for i in rows}
    header, *body = rows
    width = len(cells[header])
    body = [i for i in body if not re.fullmatch(r"[\s|:\-]+", lines[i]) and len(cells[i]) == width]
    if not body:
        return text
    named = [c for c, name in enumerate(cells[header]) if name in _BODY_HEADS]
    column = max(named or range(width), key=lambda c: _verse_in(cells, body, c))
    drop("\n".join(lines[i] for i in rows))
    verse = {i: cells[i][column] for i in body}
    return "\n".join(
        verse.get(index, "" if index in cells else line)
        for index, line in enumerate(lines)
        if index not in cells or index in verse
    )


def _verse_in(cells: dict[int, list[str]], rows: list[int], column: int) -> int:
    """Han characters of a column that are no tone names."""
    text = "".join(cells[row][column] for row in rows)
    return len(re.sub(r"[^\u3400-\u9fff]|[平仄中]", "", text))


def without_quote_marks(text: str, drop: Drop) -> str:
    """Lines without the `>` of a block quote, where all or nearly all have one."""
    lines = text.split("\n")
    written = [line for line in lines if line.strip()]
    quoted = [line for line in written if line.lstrip().startswith((">", "＞"))]
    if not quoted or len(quoted) < 0.6 * len(written):
        return text
    drop("block quote")
    return "\n".join(re.sub(r"^\s*[>＞]\s?", "", line) for line in lines)


def without_markdown(text: str, drop: Drop) -> str:
    """Lines without headings, emphasis, bullets and rulers; a ruler parts like a blank line.

    A heading gets a blank line after it, which it has on the page.
    """
    lines = text.split("\n")
    bulleted = sum(bool(_BULLET.match(line.strip())) for line in lines)
    marked = bulleted >= 3 and bulleted >= 0.5 * sum(bool(line.strip()) for line in lines)
    plain: list[str] = []
    for line in lines:
        bare = line.strip().removesuffix("\\")
        if _RULE.match(bare):
            plain.append("")
            continue
        heading = _HEADING.search(bare)
        bare = _HEADING.sub("", bare)
        bare = _BULLET.sub("", bare) if marked else bare
        bare = _EMPHASIS.sub(r"\2", _EMPHASIS.sub(r"\2", bare))
        bare = _LOOSE_EMPHASIS.sub("", bare)
        plain += [bare, ""] if heading else [bare]
    changed = "\n".join(plain)
    if [line.strip() for line in changed.split("\n") if line.strip()] != [
        line.strip() for line in lines if line.strip()
    ]:
        drop("marks")
    return changed


def without_numbers(text: str, drop: Drop) -> str:
    """Lines without 1. 2. 3., where three or more of them count upwards."""
    lines = text.split("\n")
    found = [(i, int(m[1])) for i, line in enumerate(lines) if (m := _NUMBER.match(line.strip()))]
    counted = [number for _, number in found]
    if len(found) < 3 or counted != list(range(counted[0], counted[0] + len(counted))):
        return text
    drop("numbers")
    for index, _ in found:
        lines[index] = _NUMBER.sub("", lines[index].strip())
    # What stands above the first number is set apart by it, as by a blank line.
    lines.insert(found[0][0], "")
    return "\n".join(lines)
