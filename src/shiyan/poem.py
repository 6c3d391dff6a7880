"""Text to title, stanzas, lines and characters: the one parser of poems.

The rules, the same for every poem whoever wrote it:

1. Any line break of Unicode ends a line (CRLF, CR, U+2028, vertical tab …).
2. The text is NFC: canonically equivalent spellings are one text and must get one
   count and one score. It is never NFKC, which would turn ，！？ into ASCII.
3. What has no shape is no part of the text: a BOM, zero-width and bidi marks,
   variation selectors, control characters.
   A private-use character (only its maker's font shows it) is none either at the end of
   a line; elsewhere it may have been a character, and is a lacuna □.
4. Blanks (tab, U+00A0, U+3000 and all others) at either end of a line go, so an
   indent is no part of a line; inside a line a run of blanks is one ordinary space.
   Which blank a typist used would otherwise tell a corpus from a reply.
5. A line without a visible character is blank; blank lines, one or several, part
   two stanzas. There are none before the first stanza and after the last.
6. A character (字) is a Han ideograph, or 々 〻 〇, which stand for one, or one that is
   described by its parts (⿰氵丐). Punctuation, digits, Latin letters and the lacuna □ are
   not characters.
"""

import re
import unicodedata
from dataclasses import dataclass
from itertools import chain, pairwise

_BREAK = re.compile("\r*\n|\r|[\x0b\x0c\x85\u2028\u2029]")
_SHAPELESS = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
PRIVATE = re.compile("[\ue000-\uf8ff\U000f0000-\U0010fffd]")
_PRIVATE_AT_END = re.compile(rf"(?:{PRIVATE.pattern}|\s)+$")
_DESCRIBED = re.compile("[\u2ff0-\u2fff\u31ef]")
"""Says how the following parts make a character."""
_PARTS = dict.fromkeys("\u2ff2\u2ff3", 3) | dict.fromkeys("\u2ffe\u2fff", 1)
"""How many parts, where not two."""
_NOT_A_CHARACTER = re.compile(
    "[^\u2ff0-\u2fff\u31ef\u3005\u3007\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd]+"
)

Spans = tuple[tuple[int, int], ...]
"""(start, end) of pieces of a text, in Python's characters."""


def stanzas(text: str) -> tuple[tuple[str, ...], ...]:
    """The body's stanzas, each a tuple of its non-empty lines; empty for a blank text."""
    found: list[tuple[str, ...]] = []
    current: list[str] = []
    for raw in _BREAK.split(unicodedata.normalize("NFC", visible(text))):
        if PRIVATE.search(raw):
            raw = PRIVATE.sub("□", _PRIVATE_AT_END.sub("", raw))
        if line := " ".join(raw.split()):
            current.append(line)
        elif current:
            found.append(tuple(current))
            current = []
    return (*found, tuple(current)) if current else tuple(found)


def visible(text: str) -> str:
    """The text without what has no shape."""
    return _SHAPELESS.sub("", text)


def joined(parts: tuple[tuple[str, ...], ...]) -> str:
    """Stanzas as a body: lines parted by a newline, stanzas by one empty line."""
    return "\n\n".join("\n".join(stanza) for stanza in parts)


def normalised(text: str) -> str:
    """The body by the rules above, without a newline at its end; a second call changes nothing."""
    return joined(stanzas(text))


def lines(text: str) -> tuple[str, ...]:
    """The non-empty lines of the body: what prompts P7 and P8 of AIGenPoetry count."""
    return tuple(line for stanza in stanzas(text) for line in stanza)


def characters(text: str) -> str:
    """The text's characters (字) and nothing else; ⿰ stands for one of two parts."""
    shown = unicodedata.normalize("NFC", visible(text))
    if _DESCRIBED.search(shown):
        shown = described_as_one(shown)
    return _NOT_A_CHARACTER.sub("", shown)


