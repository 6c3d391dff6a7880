"""A text as it came, a person's or an LLM's: what is mended in it, and what is odd about it.

What can only be damage is mended, by named rules:

    html            break tags as line breaks, other tags gone, entities as their characters
    escaped_breaks  \\n as two characters, where hardly a real line break stands

What may be meant is kept, and flagged with its line:

    private_use     a character that only its maker's font shows: at the end of a line it goes,
                    elsewhere it is □ (`poem`)
    lost_break      U+FEFF within a line, where a line break may have been
    page_number     a line such as - 47 - between others
    stray_letters   letters of a third script, or a small Latin one between two characters,
                    as a scanner misreads them
"""

import html
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from shiyan.poem import PRIVATE

Drop = Callable[[str], None]

_BREAK_TAG = re.compile(r"</?(?:br|p|div|li|tr|h[1-6])\b[^<>]{0,80}/?>", re.IGNORECASE)
_TAG = re.compile(
    r"</?(?:b|i|u|em|strong|span|font|center|ul|ol|body|html|poem|title|text|pre|sup|sub|table|td)"
    r"\b[^<>]{0,80}>",
    re.IGNORECASE,
)
_ENTITY = re.compile(r"&(?:[a-zA-Z]{2,8}|#\d{2,6}|#x[0-9a-fA-F]{2,5});")
_ESCAPED_BREAK = re.compile(r"(?:\\+r)?\\+n(?![a-z])|\\+r(?![a-z])")
_FEWEST = 2
"""Escaped line breaks from which they are no slip …"""
_TIMES = 3
"""… and how many of them must stand for each real one."""

_LOST_BREAK = re.compile(r"(?<=[^\s\ufeff])\ufeff+(?=[^\s\ufeff])")
_PAGE_NUMBER = re.compile(r"\s*(?:([-—–－·•])\s*[0-9０-９]{1,4}\s*\1|第\s*[0-9０-９]{1,4}\s*页)\s*")
_HAN = "\u3400-\u9fff"
_STRAY_LETTERS = re.compile(
    # Kana, Bopomofo, Hangul, Cyrillic.
    "[\u3041-\u3096\u30a1-\u30fa\u3105-\u312f\u31a0-\u31bf\uac00-\ud7a3\u0400-\u04ff]"
    f"|(?<=[{_HAN}])[a-z][0-9]?(?=[{_HAN}])"
)
_ODD = {
    "private_use": PRIVATE.search,
    "lost_break": _LOST_BREAK.search,
    "page_number": _PAGE_NUMBER.fullmatch,
    "stray_letters": _STRAY_LETTERS.search,
}


@dataclass(frozen=True)
class Oddity:
    """What is flagged in a text that is kept."""

    rule: str
    line: str


def without_html(text: str, drop: Drop) -> str:
    """Break tags as line breaks, other tags gone, entities as their characters."""
    plain = _TAG.sub("", _BREAK_TAG.sub("\n", text))
    plain = _ENTITY.sub(lambda entity: html.unescape(entity[0]), plain)
    if plain != text:
        drop("tags")
    return plain


def without_escapes(text: str, drop: Drop) -> str:
    r"""A text whose line breaks are written \n, with line breaks; its JSON quotes go too."""
    n = len(_ESCAPED_BREAK.findall(text))
    bare = text.strip()
    if n < _FEWEST or n < _TIMES * bare.count("\n"):
        return text
    drop("\\n")
    if len(bare) > 1 and bare[0] == bare[-1] == '"':
        bare = bare[1:-1]
    bare = _ESCAPED_BREAK.sub("\n", bare)
    return re.sub(r'\\+(["\'/])', r"\1", re.sub(r"\\+t(?![a-z])", "\t", bare))


MENDING: dict[str, Callable[[str, Drop], str]] = {
    "html": without_html,
    "escaped_breaks": without_escapes,
}


def mended(text: str) -> tuple[str, list[str]]:
    """(the text, the rules by which it was mended)."""
    fired: list[str] = []
    for rule, mend in MENDING.items():
        gone: list[str] = []
        text = mend(text, gone.append)
        if gone:
            fired.append(rule)
    return text, fired


def oddities(text: str) -> Iterator[Oddity]:
    """What is odd in a text before the parser has it, line by line."""
    for line in text.splitlines():
        for rule, found in _ODD.items():
            if found(line):
                yield Oddity(rule, line.strip())


def is_page_number(text: str) -> bool:
    """Is there nothing in a text but the number of its page?"""
    return _PAGE_NUMBER.fullmatch(text.strip()) is not None


def flags_of(rules: Iterable[str], odd: Iterable[Oddity]) -> list[str]:
    """What was mended and what is odd, by name, each once."""
    return list(map(named, dict.fromkeys([*rules, *(oddity.rule for oddity in odd)])))


def named(rule: str) -> str:
    """A rule's name in counts of a corpus, where others are words."""
    return rule.replace("_", " ")
