"""JSON as LLMs write it: fences, single or Chinese quotes, trailing commas, cut off.

A scalar stays the text it was written as ("90", "85-90", "true"): what is a
score is for the caller to say. An object is a list of pairs, since a judge may
give a key twice, and that must be seen.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Union

_CLOSING = {'"': '"', "'": "'", "“": "”", "‘": "’", "「": "」", "`": "`"}
_BLANK = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_AFTER_STRING = re.compile(r"\s*(?:[,，:：}\]]|//|$)")
_KEY = r"""["'“‘「`][^"'“”‘’「」`\n:：,，{}\[\]]{1,30}["'”’」`]\s*[:：]"""
_AFTER_VALUE = re.compile(rf"\s*(?:\}}|[,，]\s*(?:{_KEY}|\}})|{_KEY})")
_AFTER_ELEMENT = re.compile(r"""\s*(?:\]|[,，]\s*(?:["'“‘「`{\[\]\-]|\d))""")
"""Where a string ends that may hold quotation marks and commas after them."""
_DEEPEST = 20
_BARE = re.compile(r"[^,，:：{}\[\]\n\"“”]+")


@dataclass(frozen=True)
class JsonObject:
    """An object's members in their order, a repeated key twice."""

    members: list[tuple[str, "Value"]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.members)


Value = Union[JsonObject, "list[Value]", str]


@dataclass(frozen=True)
class Document:
    """One object or array found in a text.

    Attributes:
        start, end: where it stands; text[start:end].
        repaired: strict JSON would have refused it.
        cut: the text ended inside it; what was not whole is left out.
    """

    value: JsonObject | list[Value]
    start: int
    end: int
    repaired: bool
    cut: bool


class _CutError(Exception):
    """The text ended inside a value."""


class _NotJsonError(Exception):
    """What stands here is no member, value or separator."""


class _TooDeepError(_NotJsonError):
    """More levels than any verdict has."""


_MOST_READ = 20
"""Times the length of a text that is read over in search of documents with bare quotation marks
in them: each may fail only at its end, and then the next is looked for inside it."""


def documents(text: str) -> Iterator[Document]:
    """Every outermost object or array in the text, in order."""
    position, to_read = 0, _MOST_READ * len(text)
    while (opening := re.compile(r"[{\[]").search(text, position)) is not None:
        document, n_read = _document(text, opening.start(), may_search=to_read > 0)
        to_read -= n_read
        position = max(document.end, opening.end()) if document else opening.end()
        if document is not None and document.value:
            yield document


def _document(text: str, start: int, may_search: bool) -> tuple[Document | None, int]:
    """What begins here, if it can be read, and how many characters were searched for nothing.

    Strings may hold bare quotation marks. Those are looked for only where nothing else helps,
    and never to the text's end: one odd mark would take in all that follows.
    """
    n_read = 0
    for has_bare_quotes in (False, True) if may_search else (False,):
        reader = _Reader(text, start, has_bare_quotes)
        try:
            value = reader.container()
        except _TooDeepError:
            break
        except _NotJsonError:
            pass
        else:
            if not (has_bare_quotes and reader.cut):
                repaired = _is_repaired(text[start : reader.at])
                return Document(value, start, reader.at, repaired, reader.cut), n_read
        n_read = reader.at - start
    return None, n_read


def _is_repaired(text: str) -> bool:
    try:
        json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return True
    return False


class _Reader:
    """A recursive descent over one container."""

    def __init__(self, text: str, start: int, has_bare_quotes: bool) -> None:
        self.text, self.at, self.cut, self.depth = text, start, False, 0
        self.has_bare_quotes = has_bare_quotes

    def container(self) -> JsonObject | list[Value]:
        """Read the object or array that begins here; of a cut one, what was whole."""
        opening = self.text[self.at]
        self.at += 1
        self.depth += 1
        if self.depth > _DEEPEST:
            raise _TooDeepError
        found: JsonObject | list[Value] = JsonObject() if opening == "{" else []
        closing = "}" if opening == "{" else "]"
        while not self.cut:
            try:
                if self._next() == closing:
                    self.at += 1
                    break
                self._member(found)
                if self._next() in ",，":
                    self.at += 1
                elif self.text[self.at] not in "}]" and not self._starts_member(found):
                    raise _NotJsonError
            except _CutError:
                self.cut = True
        self.depth -= 1
        return found

    def _starts_member(self, found: JsonObject | list[Value]) -> bool:
        """A forgotten comma: the next member begins right away."""
        return isinstance(found, JsonObject) and self.text[self.at] in _CLOSING

    def _member(self, found: JsonObject | list[Value]) -> None:
        if not isinstance(found, JsonObject):
            found.append(self._value(_AFTER_ELEMENT))
            return
        key = self._scalar()
        if self._next() not in ":：":
            raise _NotJsonError
        self.at += 1
        found.members.append((key, self._value(_AFTER_VALUE)))

    def _value(self, after: re.Pattern[str]) -> Value:
        after = after if self.has_bare_quotes else _AFTER_STRING
        return self.container() if self._next() in "{[" else self._scalar(after)

    def _scalar(self, after: re.Pattern[str] = _AFTER_STRING) -> str:
        quote = self._next()
        if quote in _CLOSING:
            return self._string(_CLOSING[quote], after)
        bare = _BARE.match(self.text, self.at)
        if bare is None:
            raise _NotJsonError
        self.at = bare.end()
        if self.at == len(self.text):
            # "9" may have been on its way to become 90.
            raise _CutError
        return bare.group().split("//")[0].strip()

    def _string(self, closing: str, after: re.Pattern[str]) -> str:
        """Up to a closing quote that is followed as one should be."""
        start = self.at = self.at + 1
        while (end := self.text.find(closing, self.at)) >= 0:
            self.at = end + 1
            if _is_escaped(self.text, end):
                continue
            if after.match(self.text, self.at):
                return _unescaped(self.text[start:end])
        self.at = len(self.text)
        raise _CutError

    def _next(self) -> str:
        """The next character that is neither blank nor comment, which is not read yet."""
        blank = _BLANK.match(self.text, self.at)
        self.at = blank.end() if blank else self.at
        if self.at >= len(self.text):
            raise _CutError
        return self.text[self.at]


def _is_escaped(text: str, at: int) -> bool:
    first = at
    while first > 0 and text[first - 1] == "\\":
        first -= 1
    return (at - first) % 2 == 1


def _unescaped(text: str) -> str:
    for written, meant in (("\\n", "\n"), ("\\t", "\t"), ('\\"', '"'), ("\\'", "'"), ("\\/", "/")):
        text = text.replace(written, meant)
    return re.sub(r"\\u([0-9a-fA-F]{4})", lambda m: chr(int(m[1], 16)), text).replace("\\\\", "\\")
