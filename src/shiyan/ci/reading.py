"""From a text to the characters and breaks of a ci.

A ci comes as it comes: with a title, without marks, in a table, with tone rows
and claims of an LLM about itself. What is verse is kept, all else is dropped and
said; a text's own claims (字数, 平仄) are never believed.
"""

import re
import unicodedata
from dataclasses import dataclass, field
from functools import cached_property

from shiyan.ci.form import Catalogue, Title
from shiyan.poem import described_as_one

HARD = "\n"
"""A line break: 。，；！？：… — / and the end of a line of text."""
SOFT = "、"
STANZA = "\f"
FOREIGN = "※"
"""Stands for Latin letters, digits or {components} that a verse holds: one unknown character."""
LACUNAE = "□■○●◇◆▢☐＿"
LONGEST_LINE = 10
"""Characters of the longest line of any form; what is longer was not cut into lines."""

HARD_MARKS = "，。；！？：,.．;!?:…—–~～｡﹐﹑﹒﹔﹕﹖﹗/／|｜\n\r\v\x85\u2028\u2029"
SOFT_MARKS = "、､"
MARK = re.compile(rf"[{re.escape(HARD_MARKS + SOFT_MARKS)}]")
SENTENCE_MARK = re.compile(r"[，。；！？,.;!?、…]|．\s*$")
"""Inside a line ．may also stand between a cipai and its topic."""
TOKENS = re.compile(r"[^\n\f、]+|[\n\f、]")
PLAIN = re.compile(r"[\u4e00-\u9fff，。、；！？\n]*")
"""A text without mark-up: nothing has to be taken off but perhaps a title …"""
LABELLED = re.compile(r"仄|[片阕闋段](?:\n|$)|正文|词[文曰]")
"""… or rows of tones and names of stanzas."""

INVISIBLE = re.compile(
    "[\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\u00ad\u0000-\u0008\u000e-\u001f]"
)
UNCOUNTED = re.compile(
    "[\U0001f000-\U0001faff\u2600-\u260f\u2611-\u27bf\u2b50\u2b55\u0000-\u0008\u000e-\u001f\u007f-\u0084\u0086-\u009f]"
)
"""Emoji and control characters: nothing that a verse holds."""
ALPHANUMERIC = re.compile(r"[0-9A-Za-z\u00c0-\u024f\uff10-\uff19\uff21-\uff3a\uff41-\uff5a]+")
COMPONENTS = re.compile(r"\{[^{}\n]{1,9}\}|[\u2ff0-\u2fff]")
BRACKETED = re.compile(
    r"（[^（）\n]*）|\([^()\n]*\)|【[^【】\n]*】|〔[^〔〕\n]*〕|［[^［］\n]*］|\[[^\[\]\n]*\]"
)
QUOTED = re.compile("《([^《》\n]+)》")
REPEATED = re.compile("[々〻ゝ]+")
TONE_ROW = re.compile(r"[平仄中可○●◎⊙⊕◐△▲|｜/／+\-\s韵句读叶叠，。、,.;；（）()]+")
LIST_MARK = re.compile(
    r"^\s*(?:\d{1,2}\s*[.．、)）:：]|[-*+•]\s|[（(]\d{1,2}[)）]|[①-⑳]|第[一二三四五六七八九十]{1,3}句\s*[:：])\s*"
)
TABLE_RULE = re.compile(r"[|\-:\s]+")
STANZA_LABEL = re.compile(
    r"^[【\[（(]?\s*(?:[上下前后中][片阕闋段]|第?[一二三四][片叠段]|过片|正文|词文|词曰)\s*[】\])）]?\s*(?:[:：]\s*|$)"
)
NOTE_LABEL = re.compile(
    r"^[【\[（(*]*\s*(?:注|註|注释|注解|赏析|鉴赏|译文|白话|说明|解析|解说|备注|点评|简评|创作说明|创作思路|格律分析|词意)\s*"
    r"(?:[:：】\])）*]|$)"
)
ABOUT_ITSELF = re.compile(
    r"格律|平仄|词牌|押韵|韵脚|全词|这首词|此词|本词|该词|共\s*[0-9一二三四五六七八九十百]+\s*字|字数"
)
PREAMBLE = re.compile(r"^(?:好的|当然|以下|下面|这是|这里是|现|Here|Sure|Certainly|Below)")
ANSWERED = re.compile(
    rf"\A(\s*{PREAMBLE.pattern[1:]}[^\n：:]*《[^《》\n]+》[^\n：:]*[：:])(?=[^\n])"
)
"""An answer's opening words on the line on which the ci begins."""
WISH = re.compile(r"我?希望(?:你|您)[^\n]{0,20}(?:喜欢|满意)[^\n]*$", re.MULTILINE)
AUTHOR = re.compile(r"^(?:作者|词人)\s*[:：]|^[\[〔（(【].{1,4}[\]〕）)】]\s*\S{2,4}$")


