"""Cipai and their forms: what each character of each line must sound like.

The forms stand in `data/cipai/*.txt`, in a notation that its README describes;
a user's own file has the same. A tune's forms are parsed when they are asked for,
so that looking up a name costs milliseconds.
"""

import hashlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path

from shiyan.chinese import simplified
from shiyan.errors import UserError

TONES = "平仄中"
STEMS = "甲乙丙丁戊己庚辛壬癸"
ENDS = {"，": "句", "、": "读", "。": "韵"}
LINE = re.compile(rf"([{TONES}]+)([{''.join(ENDS)}])([{STEMS}]?)(叶?)(叠?)(｜?)\s*")
KEYWORDS = {"词牌": "词牌", "别名": "别名", "繁体": "繁体"}
KEYWORDS |= {"詞牌": "词牌", "別名": "别名", "繁體": "繁体"}
FORM = re.compile(r"([^\s*]+?)(\*?)\s+(\S.*)")

LONGEST_TITLE = 100
"""A longer text is no title."""
# Everything that may stand between a cipai's name and a topic.
SEPARATORS = r"·•・‧∙⋅．—–―\-/／|｜:：,，、"
OPENING, CLOSING = "（(《【〔［[「『", "）)》】〕］]」』"
SPACES = re.compile(r"\s+")
NUMBERED = re.compile(r"^[(（\[【]\s*[0-9一二三四五六七八九十]+\s*[)）\]】]\s*")
TITLE_LABEL = re.compile(r"^(?:词牌名?|詞牌名?|题目|題目|标题|標題|词题)\s*[:：]\s*")


@dataclass(frozen=True)
class Line:
    """What a line, or the part of one before a caesura (读), must be.

    Attributes:
        tones: one of 平, 仄 and 中 (either) a character.
        end: how it ends: 句 (no rhyme), 读 (caesura) or 韵 (rhyme).
        group: the rhyme group of a rhyming line, 甲 for the form's first, else "".
        crosses: it rhymes with its group across the tones (叶).
        repeats: it repeats the line before it (叠).
        closes_stanza: a stanza (片) ends here.
    """

    tones: str
    end: str
    group: str = ""
    crosses: bool = False
    repeats: bool = False
    closes_stanza: bool = False


