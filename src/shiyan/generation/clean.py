"""From a raw reply to a poem, by written rules; each rule that fires is named.

The rules run in this order. Those that unwrap the text (`wrapping`):

    thinking        what stands in thinking tags is kept apart
    special_tokens  <|im_end|> and its kin end the reply
    html, json, code_fence, table, block_quote, markdown, numbers

those that take lines away, from the head and then from the tail:

    preamble        "Here is a poem:", 以下是…：, 好的，…
    prompt_echo     the request repeated, before or after the poem
    title_line      a title in any dress; it becomes the poem's title
    author_line     文/…, 作者：…
    label           正文：, 上片：, （下阕）, 第一句：
    tone_row        平仄 rows, and tone or rhyme marks in brackets
    pinyin          lines of pinyin
    second_poem     another titled poem after the first
    afterword       赏析, 注释, 字数, 这首词…, English after the poem
    stanzas_joined  ci only: the corpus's ci have no blank lines, so neither has this one

those after which there is no poem (`Cleaned.missing`):

    empty, refusal, thinking_only, title_only, echo_only, not_chinese, loop, truncated,
    copy_of_seed

and those that keep it and say so:

    traditional     characters that are not simplified
    mixed_script    Latin words in the verse
    lost_character  U+FFFD, where a token was cut within a character
    regular_verse   five or seven characters a line where modern poetry was asked for
    prose           one long paragraph where lines were asked for
    repeated_lines  half of its lines or more are repetitions
    seed_passage    passages of the human poem stand in it
    maybe_truncated the last line stops where the others do not, and no finish_reason is known
    cut_afterword   the token limit cut what followed the poem, not the poem

A rule that takes lines away never takes the last one: what would leave nothing is verse
(tone rows excepted).
What was taken away is kept beside its rule's name (`Cleaned.removed`).
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice

from shiyan import poem as parser
from shiyan.answers import split_thinking
from shiyan.generation import wrapping
from shiyan.records import Poem
from shiyan.twins import copied_share, traditional_share

UNWRAPPING: dict[str, Callable[[str, wrapping.Drop], str]] = {
    "special_tokens": wrapping.without_special_tokens,
    "html": wrapping.without_html,
    "json": wrapping.without_json,
    "code_fence": wrapping.without_fence,
    "table": wrapping.without_table,
    "block_quote": wrapping.without_quote_marks,
    "markdown": wrapping.without_markdown,
    "numbers": wrapping.without_numbers,
}

LOOP_REPEATS = 5
"""A block of lines this often in a row, over most of the text, is a loop."""
LOOP_SHARE = 0.6
COPIED_SHARE = 0.8
"""Share of a reply's character 3-grams that are the human poem's, from which it is a copy.
Among 400 replies of a 1.5B model none lay between 0.66 and 0.81."""
PASSAGE_SHARE = 0.3
TRADITIONAL_SHARE = 0.05
"""Simplified texts have a few characters (著, 乾) that a converter would change."""
CHINESE_SHARE = 0.5
"""Han characters among all letters below which a reply is not Chinese."""
SHORTEST_POEM = 3
"""Characters up to which one line is a word and no poem."""
LONGEST_TITLE = 30
LONGEST_PLAIN_TITLE = 20
PROSE_LINE = 60
"""Characters in a line from which it is a paragraph."""


@dataclass(frozen=True)
class Asked:
    """What a reply answers, as far as it is known."""

    genre: str
    title: str | None = None
    """The title that was asked for, if one was."""
    request: str = ""
    """The request without the poem in it, to know an echo by."""
    human: Poem | None = None
    """The human poem that was shown or named."""
    cipai: str | None = None
    joins_stanzas: bool = False
    """The corpus's ci have no blank lines between stanzas."""


@dataclass(frozen=True)
class Cleaned:
    """A poem, or why there is none.

    Attributes:
        title: as the reply gives it; "" where it gives none.
        body: lines and stanzas in the parser's own form; "" where `missing` is set.
        thinking: what stood in thinking tags.
        flags: the rules that fired, in order, each once.
        removed: (rule, text) of everything taken away.
        missing: the rule after which there is no poem, or None.
    """

    title: str
    body: str
    thinking: str | None
    flags: tuple[str, ...]
    removed: tuple[tuple[str, str], ...]
    missing: str | None = None


