"""Scores on lines, in sections and in sentences."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from shiyan.judging.expression import (
    DIGITS,
    FINAL_WORD,
    HAN,
    IS_FINAL,
    OTHER_TOTAL,
    SCORE_WORDS,
    TO,
    UNIT,
    Reading,
    masked,
    read_score,
    unmasked,
)
from shiyan.judging.mention import (
    BARE,
    CHANGED,
    FINAL,
    LABELLED,
    Block,
    Mention,
    agreed,
)
from shiyan.judging.rubric import Rubric, folded, name_pattern

_BOUNDARY = (
    "总结|总评|总体|总的|总分|总得分|综合|平均|整体|小结|结论|结语|(?:评分|分数)?汇总|备注|附注|注(?!意)|建议"
    "|(?:我的)?角色|身份|表[现达]手法|summary|overall|total|average|(?:in )?conclusion|note|role"
)
_NUMBERED = r"[)）\]】.．、:：]"
_NUMBERING = (
    rf"(?:(?:第\s*)?(?:\d{{1,2}}|[一二三四五六七八九十]{{1,3}}|[a-hivx]{{1,4}})\s*{_NUMBERED}"
    r"|[\u2460-\u24ff\u2776-\u2793])"
)
_MARKS = re.compile(
    rf"(?:[^\S\n]|[#>*\-+•·●◆■▪○◇☆★✦–—|{{<\"'“‘「『【《（(\[`_~✅📌]|{_NUMBERING}"
    rf"|(?:(?:评分)?维度(?:\s*[一二三四五六七八]|\s*\d{{1,2}})?|dimension(?:\s*\d+)?)(?:\s*{_NUMBERED})?"
    r"|关于|对于|就|在|对|for\b)*+",
    re.I,
)
"""What may stand before a name or a heading. Nothing taken is given back: a judge that
repeats a mark without end would otherwise be read in as many ways as there are splits."""
_CLAUSE_START = re.compile(
    r"(?:^|[，,；;。.、：:（(/|!！\d分])\s*[\"'“‘「『【《*_`]*\s*"
    r"(?:其中|而|但|不过|然而|可是|只是|且|和|与|我?给|我?对|在|就|for)?\s*[\"'“‘「『【《*_`]*$",
    re.I,
)
_SUFFIX = (
    r"(?:\s*(?:维度|方面|层面|部分|运用|特点|特色|风格|的?(?:理解|分析|把握|解读)|分(?=\s*[:：=])))"
    r"{0,2}"
)
_CLOSERS = r"[*_`\"'”’」』】》>\])）~]*"
_ANNOTATION = r"(?:\s*[（(\[【][^（）()\[\]【】\n]{0,30}[)）\]】])?"
_SEPARATOR = r"(?:[:：=|,，]+\s*(?:[-–—―]+\s+)?|[-–—―]+>?\s*|…+|\.{2,}|→|\s)?"
_OPENERS = r"(?:[\s*_`\"'“‘「『【《(（\[<~$]|\\boxed\{)*"
_OPEN = re.compile(rf"{_SUFFIX}{_CLOSERS}{_ANNOTATION}{_CLOSERS}[ \t]*(?:[:：=\-—–|。.]|$|\n)")
_MEMBER = re.compile(r"[\"'”’`]\s*[:：]\s*\{")
"""After the name in JSON that could not be read, where a line may hold all dimensions."""
_TIGHT = [
    re.compile(rf"{_SUFFIX}{annotation}{_CLOSERS}\s*{_SEPARATOR}{_OPENERS}", re.I)
    for annotation in ("", rf"{_CLOSERS}{_ANNOTATION}")
]
_LIST_START = re.compile(r"1\s*(?:[.．](?![0-9])|[、)）])\s*\S")
"""1. on the line after a name is no score but the first of its reasons."""
_BOUNDARY_LINE = re.compile(rf"^(?:{_MARKS.pattern})(?:{_BOUNDARY})(?![a-z])", re.I | re.M)
_HEADS_ON = re.compile(
    rf"[^\n，,。；;！!？?]{{0,8}}?{_CLOSERS}{_ANNOTATION}{_CLOSERS}[ \t]*[:：=|]"
    r"|(?:评[分价语估]|得分|印象|分数|打分|分|意见|说明|情况|结果)?"
    rf"{_CLOSERS}{_ANNOTATION}{_CLOSERS}[ \t]*$",
    re.M,
)
"""After a word such as 整体 what makes it a heading, not the first word of a remark."""
_VERDICT = "[总终]?评[分定价判]|终评|[得打给判]分|分数|scores?|verdict|rating|grades?"
_FINAL_LINE = re.compile(
    rf"^(?=.{{0,40}}$)(?=.*?(?:{FINAL_WORD}|修正|更正|重新))(?=.*?(?:{_VERDICT}))"
    r"(?:[ \t]*(?:#|\*\*|【)[^\d\n]*|[^\d\n]*[:：][*_ \t]*"
    rf"|[^\d\n，,。]{{0,12}}(?:{_VERDICT})(?:如下|结果|表)?[ \t]*)$",
    re.I | re.M,
)
"""A heading with both words: 最后 in a sentence (最后一节的分析) announces nothing."""


@dataclass(frozen=True)
class _Section:
    """From one head to the next; `dimension` None where the head is not a dimension's.

    A remark (整体把握准确) is a head that may as well be a reason.
    """

    start: int
    body: int
    dimension: str | None
    tight: Mention | None = None
    opens_final: bool = False
    is_remark: bool = False
    begins_line: bool = True


_QUOTATION = re.compile(
    r"“[^“”]*”|「[^「」]*」|『[^『』]*』|‘[^‘’]*’"
    r"|(?<=[写说道称][:：])\s?\"[^\"]*\"|\"[^\"\n]*\""
)
"""A straight mark closes on its line, but for one that opens what somebody wrote."""
_SOME_SCORE = rf"\d|{HAN}\s*分"
_QUOTED_LINE = re.compile(r"^[ \t]*>.*$", re.M)


def without_quotations(text: str, rubric: Rubric, *, is_scored: bool) -> str:
    """The text with every quotation masked that names a dimension and a number.

    What a judge quotes (读者写道：“内容：100分”) is another's word, no verdict. A reply
    that has all its numbers behind > is set so, not quoted.

    Args:
        is_scored: scores were taken out of the text already.
    """
    names, _ = name_pattern(rubric)

    def mask(quotation: re.Match[str]) -> str:
        named = names.search(quotation[0])
        says_score = named and re.search(_SOME_SCORE, quotation[0][named.end() :])
        return masked(quotation[0]) if says_score else quotation[0]

    text = _QUOTATION.sub(mask, text)
    if is_scored or re.search(_SOME_SCORE, _QUOTED_LINE.sub("", text)):
        text = _QUOTED_LINE.sub(mask, text)
    return text


def section_blocks(text: str, rubric: Rubric, is_cut: bool) -> list[Block]:
    """Blocks of scores on lines and in sections; a dimension that comes again opens a new one.

    Not so within the first dimension, where the others would complete the new block and it
    would take the place of the verdict: two scores there are at odds.
    """
    heads = _heads(text, rubric, is_cut)
    if len(rubric.names) == 1 and not any(head.dimension for head in heads):
        whole = of_section(rubric.names[0], text, rubric, is_cut)
        return [Block(0, [whole])] if whole.reading else []
    blocks = [Block(heads[0].start if heads else 0)]
    # Of the last block; asking the block each time would take the square of its length.
    scored: set[str] = set()
    first_begins_line = False
    for head, body in _sections(text, heads, rubric):
        if head.opens_final:
            blocks.append(Block(head.start, is_final=True))
            scored = set()
        if head.dimension is None:
            continue
        mention = _merged(head.tight, of_section(head.dimension, body, rubric, is_cut))
        is_first_again = scored == {head.dimension} and (first_begins_line or not head.begins_line)
        if head.dimension in scored and mention.reading is not None and not is_first_again:
            blocks.append(Block(head.start, is_final=mention.rung == FINAL))
            scored = set()
        if mention.reading is not None:
            first_begins_line = first_begins_line if scored else head.begins_line
            scored.add(head.dimension)
        blocks[-1].mentions.append(mention)
    return blocks


def _sections(
    text: str, heads: Sequence[_Section], rubric: Rubric
) -> Iterator[tuple[_Section, str]]:
    """Each head and what belongs to it, up to the next or to a score of the whole."""
    heads = _without_remarks(text, heads, rubric)
    ends = [*(head.start for head in heads), len(text)][1:]
    bodies = [text[head.body : end] for head, end in zip(heads, ends, strict=True)]
    of_dimensions = [i for i, head in enumerate(heads) if head.dimension]
    if len(rubric.names) > 1 and len(of_dimensions) > 1:
        *others, last = of_dimensions
        if not any(_is_final(heads[i], bodies[i]) for i in others):
            bodies[last] = bodies[last][: _score_of_the_whole(bodies[last])]
    yield from zip(heads, bodies, strict=True)


def _without_remarks(text: str, heads: Sequence[_Section], rubric: Rubric) -> list[_Section]:
    """The heads but for remarks inside a section that still lacks its score.

    After the last dimension a remark may lead to a score of the whole: there it is the
    section's only if a labelled score follows, as in the sections before.
    """
    kept: list[_Section] = []
    is_labelled = False
    for at, head in enumerate(heads):
        section = kept[-1] if kept else None
        if section is not None and section.dimension and section.tight is None:
            said = of_section(section.dimension, text[section.body : head.start], rubric)
            if head.is_remark and said.reading is None:
                rest = of_section(section.dimension, text[head.start :], rubric)
                is_last = not any(later.dimension for later in heads[at:])
                if not is_last or (is_labelled and rest.reading and rest.rung == LABELLED):
                    continue
            is_labelled |= said.reading is not None and said.rung == LABELLED
        kept.append(head)
    return kept


def _is_final(head: _Section, body: str) -> bool:
    """Whether a dimension's own score is called final."""
    return (head.tight is not None and head.tight.rung == FINAL) or any(
        rung == FINAL for _, _, rung in _places(body)
    )


