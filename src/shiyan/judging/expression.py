"""A score as a judge writes it: 90分, ９０, 九十分, 90/100, 4→3, and what only looks like one."""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, groupby

from shiyan.judging.rubric import Rubric

_FORMAT_CHARACTERS = dict.fromkeys(
    [0x00AD, 0x061C, 0x180E, 0xFEFF, *range(0x200B, 0x2010), *range(0x202A, 0x202F),
     *range(0x2060, 0x2065), *range(0xFE00, 0xFE10)]
)  # fmt: skip
_FULL_WIDTH = {
    code: code - 0xFEE0
    for code in range(0xFF01, 0xFF5F)
    # Full-width ，：（）；！？ are what Chinese punctuation is: they stay.
    if chr(code) not in "，：（）；！？"
}
_LIKE = str.maketrans(
    "\u3000\u00a0\ufe30\ufe55│┃║內語辭節現維評終後數總給為調綜說釋點與達",
    "  ：：|||内语辞节现维评终后数总给为调综说释点与达",
)
"""Among them the traditional characters in the names of dimensions and scores."""
_TABLE = _FORMAT_CHARACTERS | _FULL_WIDTH | _LIKE
_FOREIGN_DIGIT = re.compile(r"[^\D0-9]")
_HTML_TAG = re.compile(r"(</t[dh]\s*>)|(</tr\s*>)|</?(?:table|tbody|thead|tr|td|th)\b[^>]*>", re.I)


def normalised(reply: str) -> str:
    """Half-width letters, digits 0-9, nothing invisible, \\n at line ends, | between cells."""
    text = reply.replace("\r\n", "\n").replace("\r", "\n").translate(_TABLE)
    text = _FOREIGN_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), text)
    return _HTML_TAG.sub(lambda tag: "|" if tag[1] else "\n" if tag[2] else "", text)


_LONG_FRACTION = re.compile(r"(?<=\d\.)(?P<kept>\d{20})\d+")
_LONG_NUMBER = re.compile(r"(?<!\d)\d{41,}")
_LONG_HAN = re.compile(r"(?<![零〇一二两三四五六七八九十百])[零〇一二两三四五六七八九十百]{41,}")
_LONG_HAN_FRACTION = re.compile(
    r"(?<=点)(?P<kept>[零〇一二三四五六七八九]{20})[零〇一二三四五六七八九]+"
)
_BLANKS = re.compile(r"(?<![^\S\n])(?P<kept>[^\S\n]{100})[^\S\n]+")


def without_loops(text: str) -> str:
    """The text with endless runs of digits, Han numerals, blanks and lines without a word cut.

    A judge that repeats one without end would otherwise take as long to read as the square
    of its length. A number cut so is far off every scale, as it was: never 0.
    """
    text = _LONG_FRACTION.sub(r"\g<kept>", text)
    text = _LONG_NUMBER.sub("9" * 40, text)
    text = _LONG_HAN_FRACTION.sub(r"\g<kept>", text)
    text = _LONG_HAN.sub("九" * 40, text)
    text = _BLANKS.sub(r"\g<kept>", text)
    lines = [line.rstrip() for line in text.split("\n")]
    runs = [(line, list(run)) for line, run in groupby(lines)]
    kept = (run if re.search(r"\w", line) else run[:3] for line, run in runs)
    return "\n".join(chain.from_iterable(kept))


_TO_MASK = re.compile(r"[^\n\U000F0000-\U0010FFFF]")
_MASKED = re.compile(r"[\U000F0000-\U000FD7FF\U000FE000-\U000FFFFF]")


def masked(text: str) -> str:
    """The text in characters that are neither letters nor digits, line ends as they were."""
    return _TO_MASK.sub(lambda m: chr(0xF0000 + ord(m[0])) if ord(m[0]) < 0x10000 else " ", text)


def unmasked(text: str) -> str:
    return _MASKED.sub(lambda m: chr(ord(m[0]) - 0xF0000), text)


@dataclass(frozen=True)
class Reading:
    """What stands where a score is expected.

    Attributes:
        value: the score; None with a `problem` where it is none that can be used.
        end: where the expression ends in its text.
    """

    value: float | None
    problem: str | None
    end: int