@dataclass
class _Draft:
    """A reply on its way to a poem."""

    asked: Asked
    lines: list[str]
    title: str = ""
    last_line: str = ""
    """Of the reply, before anything was taken away: what a token limit would have cut."""
    flags: list[str] = field(default_factory=list)
    removed: list[tuple[str, str]] = field(default_factory=list)

    def flag(self, rule: str) -> None:
        if rule not in self.flags:
            self.flags.append(rule)

    def take(self, rule: str, start: int, end: int) -> None:
        """Remove lines[start:end] by a rule."""
        gone = self.lines[start:end]
        del self.lines[start:end]
        self.flag(rule)
        self.removed.append((rule, "\n".join(gone).strip()))

    def first(self) -> int | None:
        """Index of the first line with anything in it."""
        return next((i for i, line in enumerate(self.lines) if line.strip()), None)

    def last(self) -> int | None:
        return next((i for i in range(len(self.lines) - 1, -1, -1) if self.lines[i].strip()), None)

    def count(self, most: int = 2) -> int:
        """How many lines have anything in them, counted up to `most`."""
        return sum(1 for _ in islice(filter(str.strip, self.lines), most))


def clean(reply: str, asked: Asked, finish_reason: str | None = None) -> Cleaned:
    """Make a poem of a raw reply, or say why there is none."""
    thinking, text = split_thinking(reply)
    draft = _Draft(asked, [])
    if thinking is not None or (text != reply.strip() and "<answer" in reply.lower()):
        draft.flag("thinking")
    for rule, unwrap in UNWRAPPING.items():
        gone: list[str] = []
        text = unwrap(text, gone.append)
        if gone:
            draft.flag(rule)
            draft.removed += [(rule, part.strip()) for part in gone]
    draft.lines = parser.normalised(text).split("\n")
    draft.last_line = draft.lines[-1]

    missing = _nothing_said(draft, thinking)
    if missing is None:
        _take_head(draft)
        _take_marks(draft)
        _take_tail(draft)
        missing = _no_poem(draft, finish_reason)
    body = "" if missing else _body(draft)
    if not missing:
        _remark(draft, body, finish_reason)
    return Cleaned(
        parser.one_line(draft.title)[:LONGEST_TITLE],
        body,
        thinking,
        tuple(draft.flags),
        tuple(draft.removed),
        missing,
    )


# --- the head -----------------------------------------------------------------------

_END = "。！？；…!?;"
_OPENERS = (
    r"好的|好呀|好啊|当然可?以?|没问题|可以的?|遵命|明白了?|收到|Sure|Certainly|Of course|Okay|OK|"
    r"Absolutely|Alright"
)
_PREAMBLE = re.compile(
    rf"(?:{_OPENERS})[，,！!。.：:～~\s]"
    r"|(?:以下|下面|下边|如下|这里|这儿|这(?:是|便是)|为您|为你|我(?:为|来|给|将|尝试)|根据(?:您|你|上|以上|所)"
    r"|按照(?:您|你)|Here|Below|This is|The following).{0,80}[：:]$",
    re.IGNORECASE,
)
_ABOUT_POETRY = re.compile(
    r"诗|词|作品|创作|填|要求|题|内容|poem|poetry|lyric|verse", re.IGNORECASE
)
_GENRE_LINE = re.compile(
    r"[（(【\[]?(?:(?:一首|新的?|中文|中国|现代|当代|原创)*(?:现代诗歌?|新诗|诗歌|宋词|词作)"
    r"(?:一首|创作)?)[)）】\]]?[：:]?"
)
_ECHO = re.compile(
    r"(?:请|要求|用户|问题|任务|题目要求).{0,80}(?:诗|词)(?!人).{0,60}"
    r"|(?:请)?(?:只|仅)(?:需要?|要|能)?(?:输出|写出?|给出|返回|回答).{0,60}"
    r"|(?:请)?不要?(?:输出|写|附|加|作|做|带|任何|有)*.{0,12}(?:解释|说明|注释|赏析|标点).{0,40}"
    r"|(?:仿写|创作|写作|诗歌)?要求[：:].*|题干.{0,40}"
    r"|第一行(?:只?写|是).{0,60}|用户[：:].*|(?:user|assistant|human)[：:]?",
    re.IGNORECASE,
)
_TITLE_LABEL = re.compile(
    r"[【\[（(]?(?:(?:诗歌?的?|词的?|作品)?(?:题目|标题|诗题|诗名|词题|篇名|题名|题干|题|名称)"
    r"|词牌名?|词牌与题目|Title)(?:[】\]）)]\s*[：:]?|\s*(?:为|是)?\s*[：:])\s*(?P<title>.*)",
    re.IGNORECASE,
)
_LONE_TITLE_LABEL = frozenset({"题目", "标题", "题干", "诗题"})
_BRACKETED = re.compile(r"[《〈【「『\[<＜“\"](?P<title>[^《》]{1,40})[》〉】」』\]>＞”\"]")
_BRACKETED_WITH = re.compile(r"《(?P<title>[^《》]{1,40})》\s*(?:[（(·・•—\-–:：/／\s].{0,20})?")
_AUTHOR = re.compile(
    r"[（(【\[]?(?:作者|文|诗|词|作|撰|笔|by|author)\s?[/／：:|]\s?[^，。！？]{1,20}[)）】\]]?"
    r"|[—－\-–]{1,2}\s*(?:[^，。！？]{0,8}(?:AI|助手|模型|佚名|无名|作者)[^，。！？]{0,8})",
    re.IGNORECASE,
)