def described_as_one(text: str) -> str:
    """The text with each character that is described by its parts as its first mark alone."""
    kept: list[str] = []
    n_parts = 0
    for character in text:
        is_mark = _DESCRIBED.match(character) is not None
        if not n_parts:
            kept.append(character)
        # A part may itself be described; what is no part ends a description that was cut.
        if n_parts and (character.isspace() or not (is_mark or character.isalpha())):
            kept.append(character)
            n_parts = 0
        elif is_mark:
            n_parts = max(n_parts - 1, 0) + _PARTS.get(character, 2)
        elif n_parts:
            n_parts -= 1
    return "".join(kept)


def character_runs(text: str) -> Spans:
    """Every unbroken run of characters in a normalised text.

    What parts two runs is punctuation, a blank or a line break: a run is a clause (句) of a
    ci, and a line of a poem without punctuation.
    """
    gaps = [match.span() for match in _NOT_A_CHARACTER.finditer(text)]
    edges = [0, *chain.from_iterable(gaps), len(text)]
    runs = zip(edges[::2], edges[1::2], strict=True)
    return tuple((start, end) for start, end in runs if start < end)


def is_punctuation(symbol: str) -> bool:
    return unicodedata.category(symbol).startswith("P")


def unpunctuated(text: str) -> str:
    """The body without punctuation: a mark at a line's end goes, one within becomes a blank."""
    marks = (" " if is_punctuation(symbol) else symbol for symbol in normalised(text))
    return normalised("".join(marks))


def one_line(text: str) -> str:
    """A title or a name by the same rules; a line break in it becomes a space."""
    return " ".join(lines(text))


def titled(text: str) -> tuple[str, str]:
    """(title, body) of a text whose first non-empty line is its title."""
    all_stanzas = stanzas(text)
    if not all_stanzas:
        return "", ""
    (title, *rest), *others = all_stanzas
    return title, joined((tuple(rest), *others) if rest else tuple(others))


@dataclass(frozen=True)
class Counts:
    """How long a poem is."""

    stanzas: int
    lines: int
    """Non-empty lines of the body (P7 and P8 of AIGenPoetry, Table 7)."""
    lines_with_title_and_blanks: int
    """The title, the lines, and the blank lines between stanzas (AIGenPoetry, Table 8 and
    Figures 7-11). No blank is counted between title and body: the paper says "within the
    poem"."""
    characters: int
    """Characters of the body."""
    symbols: int
    """Every visible character of the body, punctuation, letters and digits too: the other
    reading of the paper's "words"."""


def counts(title: str, text: str) -> Counts:
    """The lengths of a poem; a poem without a title has no title line."""
    parts = stanzas(text)
    body = [line for stanza in parts for line in stanza]
    return Counts(
        stanzas=len(parts),
        lines=len(body),
        lines_with_title_and_blanks=bool(one_line(title)) + len(body) + max(len(parts) - 1, 0),
        characters=sum(len(characters(line)) for line in body),
        symbols=sum(len(line.replace(" ", "")) for line in body),
    )


_YEAR = re.compile(r"(1[0-9]{3}|20[0-9]{2})(?:年.*|[.\-/].*|(?:0[1-9]|1[0-2])(?:[0-3][0-9])?)?")
_FOUR_DIGITS = re.compile(r"(?<![0-9])[0-9]{4}(?![0-9])")


def year_of(date: str | None) -> int | None:
    """The year of a date as people write it (1999年05, 19210207, 1936.5), where there is one.

    A range, a slip of the pen and whatever else could be read in two ways is None.
    """
    written = unicodedata.normalize("NFKC", date or "").strip()
    match = _YEAR.fullmatch(written)
    several = len(set(_FOUR_DIGITS.findall(written))) > 1
    return int(match[1]) if match and not several else None


# --- what stands beside the verse ---------------------------------------------------