def _score_of_the_whole(body: str) -> int:
    """Where a line begins that states a final score, or the end.

    Behind the last of several dimensions, of which no other has such a line, it is
    the score of the whole reading.
    """
    finals = {start for start, _, rung in _places(body) if rung == FINAL}
    lines = (m for m in _FINAL_SCORE.finditer(body) if m.end() in finals)
    return next((m.start() for m in lines if "\n" in body[: m.end()]), len(body))


def _merged(tight: Mention | None, section: Mention) -> Mention:
    """The score beside the name and what its section says: the firmer one, or both at odds."""
    if tight is None:
        return section
    reason = section.reason
    if section.reading is None or section.rung == BARE:
        return replace(tight, reason=reason)
    rung = max(tight.rung, section.rung)
    return Mention(tight.dimension, agreed([tight, section]), reason, rung)


def _heads(text: str, rubric: Rubric, is_cut: bool) -> list[_Section]:
    pattern, meaning = name_pattern(rubric)
    heads = [
        _Section(m.start(), m.end(), None, opens_final=True) for m in _FINAL_LINE.finditer(text)
    ]
    final_lines = {head.start for head in heads}
    heads += [
        _Section(m.start(), m.end(), None, is_remark=not _HEADS_ON.match(text, m.end()))
        for m in _BOUNDARY_LINE.finditer(text)
        if m.start() not in final_lines
    ]
    for match in pattern.finditer(text):
        line_start = text.rfind("\n", 0, match.start()) + 1
        line = _before(text, match.start())
        is_line = _MARKS.fullmatch(line) is not None
        start = line_start if is_line else match.start()
        if not is_line and not _CLAUSE_START.search(line):
            continue
        dimension = meaning[folded(match.group())]
        tight = _tight(text, match.end(), dimension or "", rubric, is_cut)
        if tight is not None:
            end = _end_of_score(text, tight.reading.end) if tight.reading else match.end()
            own = tight if dimension else None
            heads.append(_Section(start, end, dimension, own, begins_line=is_line))
        elif (is_line or _MEMBER.match(text, match.end())) and (
            opened := _OPEN.match(text, match.end())
        ):
            heads.append(_Section(start, opened.end(), dimension, begins_line=is_line))
    return sorted(heads, key=lambda head: head.start)