def _nothing_said(draft: _Draft, thinking: str | None) -> str | None:
    """The rule by which a reply holds nothing to read, or None."""
    if draft.count() == 0:
        return "thinking_only" if thinking is not None else "empty"
    return "refusal" if _refuses(draft) else None


_REFUSAL = re.compile(
    r"(?:(?:很|非常|十分)?抱歉|对不起|不好意思|sorry|I.?m sorry|I apologi).{0,40}"
    r"(?:无法|不能|没有?办法|没有?能力|不会|不便|帮|提供|满足|请求|要求|问题"
    r"|can.?t|cannot|unable|not able|help)"
    r"|作为(?:一个|一名|一款)?.{0,8}(?:AI|人工智能|语言模型|大模型|智能助手|编程助手|助手|程序)"
    r"|我(?:只)?是(?:一个|一名|一款)?.{0,10}(?:AI|人工智能|语言模型|大模型|编程助手)"
    r"|^(?:我)?(?:无法|不能)(?:创作|提供|完成|生成|满足|写|回答|帮)"
    r"|As an AI|I (?:can.?t|cannot|am unable|.?m unable)",
    re.IGNORECASE,
)


def _refuses(draft: _Draft) -> bool:
    """An apology among the first lines, and no verse after it."""
    written = [line for line in draft.lines if line.strip()]
    apologies = [i for i, line in enumerate(written[:2]) if _REFUSAL.search(line)]
    if not apologies:
        return False
    rest = written[apologies[-1] + 1 :]
    verse = [line for line in rest if parser.characters(line) and not _is_explanation(line)]
    return len(verse) < 4


def _take_head(draft: _Draft) -> None:
    """Preamble, echo, title, author and labels, as often as they come, in any order."""
    dressed = True
    while dressed:
        dressed = False
        index = draft.first()
        if index is None:
            return
        line = draft.lines[index].strip()
        # The last line stays: a reply of one line is a title or a poem, not a preamble.
        if draft.count() > 1 and (rule := _head_rule(draft, line)):
            draft.take(rule, 0, index + 1)
            dressed = True
            continue
        if (title := _title_of(draft, index)) is not None:
            draft.title = _better_title(draft.title, title, draft.asked)
            draft.take("title_line", 0, index + 1)
            dressed = True
        elif glued := _glued_title(line, draft.asked):
            draft.removed.append(("title_line", glued))
            draft.flag("title_line")
            draft.lines[index] = line.removeprefix(glued).lstrip(f"{_CI_SEPARATORS}）)】，。")


def _head_rule(draft: _Draft, line: str) -> str | None:
    """The rule by which a first line is no part of the poem, titles aside."""
    if _REFUSAL.search(line):
        return "preamble"
    if _is_echo(line, draft.asked):
        return "prompt_echo"
    if _PREAMBLE.match(line) and (_ABOUT_POETRY.search(line) or line[-1] in "：:"):
        return "preamble"
    if _GENRE_LINE.fullmatch(line) or _is_foreign_prose(line):
        return "preamble"
    if _AUTHOR.fullmatch(line):
        return "author_line"
    if _LABEL.fullmatch(line):
        return "label"
    if draft.asked.cipai and "title_line" in draft.flags:
        is_theme = _same(line, draft.asked.title or "")
        return "author_line" if not is_theme and _is_lone_name(draft.lines, line) else None
    return None