DIGITS = r"[0-9]+(?:\.[0-9]+)?"
_HAN_CHARACTERS = "零〇一二两三四五六七八九十百"
HAN = rf"[{_HAN_CHARACTERS}]+(?:点[零〇一二三四五六七八九]+)?"
_POINT = "分(?![钟析为成别明]|之[一二三四五六七八九十几])"
UNIT = rf"(?:{_POINT}|(?:points?|pts?|marks?)\b)"
_NUMBER = rf"(?:{DIGITS}|{HAN})"
# 90分——十分准确 goes on with an adverb, 90分——1. … with a list.
TO = (
    r"(?:(?:[-‐‑‒–—―−~〜∼⁓〰﹣]+|…+|\.{2,})(?!\s*(?:十分(?!之间|左右|上下)\w|1\s*[.、)）:：]))"
    r"|[至到、]|to\b)"
)
"""What stands between the ends of a range."""

# A number without 分 counts only where nothing follows that it would count (2节, 3 处).
_COUNTED = "处个行节句首次种年月段字点层类项条片阕位"
_END = (
    r"(?!\d|\.\d)(?="
    r"[ \t]*(?:$|\n|[^\w\s]|_|左右|上下|之间|[至到或多余以改调降升])"
    rf"|[ \t]+(?![ \t{_COUNTED}]))"
)
_FIRST = re.compile(
    rf"(?P<sign>[-−]|负\s*)?(?:(?P<digits>{DIGITS})(?:\s*{UNIT}|(?P<percent>\s*%)|{_END})"
    rf"|(?P<han>{HAN})\s*{_POINT}(?=\s*(?:$|[^\w]|左右|[至到或改调降升]))"
    # 八十五 is a number by itself, 一 is not (一首好诗).
    r"|(?P<tens>[一二两三四五六七八九]?[十百][零一二三四五六七八九十]*)(?<=..)(?=\s*(?:$|\n|[，,。.；;)）、]))"
    rf"|百分之(?P<part>{HAN})(?=\s*(?:$|[^\w]))"
    rf"|(?P<full>满分)(?=\s*(?:$|[^\w])))",
    re.IGNORECASE,
)
# 八十1分 and 8十分 are slips; no half of one is the score.
_MIXED = re.compile(
    rf"(?:{HAN}\d[\d{_HAN_CHARACTERS}.]*(?=\s*(?:{UNIT}|/|$|[^\w\s]|\n))"
    rf"|{DIGITS}[{_HAN_CHARACTERS}][\d{_HAN_CHARACTERS}.]*(?=\s*{UNIT}))",
    re.IGNORECASE,
)
_OUT_OF = re.compile(rf"\s*(?:/|out\s+of)\s*(?P<of>{DIGITS})\s*(?:{UNIT})?", re.IGNORECASE)
_RANGE = re.compile(
    rf"\s*+(?:{TO}|[（(]?\s*+(?:或者?|or\b))\s*(?P<other>{_NUMBER})(?!\s*[{_COUNTED}])"
    r"\s*(?:" + UNIT + r"|%|之间|$|(?=[\s，,。.；;、)）\]】}*_|\"'”’]))"
    rf"|\s*+and\s+{_NUMBER}\s*(?:{UNIT}|$|\n|[.,;)])"
    rf"|\s*+[，,]\s*{_NUMBER}\s*(?:{UNIT})?(?=\s*[)）\]】])",
    re.IGNORECASE,
)
_ASIDE = re.compile(rf"\s*+[（(]\s*(?P<other>{_NUMBER})\s*{UNIT}\s*[)）]", re.IGNORECASE)
"""九十分（95分）: a second score, unless it is the same one or the total."""
_HAN_RANGE = re.compile(rf"{_NUMBER}\s*{TO}\s*{_NUMBER}\s*{_POINT}", re.IGNORECASE)
_BETWEEN = re.compile(rf"\s*(?:和|与|to|and)\s*{_NUMBER}\s*分?\s*之间", re.IGNORECASE)
_CHANGE = re.compile(
    r"\s*(?:→|⇒|⟶|➔|➜|[-–—]+>|=>|(?:[-−+]\s*\d+\s*分?\s*)*="
    r"|[，,]?\s*(?:后来?)?(?:改判?[为成]|调整[为至到]|修正为|更正为|[降升][为至到]|[上下]调[为至到]))"
    rf"\s*(?P<later>{_NUMBER})(?:\s*{UNIT})?",
    re.IGNORECASE,
)
_TOTAL = rf"(?:满分|上限)\s*(?:为|是|[:：=])?\s*(?P<total>{DIGITS})"
OTHER_TOTAL = re.compile(_TOTAL)
_TOTAL_ASIDE = re.compile(rf"[ \t]*+[（(\[，,]?[ \t]*+{_TOTAL}\s*分?\s*[)）\]]?")
_CORRECTED = re.compile(
    r"\s*+[（(，,。.；;—–\-]*\s*+(?:(?:不对?|错了?)[，,、。！!]+\s*(?:应该?)?[为是]?|(?:更正|修正|订正|纠正)(?![为成])"
    rf"|应该?[为是])\s*[:：]?\s*{_NUMBER}\s*分?\s*[)）]?",
    re.IGNORECASE,
)
"""80分（不，应为75分）: which of the two is meant is not for us to say."""
_SPLIT = re.compile(rf"[ \t]+\d+\s*{UNIT}", re.IGNORECASE)
"""8 0分"""
_COMMA = re.compile(rf",{DIGITS}")
"""4,5: one number with a decimal comma, or two; neither is taken."""
_BOUND = re.compile(r"\s*(?:\+|±\s*\d+(?:\.\d+)?|分?(?:以上|以下|之上|之下|多分?|余分?))")