def _end_of_score(text: str, at: int) -> int:
    """Past what closes a score: （90）分."""
    closing = re.compile(r"[*_`\s]*[)）\]】>]+\s*分?").match(text, at)
    return closing.end() if closing else at


def section_span(text: str, dimension: str, rubric: Rubric) -> tuple[int, int] | None:
    """(start, end) of a dimension's first section, its heading included."""
    heads = _heads(text, rubric, is_cut=False)
    for head, following in zip_longest(heads, heads[1:]):
        if head.dimension == dimension:
            return head.start, following.start if following else len(text)
    return None


def _before(text: str, at: int) -> str:
    """The same line up to `at`, its last hundred characters."""
    start = max(at - 100, text.rfind("\n", 0, at) + 1)
    return text[start:at]


def _tight(text: str, at: int, name: str, rubric: Rubric, is_cut: bool) -> Mention | None:
    """The score right beside a dimension's name."""
    for pattern in _TIGHT:
        lead = pattern.match(text, at)
        if lead is None or ("\n" in lead.group() and _LIST_START.match(text, lead.end())):
            continue
        words = SCORE_WORDS.match(text, lead.end())
        start = words.end() if words else lead.end()
        reading = _beside(text, start, rubric)
        total = OTHER_TOTAL.search(text[at:start])
        if reading is not None and total and float(total["total"]) != rubric.highest:
            problem = f"out of {total['total']}, not {rubric.highest:g}"
            reading = Reading(None, problem, reading.end)
        if reading is not None and not (is_cut and _ends_at_cut(text, reading)):
            is_final = IS_FINAL.search(text, at, start) is not None
            return Mention(name, reading, rung=FINAL if is_final else LABELLED)
    return None