def _is_lone_name(lines: list[str], line: str) -> bool:
    """苏轼 alone under a ci's title, where the verse has marks."""
    if not 2 <= len(line) <= 4 or len(parser.characters(line)) != len(line):
        return False
    rest = [other for other in lines if other and other != line]
    ended = sum(other[-1] in f"{_END}，,、" for other in rest)
    return len(rest) >= 2 and ended >= 0.8 * len(rest)


def _is_echo(line: str, asked: Asked) -> bool:
    """A line of the request, or one that can only be an instruction."""
    plain = parser.characters(line)
    if len(plain) >= 6 and plain in parser.characters(asked.request):
        return True
    return bool(_ECHO.fullmatch(line.rstrip('。．.！!：:”"')))


def _is_foreign_prose(line: str) -> bool:
    """Three words or more of Latin letters and no Chinese."""
    return not parser.characters(line) and len(re.findall(r"[A-Za-z']{2,}", line)) >= 3


def _title_of(draft: _Draft, index: int) -> str | None:
    """The title that the first line is, or None; "" where it is a label without one."""
    line = draft.lines[index].strip()
    asked = draft.asked
    if label := _TITLE_LABEL.fullmatch(line):
        return _undressed(label["title"])
    if line in _LONE_TITLE_LABEL:
        return ""
    for dress in (_BRACKETED, _BRACKETED_WITH):
        if match := dress.fullmatch(line):
            return _ci_title(line, asked) if asked.cipai else match["title"].strip()
    if asked.cipai and _names_cipai(line, asked):
        return _ci_title(line, asked)
    bare = _undressed(line)
    # 忧患！ after the title 忧患 is the first line of verse.
    for known in filter(None, (asked.title, draft.title)):
        if parser.characters(bare) and _same(bare, known):
            set_apart = not draft.title and draft.lines[index + 1 : index + 2] == [""]
            is_verse = bare[-1] in _END and bare[-1] != known[-1] and not set_apart
            return None if is_verse else bare
    if draft.title:
        # One title is enough: a second one must be dressed as one or repeat the first.
        return None
    return bare if _is_plain_title(draft.lines, index) else None


def _same(one: str, other: str) -> bool:
    return parser.characters(one) == parser.characters(other)


_CI_SEPARATORS = "·・•‧∙.．、-—－–:：（(【《 \u3000"
_PAIRS = dict(zip('《〈【「『"“<＜（([', '》〉】」』"”>＞）)]', strict=True))


def _undressed(line: str) -> str:
    """A title without the brackets about the whole of it, and without a lone one."""
    bare = line.strip("*#_ \u3000")
    while len(bare) > 2 and _PAIRS.get(bare[0]) == bare[-1] and bare[-1] not in bare[1:-1]:
        bare = bare[1:-1].strip()
    if bare and bare[0] in _PAIRS and _PAIRS[bare[0]] not in bare[1:]:
        bare = bare[1:]
    if bare and bare[-1] in _PAIRS.values() and not set(_PAIRS) & set(bare[:-1]):
        bare = bare[:-1]
    return bare.strip().rstrip("，,、：:")


def _names_cipai(line: str, asked: Asked) -> bool:
    """浣溪沙, 浣溪沙·春日, 浣溪沙，春日。, 浣溪沙（其一）, without a verse after it."""
    bare = _undressed(line)
    rest = bare.removeprefix(asked.cipai or "")
    if rest == bare:
        return False
    if not parser.characters(rest) or _same(rest, asked.title or ""):
        return True
    return rest[0] in _CI_SEPARATORS and len(rest) <= LONGEST_PLAIN_TITLE and rest[-1] not in _END


def _glued_title(line: str, asked: Asked) -> str:
    """Cipai and theme with the verse right behind them (菩萨蛮寒食东风拂面轻), or ""."""
    if not asked.cipai or not asked.title:
        return ""
    between = f"[{re.escape(_CI_SEPARATORS)}]?"
    pattern = f"《?{re.escape(asked.cipai)}》?{between}{re.escape(asked.title)}(?=.{{3,}})"
    match = re.match(pattern, line)
    return match[0] if match else ""


def _ci_title(line: str, asked: Asked) -> str:
    """What a ci's title line names beside the cipai."""
    bare = _undressed(line).removeprefix(asked.cipai or "")
    return _undressed(bare.strip(f"{_CI_SEPARATORS}）)】，。"))