_HAN_DIGITS = {c: i for i, c in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_HAN_UNITS = {"十": 10, "百": 100}


def chinese_number(text: str) -> float | None:
    """九十五 -> 95, 一百 -> 100, 八点五 -> 8.5; None for no single number (八九, 八十五六)."""
    whole, _, fraction = text.partition("点")
    total, digit, last_unit = 0, 0, 1000
    has_digit = False
    for character in whole:
        if (unit := _HAN_UNITS.get(character)) is None:
            if digit:
                return None
            digit, has_digit = _HAN_DIGITS[character], True
            continue
        if unit >= last_unit or (unit == 100 and total):
            return None
        total += unit * (digit if has_digit else 1)
        digit, has_digit, last_unit = 0, False, unit
    value = float(total + digit)
    if fraction:
        value += float("0." + "".join(str(_HAN_DIGITS[c]) for c in fraction))
    return value


def _number(text: str) -> float | None:
    return float(text) if text[0].isdigit() and text.isascii() else chinese_number(text)


def read_score(text: str, start: int, rubric: Rubric) -> Reading | None:
    """The score that begins exactly at `start`, or None where none does.

    Changes (4→3, 90分，改为85分) give the later value. A range, a bound (80分以上), a
    fraction of another scale, a second score beside the first (90分（95分）) and a value
    off the scale are readings without a value.
    """
    spread = _HAN_RANGE.match(text, start)
    if spread is not None:
        return Reading(None, f"a range ({spread.group().strip()})", spread.end())
    if (mixed := _MIXED.match(text, start)) is not None:
        return Reading(None, f"{mixed.group().strip()!r} is not one number", mixed.end())
    first = _FIRST.match(text, start)
    if first is None:
        return None
    end = first.end()
    if first["full"]:
        return Reading(rubric.highest, None, end)
    if first["digits"] and (split := _SPLIT.match(text, first.end("digits"))) is not None:
        whole = text[start : split.end()].strip()
        return Reading(None, f"{whole!r} is not one number", split.end())
    if first["digits"] and (comma := _COMMA.match(text, first.end("digits"))) is not None:
        whole = text[start : comma.end()].strip()
        return Reading(None, f"{whole!r} is two numbers, or one with a decimal comma", comma.end())
    value = _number(first["digits"] or first["han"] or first["part"] or first["tens"])
    if value is None:
        return Reading(None, f"{first.group().strip()!r} is not one number", end)
    if first["sign"]:
        value = -value
    if (first["percent"] or first["part"]) and rubric.highest != 100:
        return Reading(None, f"{first.group().strip()} is a percentage", end)
    while (change := _CHANGE.match(text, end)) is not None:
        later, end = _number(change["later"]), change.end()
        if later is None:
            return Reading(None, f"{change['later']!r} is not one number", end)
        value = later
    if (fraction := _OUT_OF.match(text, end)) is not None:
        end = fraction.end()
        if float(fraction["of"]) != rubric.highest:
            whole = text[start:end].strip()
            return Reading(None, f"{whole} is out of {fraction['of']}, not {rubric.highest:g}", end)
    if (total := _TOTAL_ASIDE.match(text, end)) is not None:
        end = total.end()
        if float(total["total"]) != rubric.highest:
            whole = text[start:end].strip()
            return Reading(None, f"{whole} is out of {total['total']}, not {rubric.highest:g}", end)
    if (corrected := _CORRECTED.match(text, end)) is not None:
        told = " ".join(text[start : corrected.end()].split())
        return Reading(None, f"two verdicts disagree ({told})", corrected.end())
    if (other := _RANGE.match(text, end) or _BETWEEN.match(text, end)) is not None:
        return Reading(None, f"a range ({text[start : other.end()].strip()})", other.end())
    if (aside := _ASIDE.match(text, end)) is not None:
        if _number(aside["other"]) not in (value, rubric.highest):
            told = f"{text[start:end].strip()}, {aside['other']}"
            return Reading(None, f"two verdicts disagree ({told})", aside.end())
        end = aside.end()
    if (bound := _BOUND.match(text, end)) is not None:
        return Reading(None, f"a bound ({text[start : bound.end()].strip()})", bound.end())
    if not rubric.allows(value):
        scale = f"{rubric.lowest:g}-{rubric.highest:g}"
        return Reading(None, f"{value:g} is off the scale {scale}", end)
    return Reading(value, None, end)


FINAL_WORD = r"最终|最后|终评|修正后|调整后|更正后|改判后|定稿|final(?:ly)?|revised|corrected"
IS_FINAL = re.compile(FINAL_WORD, re.I)
SCORE_WORDS = re.compile(
    rf"(?:(?:我|本人|笔者)?(?:{FINAL_WORD}|综合)?的?(?:评分|得分|分数|打分|给分|给予|给出|给到|给了|给|打出|打了|打|"
    r"评定为|评为|评|得到|得|为|是|约为|约|大约|大概|score|rating|grade|points)"
    r"(?:[*_`\"'”’\s]*[:：=为是]{1,2}\s*)?[\s*_`\[【<]*){0,3}",
    re.I,
)
_WRAPPING = " \t\n*_`\"'“”‘’「」[]【】()（）<>。.,，;；"


def read_whole(text: str, rubric: Rubric) -> Reading | None:
    """The score that a cell or a JSON value is, with nothing else in it."""
    bare = normalised(text).strip(_WRAPPING)
    words = SCORE_WORDS.match(bare)
    reading = read_score(bare, words.end() if words else 0, rubric)
    if reading is None:
        return None
    rest = without_scale(bare[reading.end :], rubric).strip(_WRAPPING)
    return reading if rest in {"", "左右"} else None


@lru_cache(maxsize=64)
def _scale(rubric: Rubric) -> re.Pattern[str]:
    low, high = f"{rubric.lowest:g}", f"{rubric.highest:g}"
    sign = r"\s*分?\s*[-–—~至到]\s*"
    total = rf"(?:满分|上限|总分|最高)\s*(?:为|是|:|：|=)?\s*{high}\s*分?"
    means = r"(?:表示|代表|意味着|指的?是|即为|=\s*[\u4e00-\u9fff])"
    # Stars beside a score are decoration, unless the scale itself has five.
    stars = rf"(?:[（(]\s*)?{DIGITS}\s*/\s*{DIGITS}\s*(?:颗?星|stars?\b)\s*[)）]?"
    stars = stars if rubric.highest > 10 else r"(?!)"
    return re.compile(
        rf"(?:[（(\[【]\s*)?{total}\s*[)）\]】]?"
        rf"|(?<!\d){low}{sign}{high}(?!\d)\s*分?"
        rf"|(?<!\d){high}\s*分制|百分制|十分制|五分制"
        rf"|(?<![\d.]){DIGITS}\s*分?\s*{means}[^，,。；;\n]*"
        rf"|{stars}",
    )


def without_scale(text: str, rubric: Rubric) -> str:
    """The text with echoes of the scale blanked out (0-100分, 满分100, 100分表示完全正确)."""
    return _scale(rubric).sub(lambda m: " " * len(m.group()), text)