_DASH = r"(?:[—－―─]{1,2}|-{1,2})\s*"
_NUMERAL = "0-9０-９一二三四五六七八九十百〇○零两廿卅"
_DEDICATION = re.compile(
    rf"{_DASH}(?:献给|献|给|赠|致|寄|悼|呈|纪念|怀念|为)[^，。！？；：]{{1,24}}"
)
_EPIGRAPH_SOURCE = re.compile(rf"{_DASH}[^，。！？；：]{{1,24}}")
_EPIGRAPH_IN_ONE = re.compile(rf"[“「『\"].+[”」』\"]\s*{_DASH}[^，。！？；：]{{1,24}}")
_PREFACE = re.compile(
    r"[（(【\[]?(?:题记|题辞|小引|小序)[】\])）]?(?:[：:].*)?|[（(【\[]?[并自题]?序[】\])）]?[：:].+"
)
_NOTE = re.compile(
    r"(?:[（(【〔\[]?(?:原注|附注|注释|自注|作者注|编者注|附记|后记|注)\s?[0-9①-⑳]*[】〕\])）]?\s*[：:]"
    r"|[【〔\[](?:原注|附注|注释|注)?\s?[0-9①-⑳]*[】〕\]]|[①-⑳]).*"
)
_SOURCE = re.compile(r"[（(]?(?:选自|原载|摘自|载于?|刊于|发表于|录自)[^，。]*《.+》.*")
_PLACE = r"(?:(?:[，,、·\s]\s*|于|在|[写作改草成]于|[写作改])[^，。！？；：的了我你他她它]{0,16})?"
_HOUR = "(?:[凌清早]?晨|[傍夜]?晚|[上下正]?午|深?夜|夜半|黎明|黄昏|改|[写作]成?){0,3}"
_FULL_DATE = re.compile(
    rf"(?:[写作改草成]*于\s*|民国|公元)?(?:[{_NUMERAL}]{{2,4}}年\s*[{_NUMERAL}]{{1,3}}月"
    rf"(?:\s*[{_NUMERAL}]{{1,3}}[日号])?(?:初|中旬|[上下]旬|底)?"
    rf"|[{_NUMERAL}]{{3,4}}([.．/、，,-])[{_NUMERAL}]{{1,3}}\1[{_NUMERAL}]{{1,3}}日?)"
    rf"{_HOUR}{_PLACE}"
)
_YEAR_ALONE = re.compile(
    rf"(?:[写作改草成]*于\s*|民国|公元)?[{_NUMERAL}]{{4}}年?"
    rf"(?:[初早仲晚暮深]?[春夏秋冬][天夜日]?|元旦|除夕|中秋|清明|端午)?{_HOUR}{_PLACE}"
)
_MARK = re.compile(
    r"(?P<open>[（(【\[]?)(?:其|第)?(?P<number>[0-9０-９]{1,3}|[一二三四五六七八九]?十[一二三四五六七八九]?"
    r"|[一二三四五六七八九]{1,3}|[Ⅰ-Ⅻ]|[IVX]{1,5})(?:章|节|首)?[）)】\].．、]?"
)


@dataclass(frozen=True)
class Apart:
    """A line that stands beside the verse."""

    kind: str
    """dedication, epigraph, section, date, note or source."""
    line: str


def parts(text: str) -> tuple[str, tuple[Apart, ...]]:
    """(verse, what stands beside it) of a body, the latter in the order of the text.

    A date line or a footnote would tell a detector who wrote the poem, and a section
    number is no line; so they are kept apart, and never thrown away. What could be
    verse stays verse: only a stanza of its own at the head can be a dedication or an
    epigraph, only the end can hold a date, a note or a source, section marks must count
    upwards with verse between them, and a poem never loses its last line of verse.
    """
    body = [list(stanza) for stanza in stanzas(text)]
    head = _take_head(body)
    tail = _take_tail(body)
    verse, marks = _take_sections(body)
    return joined(tuple(map(tuple, verse))), (*head, *marks, *tail)


def _take_head(body: list[list[str]]) -> list[Apart]:
    """Remove dedication and epigraph from the head of `body`."""
    found: list[Apart] = []
    while len(body) > 1:
        first = body[0]
        if len(first) == 1 and _DEDICATION.fullmatch(first[0]):
            kind = "dedication"
        elif _is_epigraph(first):
            kind = "epigraph"
        else:
            break
        found += [Apart(kind, line) for line in first]
        del body[0]
    return found


def _is_epigraph(stanza: list[str]) -> bool:
    if len(stanza) == 1:
        return bool(_EPIGRAPH_IN_ONE.fullmatch(stanza[0]) or _PREFACE.fullmatch(stanza[0]))
    quoted = stanza[0][0] in '“「『"' and stanza[-2][-1] in '”」』"'
    is_quotation = quoted and bool(_EPIGRAPH_SOURCE.fullmatch(stanza[-1]))
    return is_quotation or bool(_PREFACE.fullmatch(stanza[0]))