def _is_plain_title(lines: list[str], index: int) -> bool:
    """An undressed first line is a title if a blank line sets it apart, or its ending does."""
    line = lines[index].strip()
    rest = [other.strip() for other in lines[index + 1 :] if other.strip()]
    if not rest or len(line) > LONGEST_PLAIN_TITLE or line[-1] in f"{_END}，,、：:":
        return False
    # Where every line is followed by a blank one, blanks tell nothing.
    if not lines[index + 1].strip() and not _blanks_everywhere(lines[index + 1 :]):
        return len(rest) > 1
    if _AUTHOR.fullmatch(rest[0]) or _LABEL.fullmatch(rest[0]):
        return True
    ended = sum(other[-1] in f"{_END}，,、" for other in rest)
    return len(rest) >= 2 and ended >= 0.6 * len(rest)


def _blanks_everywhere(lines: list[str]) -> bool:
    text = "\n".join(lines).strip()
    return text.count("\n") > 1 and not re.search(r"[^\n]\n[^\n]", text)


def _better_title(known: str, found: str, asked: Asked) -> str:
    """Of two title lines the one that says more than the cipai."""
    return found if found and (not known or known == asked.cipai) else known


# --- marks within the verse ---------------------------------------------------------

_LABEL = re.compile(
    r"[（(【\[]?(?:正文|诗文|全文|词文|原文|诗歌正文|词的?正文|诗的?正文|内容|Content|Body"
    r"|[上下前后中][阕片段阙](?:\s*[：:]?\s*(?:同上|同前|略)[。.]?)?"
    r"|第?[一二三四五六七八九十\d]{1,3}[节段阕片阙]|Stanza \d+)"
    r"[)）】\]]?\s*[：:]?",
    re.IGNORECASE,
)
_LABEL_BEFORE = re.compile(
    r"(?:(?:正文|诗文|全文|词文|原文|内容|词|诗)\s*[：:]|[（(【\[]?[上下前后][阕片阙][)）】\]]?\s*[：:]"
    r"|【[上下前后][阕片阙]】|第[一二三四五六七八九十\d]{1,3}[句行节段][：:])\s*(?=\S)"
)
_TONES = "平仄中通可韵叶句读豆换增叠押"
_TONE_ROW = re.compile(rf"[{_TONES}○●⊙◎△▲◯\s，,。.、；;：:！!？?|/（）()\[\]【】+＋\-\d]+")
_FORM_ROW = re.compile(rf".{{0,8}}[\d一二三四五六七八九十]+字[，,：:、]\s*[{_TONES}]{{2,}}.*")
_CLAUSE_BREAK = re.compile(r"[，,。.、；;：:！!？?|/\s（）()\[\]【】]+")
_TONE_CLAUSE = re.compile(
    r"\d{0,2}[平仄中○●⊙]+[韵叶句读]?|[押叶入换转][平仄]?声?韵|不(?:押|入|用)?韵|韵组?[甲乙丙丁戊己]?"
    r"|[上下前后中][片阕阙]|第?[一二三四五六七八九十\d]{1,3}[字句片段]|平仄韵?|格律|词谱"
)
_TONE_MARK = re.compile(
    rf"\s*[（(\[【]\s*(?:[{_TONES}声○●⊙◎△▲◯\s，,。.、；;/]+|[^（）()\[\]【】]{{0,4}}(?:平|仄|韵)[^（）()\[\]【】]{{0,4}})\s*[）)\]】]"
    # Clauses of nothing but tones, behind or between clauses of verse.
    r"|(?<![\u4e00-\u9fff])(?:(?=中{0,9}[平仄])[平仄中]{3,}(?:[，,。；;、！？]\s*|$))+"
)
_PINYIN = re.compile(r"[（(]?[A-Za-zāáǎàēéěèīíǐìōóǒòūúǔùǖǘǚǜüńňǹ\s,.，。'’!?！？-]+[)）]?")
_TONED = re.compile("[āáǎàēéěèīíǐìōóǒòūúǔùǖǘǚǜ]")
_PINYIN_BEHIND = re.compile(
    r"\s*[（(][A-Za-zāáǎàēéěèīíǐìōóǒòūúǔùǖǘǚǜü\s,.，。'’]*[āáǎàēéěèīíǐìōóǒòūúǔùǖǘǚǜ]"
    r"[A-Za-zāáǎàēéěèīíǐìōóǒòūúǔùǖǘǚǜü\s,.，。'’]*[)）]"
)


