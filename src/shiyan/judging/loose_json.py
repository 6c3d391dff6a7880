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


def documents(text: str) -> Iterator[Document]:
    """Every outermost object or array in the text, in order."""
    position = 0
    while (opening := re.compile(r"[{\[]").search(text, position)) is not None:
        reader = _Reader(text, opening.start())
        try:
            value = reader.container()
        except _NotJsonError:
            position = opening.end()
            continue
        if value:
            repaired = _is_repaired(text[opening.start() : reader.at])
            yield Document(value, opening.start(), reader.at, repaired, reader.cut)
        position = max(reader.at, opening.end())


def _is_repaired(text: str) -> bool:
    try:
        json.loads(text, strict=False)
    except ValueError:
        return True
    return False


class _Reader:
    """A recursive descent over one container."""

    def __init__(self, text: str, start: int) -> None:
        self.text, self.at, self.cut, self.depth = text, start, False, 0

    def container(self) -> JsonObject | list[Value]:
        """Read the object or array that begins here; of a cut one, what was whole."""
        opening = self.text[self.at]
        self.at += 1
        self.depth += 1
        if self.depth > _DEEPEST:
            raise _NotJsonError
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
            found.append(self._value())
            return
        key = self._scalar()
        if self._next() not in ":：":
            raise _NotJsonError
        self.at += 1
        found.members.append((key, self._value()))

    def _value(self) -> Value:
        return self.container() if self._next() in "{[" else self._scalar()

    def _scalar(self) -> str:
        quote = self._next()
        if quote in _CLOSING:
            return self._string(_CLOSING[quote])
        bare = _BARE.match(self.text, self.at)
        if bare is None:
            raise _NotJsonError
        self.at = bare.end()
        if self.at == len(self.text):
            # "9" may have been on its way to become 90.
            raise _CutError
        return bare.group().split("//")[0].strip()

    def _string(self, closing: str) -> str:
        """Up to a closing quote that something JSON-like follows: quotes inside may stand bare."""
        start = self.at = self.at + 1
        while (end := self.text.find(closing, self.at)) >= 0:
            self.at = end + 1
            if _is_escaped(self.text, end):
                continue
            if _AFTER_STRING.match(self.text, self.at):
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