def _beside(text: str, start: int, rubric: Rubric) -> Reading | None:
    """The score at `start`, or the one after the colon where that was a weight or total in
    parentheses: 内容（15%）：90."""
    reading = read_score(text, start, rubric)
    if reading is None:
        return None
    colon = re.compile(r"\s*[)）\]】]+[*_`]*\s*[:：]\s*[*_`]*").match(text, reading.end)
    own = read_score(text, colon.end(), rubric) if colon else None
    if own is None or own.value is None or reading.value in (None, rubric.highest):
        return own or reading
    if own.value <= (reading.value or 0) and "%" not in text[start : reading.end]:
        return Reading(None, f"out of {reading.value:g}, not {rubric.highest:g}", own.end)
    return own


def _ends_at_cut(text: str, reading: Reading) -> bool:
    """A reply cut off right after a digit may have meant 90 where 9 stands."""
    return reading.end == len(text) and text[-1:].isdigit()


_LABEL = re.compile(
    rf"(?<![a-zA-Z])(?P<final>(?:{FINAL_WORD})的?\s*)?"
    r"(?:(?:[总综合]{1,2})?(?:评分|得分|分数|打分|给分|评定|判分)|score|rating|grade|verdict)"
    r"(?:结果)?[*_`\"'”’」】\s]*(?:[:：=]|为|是|is\b)" + _OPENERS,
    re.I,
)
_DOUBLE_BRACKETS = re.compile(r"\[\[")
_CHANGED = re.compile(r"(?:改判?[为成]|调整[为至到]|修正为|更正为|[降升下上]调?[为至到])[:：]?\s*")
_CONCLUSION = re.compile(
    r"(?:(?:所以|因此|因而|综上(?:所述)?|综合[^，,。；;\n]{0,6})[，,]?\s*我?(?:还是|只能?|就)?"
    r"(?:给[出予了到]?|打[了出]?|评[定为]?|得)|\b(?:so|therefore|hence),?\s+I\s+give(?:\s+it)?\b)\s*",
    re.I,
)
"""所以我给85分: a verdict, also after one that stands beside the name."""
_LAST = re.compile(
    rf"(?:{FINAL_WORD})(?:[，,]?\s*我)?(?:还是)?(?:给[出予了到]?|打[了出]?|[评定]?[为是]|评|得)?\s*"
    rf"(?=(?:{DIGITS}|{HAN})\s*(?:{UNIT}|/|[，,。；;)）\n]|$))",
    re.I,
)
"""最终给78分: what the judge comes to after its first thoughts."""
_FINAL_SCORE = re.compile(
    rf"^(?:{_MARKS.pattern})(?:(?:因此|所以|故|综上(?:所述)?|总之|therefore|thus|so)[，,]?\s*)?"
    rf"(?:(?:我|本人|my|I)的?\s*)?(?=(?:{FINAL_WORD}))",
    re.I | re.M,
)
# 1、90分 may be the first of a list.
_FROM = rf"(?:(?!\d、){DIGITS}\s*分?\s*(?:{TO}|[和与]|and\b)\s*)?"
_BARE_SCORE = re.compile(
    rf"(?<![\d.\w])(?:{_FROM}{DIGITS}|{HAN})\s*(?:{UNIT}|/|out of)"
    rf"|(?<=[\u4e00-\u9fff])(?<![负零〇一二两三四五六七八九十百]){_FROM}{DIGITS}\s*{UNIT}"
    rf"|(?<=[给打得评为是到]){HAN}\s*{UNIT}|(?<=[（(])\d{{2,3}}(?=\s*[)）])"
)
_NOT_GIVEN = re.compile(
    r"(?:原本|本想|本来|原想|起初|一开始|最初|心目中|上一位|若|如果.*|假如|假设|如能|要是|否则|可以?[给到达得]到?|本[可应该]|还?能[给到达]|不是|而非|并非|"
    r"扣除?了?|减去?了?|[加失丢少差]了?|提[高升]了?|满分|每|及格|高于|低于|超过|不[足到低少]于?|至[少多]|最多|接?近|"
    r"if\b.*|(?:would|could) (?:have|be)\b.*|minus|deduct\w*)[^，,。；;\n]{0,8}$",
    re.I,
)
"""Before a number that is not the score given: a condition, a deduction, a comparison."""
_REASON_LABEL = re.compile(
    r"^(?:[^\S\n]|[*_`\-+•>#。，,；;])*+(?:(?:评分|打分)?(?:理由|原因|评语|说明|解释|点评|依据)|reasons?|reasoning|"
    r"comments?|explanation|rationale)[*_`\s]*[:：][*_`\s]*",
    re.I | re.M,
)