def _take_marks(draft: _Draft) -> None:
    """Labels, tone rows and pinyin, alone on a line or beside the verse."""
    for rule, whole, beside in (
        ("tone_row", _is_tone_row, _TONE_MARK),
        ("pinyin", _is_pinyin, _PINYIN_BEHIND),
        ("label", _LABEL.fullmatch, _LABEL_BEFORE),
    ):
        kept: list[str] = []
        gone: list[str] = []
        for line in draft.lines:
            bare = line.strip()
            if bare and whole(bare):
                gone.append(bare)
                # A label such as 下片： stands where a stanza begins.
                kept.append("")
                continue
            rest = beside.sub("", bare)
            if rest != bare and rest:
                gone.append(bare)
                bare = rest
            kept.append(bare)
        # Tone rows cannot be verse, so that nothing may be left after them.
        if gone and (any(kept) or rule == "tone_row"):
            draft.lines = kept
            draft.flag(rule)
            draft.removed.append((rule, "\n".join(gone)))


def _is_tone_row(line: str) -> bool:
    if _FORM_ROW.fullmatch(line):
        return True
    if len(re.findall("[平仄中○●⊙]", line)) < 2:
        return False
    clauses = [clause for clause in _CLAUSE_BREAK.split(line) if clause]
    return bool(_TONE_ROW.fullmatch(line)) or all(map(_TONE_CLAUSE.fullmatch, clauses))


def _is_pinyin(line: str) -> bool:
    return bool(_PINYIN.fullmatch(line)) and len(_TONED.findall(line)) >= 2


# --- the tail -----------------------------------------------------------------------

_NOTE_HEAD = re.compile(
    r"[（(【\[<]?\s*(?:诗歌|诗词|词作|作品|本诗|本词|全诗|全词)?(?:赏析|鉴赏|解析|解读|解说|解释|注释|注解|译文|翻译"
    r"|今译|白话译?文?|简析|评析|点评|创作(?:说明|思路|背景|意图|手记|理念|解析)|写作(?:说明|思路|背景)|格律(?:说明|分析)?|(?:作者|诗人|词人)简介|关于作者"
    r"|平仄(?:说明|分析|格律)?|韵脚(?:分析)?|用韵|字数(?:统计)?|总字数|备注|附注|说明|注意|Notes?|Explanation"
    r"|Analysis|Translation|Interpretation|P\.?S)(?:如下)?\s*[】)）\]>]?\s*(?:[：:].*)?",
    re.IGNORECASE,
)
_LONE_NOTE = frozenset({"说明", "注意", "翻译", "解释", "备注", "注释", "用韵", "格律", "平仄"})
"""Heads that a poem may well have as a line; they need a colon or brackets."""
_REMARK = re.compile(r"[（(【\[]?(?:注|附|按)\s*[】)）\]]?\s*[：:].*")
_FINIS = re.compile(
    r"[（(【\[]?(?:全(?:诗|词|文|篇)?(?:终|完|结束)|完|终|本诗完|The end|END)[)）】\]]?[。.]?",
    re.IGNORECASE,
)
_LENGTH = re.compile(
    r"[（(【\[]?(?:本|全|此|该)?(?:诗|词)?(?:总|合)?(?:共|计|字数)(?:有|计|为|是)?\s*[：:]?\s*(?:约)?\s*\d+\s*(?:个)?(?:字|行|句|节|片).*"
)
_EXPLANATION = re.compile(
    r"(?:(?:以上|上面|上述|前面)(?:的|这|就是|便是|是|内容|诗|词|作品).*"
    r"|这是一?[首篇段].{0,40}(?:描绘|描写|描述|表达|抒发|展现|讲述|歌颂|赞美).*"
    r"|(?:这|此|该|本|整|全)(?:首|篇|阕|是一?首)?[^，。]{0,16}(?:诗歌?|词作?|作品).{0,12}"
    r"(?:通过|表达|描绘|描写|描述|展现|展示|运用|借|以|遵循|遵守|采用|符合|创作|抒发|押|格律|结合|围绕|反映|体现|共|是|中|用|的|讲述|充满|旨在|主题).*"
    r"|(?:我)?希望(?:这|您|你|能|它|我|以上|对).*(?:喜欢|满意|帮助?|诗|词|要求|符合|欣赏).*"
    r"|如(?:果)?(?:您|你|有|需|还).*(?:修改|调整|需要|帮助?|告诉|要求|建议|问题|满意).*"
    r"|(?:请|欢迎)(?:您|你)?(?:告诉|随时|查收|注意|欣赏|继续|提出|参考).*"
    r"|(?:这样|这些|其中|整体).{0,10}(?:诗句|词句|押韵|格律|平仄|意象|诗意).*"
    r"|(?:由|作)[^，。]{0,12}(?:AI|模型|助手)[^，。]{0,6}(?:生成|创作|撰写).*)",
    re.IGNORECASE,
)
_SECOND_TITLE = re.compile(
    r"《[^《》]{1,30}》|(?:题目|标题|诗题)\s*[：:].*|其[二三四五]|第二首[：:]?"
)
_APPENDED = re.compile(
    r"(?<=[。！？!?”])\s*(?:这是一?[首个篇]|(?:这|此|本|该)首?(?:诗歌?|词)|全诗|全词|以上)[^\n]{10,}$"
)