@dataclass(frozen=True)
class Variant:
    """One documented form (体) of a cipai; `variant_id` is such as 临江仙/龙1."""

    variant_id: str
    is_standard: bool
    lines: tuple[Line, ...] = field(repr=False)

    @cached_property
    def tones(self) -> str:
        """The tones of all its characters."""
        return "".join(line.tones for line in self.lines)

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Characters a line, a caesura counted as a line break (CCiV, Table 1)."""
        return tuple(len(line.tones) for line in self.lines)

    @cached_property
    def sentences(self) -> tuple[tuple[Line, ...], ...]:
        """Its lines with what stands before a caesura joined to what follows."""
        whole: list[tuple[Line, ...]] = []
        parts: list[Line] = []
        for line in self.lines:
            parts.append(line)
            if line.end != "读":
                whole.append(tuple(parts))
                parts = []
        return (*whole, tuple(parts)) if parts else tuple(whole)

    def __len__(self) -> int:
        """Characters in all."""
        return len(self.tones)


@dataclass(frozen=True)
class Cipai:
    """A tune: its names and its forms, the standard one among them."""

    name: str
    aliases: tuple[str, ...] = field(compare=False)
    traditional: tuple[str, ...] = field(compare=False)
    written: tuple[tuple[str, str], ...] = field(repr=False, compare=False)
    """Its forms as they stand in a file, not yet parsed: (file:line, notation)."""

    @cached_property
    def variants(self) -> tuple[Variant, ...]:
        """All its forms in the order of the books.

        Raises:
            UserError: malformed notation, named by file and line.
        """
        return tuple(_parse_forms(self.name, self.written))

    @property
    def standard(self) -> Variant:
        """The form that a poem is first measured by: the starred one, else the first."""
        return next((form for form in self.variants if form.is_standard), self.variants[0])

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.aliases, *self.traditional)

    @property
    def structures(self) -> tuple[tuple[int, ...], ...]:
        """The distinct line lengths of its forms, a caesura counted as a line break.

        CCiV's Table 1 counts these as "Structure Variants", and averages their sums.
        """
        return tuple(dict.fromkeys(form.lengths for form in self.variants))


def _parse_forms(cipai: str, written: Iterable[tuple[str, str]]) -> Iterator[Variant]:
    seen: set[str] = set()
    starred = ""
    for where, text in written:
        if not (match := FORM.fullmatch(text)):
            raise UserError(
                f"{where}: {text[:20]!r} is not a form of {cipai}; a form is an id and its "
                "lines, e.g. `我1* 平平仄，中仄仄平平。`"
            )
        form_id, star, lines = match.groups()
        if form_id in seen:
            raise UserError(f"{where}: {cipai} has the form {form_id!r} twice; number it anew")
        if star and starred:
            raise UserError(
                f"{where}: {cipai} already has the standard form {starred}; "
                "let only one id end in *"
            )
        seen.add(form_id)
        starred = form_id if star else starred
        yield Variant(f"{cipai}/{form_id}", bool(star), parse_lines(lines, where))


def parse_lines(text: str, where: str) -> tuple[Line, ...]:
    """A form's lines from the notation, e.g. `中仄平平，中平中仄。｜ 平仄、仄平平。乙`.

    Args:
        where: file and line number, for the error.

    Raises:
        UserError: a symbol that is none, an end that is missing, no rhyme at all.
    """
    lines: list[Line] = []
    position = 0
    while position < len(text):
        match = LINE.match(text, position)
        if not match:
            raise UserError(f"{where}: {_complaint(text, position, len(lines) + 1)}")
        tones, mark, group, cross, repeat, stanza = match.groups()
        end = ENDS[mark]
        if end != "韵" and (group or cross):
            raise UserError(
                f"{where}: line {len(lines) + 1} ends in {mark} and yet has "
                f"{group or cross}; only a rhyme (。) has a group or 叶"
            )
        if repeat and (not lines or len(lines[-1].tones) != len(tones)):
            raise UserError(
                f"{where}: line {len(lines) + 1} has 叠, but the line before it "
                "is not as long, so it cannot be repeated"
            )
        rhyme = (group or STEMS[0]) if end == "韵" else ""
        lines.append(Line(tones, end, rhyme, bool(cross), bool(repeat), bool(stanza)))
        position = match.end()
    if not any(line.end == "韵" for line in lines):
        raise UserError(f"{where}: the form has no rhyme; end a rhyming line with 。")
    if lines[-1].end == "读":
        raise UserError(f"{where}: the last line ends in 、 (a caesura); end it with ， or 。")
    last = lines[-1]
    lines[-1] = Line(last.tones, last.end, last.group, last.crosses, last.repeats, True)
    return tuple(lines)


def _complaint(text: str, position: int, line: int) -> str:
    """What is wrong with the notation at a position, in one clause."""
    rest = text[position:]
    tones = re.match(rf"[{TONES}]*", rest)
    after = rest[tones.end() :] if tones else rest
    if tones and tones.end() and (not after or after[0].isspace()):
        return f"line {line} has no end; a line ends with ， (句), 、 (读) or 。 (韵)"
    return (
        f"line {line}: {after[:1]!r} is not allowed there; a line is made of {'/'.join(TONES)}, "
        "then ， 、 or 。, then perhaps a group (乙…), 叶, 叠 or ｜, e.g. `中仄仄平平。`"
    )


@dataclass(frozen=True)
class Title:
    """What a title says about the cipai.

    Attributes:
        cipai: the tunes the name may mean, the likeliest first; empty where unknown.
        topic: what stands beside the name.
        doubt: why the reading is not certain, or "".
    """

    cipai: tuple[Cipai, ...]
    topic: str
    doubt: str = ""


class Catalogue(Mapping[str, Cipai]):
    """All known tunes by their own name; `find` also knows every other name."""

    def __init__(self, tunes: Iterable[Cipai]) -> None:
        self._tunes = {tune.name: tune for tune in tunes}
        self._owners: dict[str, list[Cipai]] = {}
        for tune in self._tunes.values():
            self._owners.setdefault(tune.name, []).insert(0, tune)
            for name in (*tune.aliases, *tune.traditional):
                owners = self._owners.setdefault(name, [])
                if tune not in owners:
                    owners.append(tune)
        self._longest = max(map(len, self._owners), default=0)

    def __getitem__(self, name: str) -> Cipai:
        return self._tunes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tunes)

    def __len__(self) -> int:
        return len(self._tunes)

    @property
    def n_forms(self) -> int:
        return sum(len(tune.written) for tune in self._tunes.values())

    @property
    def sha256(self) -> str:
        """Of all names and forms as written: which facts a number was made with."""
        digest = hashlib.sha256()
        for tune in self._tunes.values():
            digest.update("\n".join((*tune.names, *(text for _, text in tune.written))).encode())
        return digest.hexdigest()

    def find(self, name: str) -> tuple[Cipai, ...]:
        """The tunes a name may mean, the one whose own name it is first; () where unknown.

        Spaces, brackets and traditional characters do not matter.
        """
        plain = SPACES.sub("", name)
        bare = plain.strip(OPENING + CLOSING)
        # 三台（大曲） has brackets of its own.
        owners = (
            self._owners.get(plain)
            or self._owners.get(bare)
            or self._owners.get(simplified(bare))
            or []
        )
        return tuple(owners)

    def plain(self, name: str) -> str:
        """A known name as it is written in simplified characters; any other as it stands."""
        found = self.find(name)
        if not found or any(name in (tune.name, *tune.aliases) for tune in found):
            return name
        return simplified(SPACES.sub("", name).strip(OPENING + CLOSING))

    def named_in(self, title: str) -> tuple[str, str] | None:
        """(the cipai's name, the topic) of a title, the name plain; None where it has none."""
        read = self.read_title(title)
        if not read.cipai:
            return None
        written, tune = simplified(title), read.cipai[0]
        names = [name for name in (tune.name, *tune.aliases) if name in written]
        return max(names, key=len, default=tune.name), read.topic

    def named(self, name: str) -> tuple[Cipai, ...]:
        """As `find`, also by the rules of titles.

        Raises:
            UserError: nobody knows such a name.
        """
        found = self.find(name) or self.read_title(name).cipai
        if not found:
            alike = self._alike(simplified(name))
            meant = f"did you mean {alike}? Else" if alike else "check the name, or"
            raise UserError(
                f"there is no cipai {name!r} among the {len(self)} known ones; {meant} "
                "write its form into a file and pass that with --forms (eval_ci.extra_forms)"
            )
        return found

    def _alike(self, name: str) -> str | None:
        """The known name most like one that nobody knows: a tune's own, else a second one."""
        close = [get_close_matches(name, names, n=5) for names in (self._tunes, self._owners)]
        return max(close[0] or close[1], key=lambda other: len({*name} & {*other}), default=None)

    def read_title(self, title: str) -> Title:
        """Find cipai and topic in a title of any of the usual shapes.

        The longest known name wins (木兰花慢 before 木兰花). A name runs into its topic
        without a mark only where the name is certain; an unknown name stays unknown.
        """
        lines = (
            TITLE_LABEL.sub("", line.strip().strip("*#").strip()) for line in title.split("\n")
        )
        text = _unwrapped(" ".join(lines).strip().strip("，,。.；;"))
        if len(text) > LONGEST_TITLE:
            return Title((), text)
        if whole := self.find(text):
            return Title(whole, "")
        head, rest = _first_part(text)
        if found := self.find(head):
            return self._with_rest(found, rest)
        if glued := self._glued(head):
            cipai, topic = glued
            joined = " ".join(filter(None, (topic, rest)))
            return Title(cipai, joined, f"read as {cipai[0].name} and the topic {joined}")
        tail = re.split(rf"[\s{SEPARATORS}]+", text)[-1]
        if turned := self.find(tail):
            topic = text[: -len(tail)].strip().strip(re.sub(r"\\", "", SEPARATORS)).strip()
            return Title(turned, topic, "the name stands after the topic")
        return Title((), text)

    def _with_rest(self, found: tuple[Cipai, ...], rest: str) -> Title:
        """A known name and what follows: a topic, or a second name of the same tune."""
        topic = _topic(rest)
        others = self.find(topic) if topic else ()
        shared = tuple(tune for tune in found if tune in others)
        if shared:
            return Title(shared, "")
        names = ", ".join(tune.name for tune in found)
        doubt = f"the name may mean {names}" if len(found) > 1 else ""
        if others:
            doubt = f"{topic} is also a cipai's name, read as a topic here"
        return Title(found, topic, doubt)

    def _glued(self, text: str) -> tuple[tuple[Cipai, ...], str] | None:
        """The longest known name that begins `text`, where the rest is the topic."""
        plain = SPACES.sub("", text)
        for length in range(min(self._longest, len(plain) - 1), 2, -1):
            name = plain[:length]
            found = self.find(name)
            # A short second name (不见, 一江春水) may well begin a title of another kind.
            if found and (length > 3 or found[0].name == simplified(name)):
                return found, plain[length:]
        return None


def _unwrapped(text: str) -> str:
    """Without brackets that hold the whole of it."""
    while len(text) > 2 and text[0] in OPENING:
        closing = CLOSING[OPENING.index(text[0])]
        if text.find(closing) != len(text) - 1:
            break
        text = text[1:-1].strip()
    return text


def _first_part(text: str) -> tuple[str, str]:
    """What stands before the first separator or bracket, and what after."""
    if text[:1] and text[0] in OPENING:
        closing = CLOSING[OPENING.index(text[0])]
        inside, found, after = text[1:].partition(closing)
        if found:
            return inside, after.strip()
    if len(parts := text.split()) > 2 and all(len(part) == 1 for part in parts):
        return text, ""
    match = re.search(rf"[\s{SEPARATORS}{re.escape(OPENING)}]", text)
    return (text[: match.start()], text[match.start() :].strip()) if match else (text, "")


def _topic(text: str) -> str:
    """A topic without the marks that part it from the name and without its number."""
    text = NUMBERED.sub("", text.strip())
    text = re.sub(rf"^[\s{SEPARATORS}]+|[\s{SEPARATORS}]+$", "", text)
    return NUMBERED.sub("", _unwrapped(text)).strip()


def read_notation(text: str, path: str) -> list[Cipai]:
    """The tunes of a file in the project's notation, their forms not yet parsed.

    Raises:
        UserError: a line that is none of 词牌, 别名, 繁体, a form or a comment; a tune
            without a form.
    """
    tunes: list[Cipai] = []
    head: dict[str, tuple[str, ...]] = {}
    forms: list[tuple[str, str]] = []

    def close(where: str) -> None:
        if head and not forms:
            raise UserError(
                f"{where}: {head['词牌'][0]} has no form; write one under its names, "
                "e.g. `我1* 平平仄，中仄仄平平。`"
            )
        if head:
            names = head["词牌"][0], head.get("别名", ()), head.get("繁体", ())
            tunes.append(Cipai(*names, tuple(forms)))

    where = path
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        # Split at any blank: an ideographic space looks like any other.
        first, *others = line.split(maxsplit=1)
        keyword, rest = KEYWORDS.get(first, ""), "".join(others)
        if keyword == "词牌":
            close(where)
            head, forms = {}, []
        where = f"{path}:{number}"
        if not keyword and head:
            forms.append((where, line))
            continue
        names = tuple(rest.split())
        if keyword != "词牌" and not head:
            raise UserError(
                f"{where}: {line[:20]!r} stands before any `词牌 …`; name its tune first"
            )
        if not names or (keyword == "词牌" and len(names) > 1):
            raise UserError(
                f"{where}: write `词牌` with one name, `别名` and `繁体` with one or more"
            )
        head[keyword] = names
    close(where)
    return tunes


@cache
def load_catalogue(extra_forms: str | None = None) -> Catalogue:
    """The tunes that come with the project, and those of a user's file.

    A tune of the file that is already known gains the file's names and forms. The
    whole file is checked at once; what comes with the project, when it is used.

    Raises:
        UserError: the file is missing, not UTF-8, or malformed, by file and line.
    """
    tunes: dict[str, Cipai] = {}
    folder = files("shiyan") / "data" / "cipai"
    for name in ("short.txt", "medium.txt", "long.txt"):
        text = (folder / name).read_text(encoding="utf-8")
        tunes |= {tune.name: tune for tune in read_notation(text, f"cipai/{name}")}
    own = read_notation(_text_of(extra_forms), extra_forms) if extra_forms else []
    if extra_forms and not own:
        raise UserError(
            f"{extra_forms} holds no cipai; begin one with `词牌 …` and its forms below"
        )
    for notice in _names_taken(own, tunes):
        sys.stderr.write(f"notice: {extra_forms}: {notice}\n")
    for tune in own:
        if known := tunes.get(tune.name):
            tune = Cipai(
                known.name,
                known.aliases + tune.aliases,
                known.traditional + tune.traditional,
                known.written + tune.written,
            )
        # Parsed here and now, so that a slip is named before any work is done.
        _ = tune.variants
        tunes[tune.name] = tune
    return Catalogue(tunes.values())


def _names_taken(own: Iterable[Cipai], tunes: Mapping[str, Cipai]) -> Iterator[str]:
    """Other names of a user's tunes that another tune has already."""
    known = Catalogue(tunes.values())
    for tune in own:
        for name in (*tune.aliases, *tune.traditional):
            owners = [owner.name for owner in known.find(name) if owner.name != tune.name]
            if owners:
                yield (
                    f"{name}, a second name of {tune.name}, is also {', '.join(owners)}; a ci of "
                    "that name is measured by whichever of them it keeps"
                )


def _text_of(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; check the path of your own forms") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} could not be read as UTF-8 text ({error})") from error


NUMERALS = "零一二三四五六七八九十"
STANZAS = {2: ("上片", "下片"), 3: ("第一片", "第二片", "第三片")}


def describe_form(cipai: Cipai, variant: Variant | None = None) -> str:
    """The standard form (or `variant`) in Chinese, line by line, for a prompt.

    Each sentence is given its length, its tones (中: 平 or 仄), and whether it rhymes and
    with which group; no sample text, which could bias what is written.
    """
    form = variant or cipai.standard
    stanzas: list[list[tuple[Line, ...]]] = [[]]
    for sentence in form.sentences:
        stanzas[-1].append(sentence)
        if sentence[-1].closes_stanza:
            stanzas.append([])
    stanzas = [stanza for stanza in stanzas if stanza]
    groups = list(dict.fromkeys(line.group for line in form.lines if line.group))
    lines = [
        f"词牌《{cipai.name}》，共{len(form)}字，{len(stanzas)}片，{len(form.sentences)}句。",
        "平＝平声字，仄＝仄声字（上、去、入声），中＝可平可仄。",
    ]
    number = 0
    for index, stanza in enumerate(stanzas):
        names = STANZAS.get(len(stanzas))
        if names:
            lines.append(f"{names[index]}：")
        elif len(stanzas) > 1:
            lines.append(f"第{NUMERALS[index + 1]}片：")
        for sentence in stanza:
            number += 1
            lines.append(f"第{number}句：{_described(sentence, groups)}")
    if len(groups) > 1:
        lines.append("同一韵组的句末字互相押韵，不同韵组换韵。")
    return "\n".join(lines)


def _described(sentence: tuple[Line, ...], groups: list[str]) -> str:
    """One sentence of a form, such as `7字，中仄中平仄仄平，押平声韵`."""
    tones = "、".join(line.tones for line in sentence)
    parts = [f"{sum(len(line.tones) for line in sentence)}字", tones]
    if len(sentence) > 1:
        split = "、".join(str(len(line.tones)) for line in sentence)
        parts.append(f"句中停顿（{split}）")
    last = sentence[-1]
    if last.end == "韵":
        tone = {"平": "平声韵", "仄": "仄声韵"}.get(last.tones[-1], "韵")
        rhyme = f"押{tone}"
        if last.crosses:
            rhyme += "（与同组平仄通押）"
        if len(groups) > 1:
            rhyme += f"，韵组{last.group}"
        parts.append(rhyme)
    else:
        parts.append("不押韵")
    if last.repeats:
        parts.append("重复上一句")
    return "，".join(parts)