@dataclass(frozen=True)
class CiText:
    """The characters of a ci and where its lines break.

    Break sets are integers: bit i is a break after i characters, 1 <= i <= n.

    Attributes:
        characters: what counts, marks left out; a lacuna (□) is one.
        hard: line breaks.
        soft: 、, which may be a line break, a caesura or neither.
        stanzas: breaks between stanzas (片).
        title: what its title line says, or None.
        title_line: the title line as it stands.
        remarks: what was left out or replaced, and why.
    """

    characters: str
    hard: int
    soft: int
    stanzas: int
    title: Title | None = None
    title_line: str = ""
    remarks: tuple[str, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.characters)

    @cached_property
    def units(self) -> tuple[int, ...]:
        """Lengths of the pieces between breaks of either kind."""
        return lengths(self.hard | self.soft)

    @cached_property
    def is_uncut(self) -> bool:
        """No piece is short enough to be a line: the text was not cut into lines."""
        return bool(self.units) and min(self.units) > LONGEST_LINE


def lengths(breaks: int) -> tuple[int, ...]:
    """The lengths of the pieces that a set of breaks cuts, the last break at the end."""
    found: list[int] = []
    before = 0
    while breaks:
        position = (breaks & -breaks).bit_length() - 1
        found.append(position - before)
        before = position
        breaks &= breaks - 1
    return tuple(found)


class _Marks(dict[int, str]):
    """Every code point as it counts: a character as itself, breaks as \\n and 、, else nothing."""

    def __missing__(self, point: int) -> str:
        character = chr(point)
        if character in HARD_MARKS:
            counted = HARD
        elif character in SOFT_MARKS:
            counted = SOFT
        elif character in (STANZA, FOREIGN) or character in LACUNAE or is_han(point):
            counted = character
        else:
            counted = ""
        self[point] = counted
        return counted


def is_han(point: int) -> bool:
    """A Chinese character, 〇, or what stands for one (private use, U+FFFD)."""
    return (
        0x4E00 <= point <= 0x9FFF
        or 0x3400 <= point <= 0x4DBF
        or 0x20000 <= point <= 0x3FFFF
        or 0xF900 <= point <= 0xFAFF
        or 0xE000 <= point <= 0xF8FF
        or 0x2F00 <= point <= 0x2FDF
        or 0xF0000 <= point <= 0x10FFFF
        or point in (0x3007, 0xFFFD)
    )


MARKS = _Marks()


def read_ci(text: str, catalogue: Catalogue, keep_title: bool = False) -> CiText:
    """Read a ci out of a text of any shape; never raises.

    Args:
        keep_title: count a first line that looks like a title as verse (江南好 is a
            tune's name and may well be a first line).
    """
    remarks: list[str] = []
    title: Title | None = None
    title_line = ""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not PLAIN.fullmatch(text) or LABELLED.search(text):
        text = _cleaned(text, remarks)
    lines = [line.strip() for line in text.strip().split("\n")]
    if not keep_title and len(lines) > 1:
        title, title_line = _take_title(lines, catalogue, remarks)
    lines = _without_notes(lines, remarks)
    verse = "\n".join(lines)
    if not PLAIN.fullmatch(verse):
        verse = _spelt_out(verse, remarks)
    if " " in verse or "\u3000" in verse or "\t" in verse:
        verse = _spaced(verse)
    verse = re.sub(r"\n\s*\n", STANZA, verse.strip())
    return _cut(verse.translate(MARKS), title, title_line, remarks)