def _is_explanation(line: str) -> bool:
    """A line that speaks about the poem and not in it."""
    bare = line.strip()
    if _LENGTH.fullmatch(bare) or _FINIS.fullmatch(bare):
        return True
    if _NOTE_HEAD.fullmatch(bare):
        return bare not in _LONE_NOTE
    inside = bare.strip("（()）【】[]* ")
    return len(parser.characters(bare)) >= 8 and bool(_EXPLANATION.fullmatch(inside))


def _take_tail(draft: _Draft) -> None:
    """A second poem and what is said after the first; from its first line to the end."""
    verse = 0
    for index, line in enumerate(draft.lines):
        bare = line.strip()
        if not bare:
            continue
        rule = None
        if verse >= 2 or (verse == 1 and draft.asked.genre == "ci"):
            rule = _tail_rule(draft, index, bare)
        if rule:
            draft.take(rule, index, len(draft.lines))
            break
        verse += 1
    last = draft.last()
    while last is not None and draft.count() > 1:
        bare = draft.lines[last].strip()
        if _is_echo(bare, draft.asked):
            draft.take("prompt_echo", last, len(draft.lines))
        elif _AUTHOR.fullmatch(bare):
            draft.take("author_line", last, len(draft.lines))
        else:
            break
        last = draft.last()
    if last is not None and (match := _APPENDED.search(draft.lines[last])):
        draft.removed.append(("afterword", match[0].strip()))
        draft.flag("afterword")
        draft.lines[last] = draft.lines[last][: match.start()]


def _tail_rule(draft: _Draft, index: int, bare: str) -> str | None:
    """The rule by which the poem is over before this line, or None."""
    after_blank = index == 0 or not draft.lines[index - 1].strip()
    several = re.search(r"[二三四五六七八九十两几\d][首章]", draft.asked.title or "")
    if (
        after_blank
        and not several
        and (_SECOND_TITLE.fullmatch(bare) or _is_title_again(draft, bare))
    ):
        return "second_poem"
    if (
        _is_explanation(bare)
        or _is_foreign_prose(bare)
        or (after_blank and _REMARK.fullmatch(bare))
    ):
        return "afterword"
    return None


def _is_title_again(draft: _Draft, bare: str) -> bool:
    """A ci's title line for the second time; a modern poem may repeat its title as a refrain."""
    titles = [text for rule, text in draft.removed if rule == "title_line"]
    return draft.asked.cipai is not None and bare in titles


# --- verdicts -----------------------------------------------------------------------


def _no_poem(draft: _Draft, finish_reason: str | None) -> str | None:
    """The rule by which what is left is no poem, or None."""
    verse = [line for line in draft.lines if line.strip()]
    text = "\n".join(verse)
    if not verse:
        if {"prompt_echo", "tone_row"} & set(draft.flags):
            return "echo_only"
        return "title_only" if "title_line" in draft.flags else "empty"
    if all(_is_echo(line, draft.asked) or _LABEL.fullmatch(line) for line in verse):
        return "echo_only"
    if len(verse) == 1 and _is_only_title(draft, verse[0]):
        draft.title = draft.title or _undressed(verse[0])
        return "title_only"
    if _chinese_share(text) < CHINESE_SHARE:
        return "not_chinese"
    if is_loop(verse):
        return "loop"
    if finish_reason == "length" and verse[-1] in draft.last_line:
        return "truncated"
    human = draft.asked.human
    if human is not None and copied_share(text, human.text) >= COPIED_SHARE:
        return "copy_of_seed"
    return None


def _is_only_title(draft: _Draft, line: str) -> bool:
    """One line that repeats the title, or is as short as one and has no verse about it."""
    human = draft.asked.human
    titles = [draft.title, draft.asked.title, human.title if human else None]
    if any(title and _same(line, title) for title in titles):
        return True
    if draft.title:
        return False
    if 0 < len(parser.characters(line)) <= SHORTEST_POEM:
        return True
    return len(line) <= LONGEST_PLAIN_TITLE and not re.search(f"[{_END}，,]", line)