def of_section(dimension: str, body: str, rubric: Rubric, is_cut: bool = False) -> Mention:
    """The score that a section states with the most firmness, and the words around it."""
    found: list[Mention] = []
    spans: list[tuple[int, int]] = []
    for start, at, rung in _places(body):
        words = SCORE_WORDS.match(body, at)
        reading = read_score(body, words.end() if words and rung != BARE else at, rubric)
        if reading is None or (is_cut and _ends_at_cut(body, reading)):
            continue
        found.append(Mention(dimension, reading, rung=rung))
        if rung != BARE:
            spans.append((start, reading.end))
    reason = _reason(body, spans)
    if not found:
        return Mention(dimension, None, reason)
    return Mention(dimension, agreed(found), reason, max(m.rung for m in found))


def _places(body: str) -> Iterator[tuple[int, int, int]]:
    """(start, where the score begins, rung) of every place in a section that may state one."""
    for match in _LABEL.finditer(body):
        yield match.start(), match.end(), FINAL if match["final"] else LABELLED
    for match in _CONCLUSION.finditer(body):
        yield match.start(), match.end(), LABELLED
    for match in _LAST.finditer(body):
        yield match.start(), match.end(), FINAL
    for match in _DOUBLE_BRACKETS.finditer(body):
        yield match.start(), match.end(), LABELLED
    for match in _CHANGED.finditer(body):
        if not _NOT_GIVEN.search(_before(body, match.start())[-12:]):
            yield match.start(), match.end(), CHANGED
    for match in _BARE_SCORE.finditer(body):
        clause = re.split(r"[，,。；;]", _before(body, match.start()))[-1]
        if not _NOT_GIVEN.search(clause):
            yield match.start(), match.start(), BARE


_AROUND_REASON = " *_`#>|-+•·,，。;；:：、\"'“”{}[]()（）<>/"


def _reason(body: str, spans: Sequence[tuple[int, int]]) -> str:
    """A section's words without its score labels and list marks, on one line."""
    for start, end in sorted(spans, reverse=True):
        body = body[:start] + body[end:]
    words = _REASON_LABEL.sub("", body)
    words = re.sub(r"\s+", " ", unmasked(words))
    words = words.strip(_AROUND_REASON)
    return words if re.search(r"[^\W\d_]{2}", words) else ""


# --- what is left -------------------------------------------------------------------


def loose_block(text: str, rubric: Rubric, is_cut: bool) -> Block:
    """Prose: sentences that hold one dimension and one score (在内容方面……我给90分), or else
    what stands from one dimension's name to the next's."""
    if len(rubric.names) == 1:
        return Block(0)
    pattern, meaning = name_pattern(rubric)
    for pieces in (_sentences(text, pattern), _stretches(text, pattern)):
        block = Block(0)
        for piece in pieces:
            names = {meaning[folded(m.group())] for m in pattern.finditer(piece)} - {None}
            if len(names) == 1:
                block.mentions.append(of_section(str(names.pop()), piece, rubric, is_cut))
        if block.readings():
            return block
    return Block(0)