def _cut(verse: str, title: Title | None, title_line: str, remarks: list[str]) -> CiText:
    """Characters and break sets of a verse in which only \\n, \\f and 、 are marks."""
    characters: list[str] = []
    hard = soft = stanzas = count = 0
    for token in TOKENS.findall(verse):
        if token == HARD:
            hard |= 1 << count
        elif token == SOFT:
            soft |= 1 << count
        elif token == STANZA:
            hard |= 1 << count
            stanzas |= 1 << count
        else:
            characters.append(token)
            count += len(token)
    hard = (hard | 1 << count) & ~1
    return CiText(
        "".join(characters),
        hard,
        soft & ~1 & ~hard,
        stanzas & ~1 & ~(1 << count),
        title,
        title_line,
        tuple(remarks),
    )


def _cleaned(text: str, remarks: list[str]) -> str:
    """Without invisible characters, mark-up, tables, list numbers and tone rows."""
    if uncounted := len(UNCOUNTED.findall(text)):
        remarks.append(f"{uncounted} emoji or control characters are not counted")
    text = ANSWERED.sub(r"\1\n", INVISIBLE.sub("", text), count=1)
    text = WISH.sub(r"\n\g<0>", text)
    rows: list[str] = []
    tone_rows = 0
    lines = text.split("\n")
    for index, line in enumerate(lines):
        line = line.strip().strip("`").lstrip("#>").replace("**", "").replace("__", "").strip()
        if line.count("|") > 1 and line.startswith("|"):
            following = lines[index + 1].strip() if index + 1 < len(lines) else ""
            if TABLE_RULE.fullmatch(line) or (following and TABLE_RULE.fullmatch(following)):
                continue
            cells = (cell.strip() for cell in line.strip("|").split("|"))
            line = "\n".join(
                cell for cell in cells if not cell.isascii() and not TONE_ROW.fullmatch(cell)
            )
        line = LIST_MARK.sub("", line)
        if len(line) > 1 and TONE_ROW.fullmatch(line) and any(c in "平仄○●" for c in line):
            tone_rows += 1
            continue
        if match := STANZA_LABEL.match(line):
            rows.append("")
            line = line[match.end() :]
            if not line:
                continue
        rows.append(line)
    if tone_rows:
        remarks.append(f"{tone_rows} rows of tone marks are not counted")
    return "\n".join(rows)


def _take_title(
    lines: list[str], catalogue: Catalogue, remarks: list[str]
) -> tuple[Title | None, str]:
    """Take a preamble, a title and an author off the front of `lines`."""
    title, title_line = None, ""
    while len(lines) > 1 and (not lines[0] or _is_preamble(lines[0])):
        if lines[0]:
            remarks.append(f"the opening words {shown(lines[0])} are not counted")
        title = title or _quoted_title(lines[0], catalogue)
        del lines[0]
    if title:
        remarks.append(f"the cipai {title.cipai[0].name} is named in the opening words")
    labelled = lines[0]
    if len(lines) > 2 and re.match(r"^词牌名?\s*[:：]|^詞牌", labelled) and "题" in lines[1][:2]:
        labelled = f"{lines[0]}\n{lines.pop(1)}"
    bare = BRACKETED.sub("", labelled)
    if not SENTENCE_MARK.search(bare):
        read = catalogue.read_title(labelled)
        marked = any(SENTENCE_MARK.search(line) for line in lines[1:])
        parted = len(lines) > 2 and not lines[1] and marked
        if read.cipai or parted or labelled[:1] in "《【":
            title = read if read.cipai or not title else title
            title_line = labelled.replace("\n", " ")
            del lines[0]
            _take_author(lines, marked, remarks)
    return title, title_line