def _chinese_share(text: str) -> float:
    """Han characters among all letters; Latin letters count five to a word."""
    han = len(parser.characters(text))
    latin = len(re.findall(r"[^\W\d_]", text)) - han
    return han / (han + latin / 5) if han + latin else 0.0


def is_loop(lines: list[str]) -> bool:
    """Does a block of lines, or of characters, repeat to the end of the reply?

    A refrain comes back; a loop comes back at once, LOOP_REPEATS times or more, and
    fills most of the text.
    """
    for size in range(1, len(lines) // LOOP_REPEATS + 1):
        run = longest = 0
        for index in range(size, len(lines)):
            run = run + 1 if lines[index] == lines[index - size] else 0
            longest = max(longest, run)
        if longest + size >= max(LOOP_REPEATS * size, LOOP_SHARE * len(lines)):
            return True
    text = "".join(lines)
    stuck = re.search(r"(.{1,30}?)\1{9,}", text)
    return stuck is not None and len(stuck[0]) >= LOOP_SHARE * len(text)


def _clauses(text: str) -> list[str]:
    return re.split(r"[，。！？；：、,.!?;:\s]+", text)


def _body(draft: _Draft) -> str:
    """The verse in the parser's form; a ci in the layout of the corpus."""
    body = parser.normalised("\n".join(draft.lines))
    if draft.asked.genre != "ci":
        return body
    laid_out = ci_layout(body, draft.asked.joins_stanzas)
    if draft.asked.joins_stanzas and "\n\n" in body:
        draft.flag("stanzas_joined")
    return laid_out


def ci_layout(body: str, joins_stanzas: bool) -> str:
    """A ci with one sentence a line, however the reply broke it.

    Where lines end within a sentence (，or、) they are joined; where several sentences
    stand on a line they are parted. Lines without marks stay as they are.
    """
    stanzas: list[tuple[str, ...]] = []
    for stanza in parser.stanzas(body):
        joined = ""
        for line in stanza:
            joined += line if line[-1] in "，、,：:" else f"{line}\n"
        parted = re.sub(
            r"([。！？；!?;…][”』」’\"]?)(?=[^\n”』」’\"。！？；!?;…])", r"\1\n", joined
        )
        stanzas.append(tuple(line.strip() for line in parted.split("\n") if line.strip()))
    if joins_stanzas:
        stanzas = [tuple(line for stanza in stanzas for line in stanza)]
    return parser.joined(tuple(stanzas))


def _remark(draft: _Draft, body: str, finish_reason: str | None) -> None:
    """Flags of a poem that is kept."""
    lines = parser.lines(body)
    if traditional_share(body) > TRADITIONAL_SHARE:
        draft.flag("traditional")
    if re.search(r"[A-Za-z]{2,}", body):
        draft.flag("mixed_script")
    if "\ufffd" in body:
        draft.flag("lost_character")
    if draft.asked.genre == "modern":
        if _is_regular(lines):
            draft.flag("regular_verse")
        if max(map(len, lines)) > PROSE_LINE and len(lines) <= 3:
            draft.flag("prose")
    if len(lines) >= 4 and len(set(lines)) <= len(lines) / 2:
        draft.flag("repeated_lines")
    human = draft.asked.human
    if human is not None and copied_share(body, human.text) >= PASSAGE_SHARE:
        draft.flag("seed_passage")
    if finish_reason == "length":
        draft.flag("cut_afterword")
    elif finish_reason is None and _stops_short(lines):
        draft.flag("maybe_truncated")


def _is_regular(lines: tuple[str, ...]) -> bool:
    """Five or seven characters a clause throughout, four clauses or more."""
    clauses = [c for line in lines for clause in _clauses(line) if (c := parser.characters(clause))]
    lengths = Counter(map(len, clauses))
    return len(clauses) >= 4 and max(lengths[5], lengths[7]) >= 0.9 * len(clauses)


def _stops_short(lines: tuple[str, ...]) -> bool:
    """The last line ends without a mark where most others have one."""
    *others, last = lines
    ended = sum(line[-1] in f"{_END}，,、—~～”』」" for line in others)
    return len(others) >= 2 and ended >= 0.7 * len(others) and last[-1] not in f"{_END}—~～”』」）)"