def _take_tail(body: list[list[str]]) -> list[Apart]:
    """Remove dates, notes and source lines from the end of `body`, in the text's order."""
    found: list[Apart] = []
    while body:
        last = body[-1]
        only_verse = len(body) == 1
        note = next((i for i, line in enumerate(last) if _NOTE.fullmatch(line)), None)
        start = len(last) - 1
        if note is not None:
            start = note
            kinds = ["source" if _SOURCE.fullmatch(line) else "note" for line in last[note:]]
        elif _SOURCE.fullmatch(last[-1]):
            kinds = ["source"]
        elif _is_date(last[-1], alone=len(last) == 1):
            kinds = ["date"]
        else:
            break
        if only_verse and start == 0:
            break
        found[:0] = [Apart(kind, line) for kind, line in zip(kinds, last[start:], strict=True)]
        del last[start:]
        if not last:
            body.pop()
    return found


def _is_date(line: str, alone: bool) -> bool:
    bare = line.strip("（）()[]【】〔〕 。")
    if _FULL_DATE.fullmatch(bare):
        return True
    return (alone or line[0] in "（([【") and bool(_YEAR_ALONE.fullmatch(bare))


def _take_sections(body: list[list[str]]) -> tuple[list[list[str]], list[Apart]]:
    """Turn section marks into stanza breaks: (stanzas, marks)."""
    flat = [
        (row, column, mark)
        for row, stanza in enumerate(body)
        for column, line in enumerate(stanza)
        if (mark := _mark(line)) is not None
    ]
    if not _counts_upwards(body, flat):
        return body, []
    at = {(row, column) for row, column, _ in flat}
    verse: list[list[str]] = []
    for row, stanza in enumerate(body):
        current: list[str] = []
        for column, line in enumerate(stanza):
            if (row, column) in at:
                verse.append(current)
                current = []
            else:
                current.append(line)
        verse.append(current)
    marks = [Apart("section", body[row][column]) for row, column, _ in flat]
    return [stanza for stanza in verse if stanza], marks


def _counts_upwards(body: list[list[str]], marks: list[tuple[int, int, tuple[str, int]]]) -> bool:
    """Two marks or more of one shape, growing, the first heading a stanza, verse after each."""
    if len(marks) < 2 or marks[0][1] != 0 or len({shape for *_, (shape, _) in marks}) > 1:
        return False
    numbers = [number for *_, (_, number) in marks]
    if any(a >= b for a, b in pairwise(numbers)):
        return False
    at = {(row, column) for row, column, _ in marks}
    places = [(row, column) for row, stanza in enumerate(body) for column in range(len(stanza))]
    followed = [
        after for here, after in zip(places, [*places[1:], None], strict=True) if here in at
    ]
    return all(after is not None and after not in at for after in followed)


def _mark(line: str) -> tuple[str, int] | None:
    """(shape, number) of a line that is nothing but a section mark."""
    match = _MARK.fullmatch(line)
    if match is None:
        return None
    number = match["number"]
    if number[0] in "一二三四五六七八九十":
        return f"{match['open']}一", _chinese_number(number)
    if number.isdecimal():
        return f"{match['open']}1", int(number)
    return f"{match['open']}I", _roman_number(unicodedata.normalize("NFKC", number))


def _chinese_number(text: str) -> int:
    """一 to 九十九, and digit by digit (二一 is 21) as some poets number."""
    digits = "零一二三四五六七八九"
    if "十" not in text:
        return int("".join(str(digits.index(char)) for char in text))
    tens, _, ones = text.partition("十")
    return 10 * (digits.index(tens) if tens else 1) + (digits.index(ones[0]) if ones else 0)


def _roman_number(text: str) -> int:
    values = [{"I": 1, "V": 5, "X": 10}[char] for char in text]
    pairs = zip(values, [*values[1:], 0], strict=True)
    return sum(-value if value < after else value for value, after in pairs)