def _quoted_title(opening: str, catalogue: Catalogue) -> Title | None:
    """The title in 《》 that an answer's opening words announce, where it names a tune."""
    titles = (catalogue.read_title(name) for name in QUOTED.findall(opening))
    return next((title for title in titles if title.cipai), None)


def _take_author(lines: list[str], marked: bool, remarks: list[str]) -> None:
    """Take an author's line off: labelled, or short and unmarked above marked verse."""
    while len(lines) > 1 and not lines[0]:
        del lines[0]
    first = lines[0] if lines else ""
    unmarked = marked and 1 < len(first) < 7 and not SENTENCE_MARK.search(first)
    if len(lines) > 1 and (AUTHOR.match(first) or unmarked):
        remarks.append(f"the line {shown(first)} is read as a topic or an author, not counted")
        del lines[0]


def _is_preamble(line: str) -> bool:
    ends_open = line.endswith((":", "："))
    return bool(PREAMBLE.match(line)) and (ends_open or bool(ALPHANUMERIC.match(line)))


def _without_notes(lines: list[str], remarks: list[str]) -> list[str]:
    """Without the notes and claims that follow the verse."""
    kept = list(lines)
    for index in range(1, len(kept)):
        if NOTE_LABEL.match(kept[index]):
            remarks.append(f"what follows from {shown(kept[index])} on is a note, not counted")
            del kept[index:]
            break
    while len(kept) > 1:
        last = kept[-1]
        closing = (ABOUT_ITSELF, WISH, ALPHANUMERIC)
        if last and not any(words.search(last) for words in closing):
            break
        if last:
            remarks.append(f"the closing words {shown(last)} are not counted")
        del kept[-1]
    return kept


def _spelt_out(verse: str, remarks: list[str]) -> str:
    """Without bracketed notes; repetition marks and foreign matter as characters."""
    if BRACKETED.search(verse):
        without = BRACKETED.sub("", verse)
        if any(map(is_han, map(ord, without))):
            notes = [shown(note) for note in BRACKETED.findall(verse)]
            remarks.append(f"in brackets and not counted: {', '.join(dict.fromkeys(notes))[:120]}")
            verse = without
    if COMPONENTS.search(verse):
        verse = COMPONENTS.sub(FOREIGN, described_as_one(verse))
        remarks.append("a character written by its components is counted as one, its tone unknown")
    if found := ALPHANUMERIC.findall(verse):
        verse = ALPHANUMERIC.sub(FOREIGN, verse)
        some = ", ".join(map(shown, dict.fromkeys(found)))
        remarks.append(f"no Chinese characters, each counted as one unknown: {some[:80]}")
    return _repeated(verse, remarks) if REPEATED.search(verse) else verse


def _repeated(verse: str, remarks: list[str]) -> str:
    """々 and 〻 as what they stand for: k of them repeat the k characters before."""
    out: list[str] = []
    written: list[str] = []
    for piece in re.split(f"({REPEATED.pattern})", verse):
        if REPEATED.fullmatch(piece):
            marks, piece = piece, "".join(written[-len(piece) :])
            remarks.append(f"{shown(marks)} stands for {shown(piece) if piece else 'nothing'}")
        out.append(piece)
        written += [character for character in piece if is_han(ord(character))]
    return "".join(out)


def _spaced(verse: str) -> str:
    """Spaces are breaks where nothing else is, and mean nothing where marks stand."""
    chunks = verse.split()
    if MARK.search(verse.replace("\n", "")) or all(len(chunk) == 1 for chunk in chunks):
        return re.sub(r"[ \t\u3000]+", "", verse)
    return re.sub(r"[ \t\u3000]+", "\n", re.sub(r"(?m)^[ \t\u3000]+|[ \t\u3000]+$", "", verse))


def shown(text: str) -> str:
    """A piece of a text, short enough for a remark and without control characters."""
    clean = "".join(c for c in text if unicodedata.category(c)[0] != "C")
    return f"`{clean[:20]}{'…' if len(clean) > 20 else ''}`"