def _stretches(text: str, names: re.Pattern[str]) -> Iterator[str]:
    """From each name at the head of a clause to the next such name."""
    found = [match.start() for match in names.finditer(text)]
    starts = [at for at in found if _CLAUSE_START.search(_before(text, at))]
    for start, end in zip_longest(starts, starts[1:]):
        yield text[start:end]


def _sentences(text: str, names: re.Pattern[str]) -> Iterator[str]:
    """Sentences, and clauses of those that name more than one dimension."""
    for sentence in re.split(r"[。！？!?；;\n]", text):
        if len(names.findall(sentence)) > 1:
            yield from re.split(r"[，,、]", sentence)
        else:
            yield sentence


_BEFORE_NAME = (
    rf"(?:^|(?<=[，,；;、。\n]))[\s*\-•#>]*我?给?\s*"
    rf"(?P<score>(?:{DIGITS}\s*{TO}\s*)?(?:{DIGITS}\s*(?:{UNIT}|/\s*\d+|%)?|{HAN}\s*分))"
)
_TO_NAME = r"[*_]*(?:[ \t]*(?:给|[（(|:：]|[-–—]+)[ \t]*|[ \t]+)[*_《【“]*"
_LIKE_A_LIST = r"[*_]*\s*[，,、:：|\n]?\s*[*_《【“]*"
"""Between scores and names that take turns from a reply's first score to its last name."""


def scores_before_names(text: str, rubric: Rubric, is_cut: bool) -> list[Block] | str:
    """80分给内容，81分给语言: each dimension's score before its name, or a complaint.

    Read as others are, every score would go to the name before it.
    """
    if len(rubric.names) == 1:
        return []
    names, meaning = name_pattern(rubric)
    named = rf"(?P<name>{names.pattern})(?:维度|方面)?{_CLOSERS}"
    ends = r"(?=\s*(?:$|[，,；;、。\n]|[:：](?!\s*\d)))"
    pairs = list(re.finditer(_BEFORE_NAME + _TO_NAME + named + ends, text, re.I))
    if len(pairs) < 2:
        pairs = list(re.finditer(_BEFORE_NAME + _LIKE_A_LIST + named + ends, text, re.I))
        covered = "".join(pair.group() for pair in pairs)
        if len(covered) < len(re.sub(r"\s*[，,；;、。\n]\s*", "", text)):
            return []
    said = {meaning[folded(pair["name"])]: pair["score"] for pair in pairs}
    numbered = [pair["score"] for pair in pairs] == [str(n + 1) for n in range(len(pairs))]
    if len(pairs) < 2 or numbered:
        return []
    has_more = re.search(rf"(?:{names.pattern}){_CLOSERS}\s*[:：=]\s*\d", text, re.I)
    if len(said) == len(pairs) and set(said) >= set(rubric.names):
        taken = pairs[-1].end()
        later = section_blocks(masked(text[:taken]) + text[taken:], rubric, is_cut)
        ends_at = [*(pair.start() for pair in pairs), len(text)][1:]
        mentions = [
            Mention(
                str(meaning[folded(pair["name"])]),
                read_score(pair["score"].strip(), 0, rubric),
                _reason(text[pair.end() : end], []),
            )
            for pair, end in zip(pairs, ends_at, strict=True)
        ]
        known = [m for m in mentions if m.dimension in rubric.names]
        return [Block(pairs[0].start(), known), *(later if has_more else [])]
    first = names.search(text)
    if first is not None and first.start() == pairs[0].start("name") and not has_more:
        return "scores before the names, not one for each"
    return []


_ROW = re.compile(rf"\s*{DIGITS}\s*分?(?:\s*[，,、;；|/\s]\s*{DIGITS}\s*分?)*\s*[。.]?\s*")


def number_row(text: str, rubric: Rubric) -> list[Block] | str:
    """A reply that is nothing but numbers: exactly one a dimension, or a complaint."""
    if _ROW.fullmatch(text) is None:
        return []
    numbers = re.findall(DIGITS, text)
    if len(numbers) != len(rubric.names):
        return f"{len(numbers)} numbers for {len(rubric.names)} dimensions"
    readings = [read_score(number, 0, rubric) for number in numbers]
    pairs = zip(rubric.names, readings, strict=True)
    return [Block(0, [Mention(name, reading) for name, reading in pairs])]
