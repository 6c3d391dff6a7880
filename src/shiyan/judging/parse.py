"""From a judge's reply to one score a dimension, or to the reason why there is none.

The rules, which decide where a reply is not clear:

- The reasoning trace is not the reply; a tag in quotation marks ends none. An echoed
  scale is no score.
- A score counts where it stands with its dimension: on its line, in its section, in
  its table row, under its JSON key. A list number, a count (3处) and a number inside
  a reason are no scores.
- Within a section: 最终评分 outranks 改为, that outranks 评分：, that outranks a bare
  90分. Two that differ on the same rung are two verdicts: unscored.
- A line that states a final score behind the last dimension is about the whole reading
  and scores nothing, unless other dimensions have final scores of their own.
- A later block that names every dimension again is the judge's last verdict and
  replaces what came before. A partial repetition may agree; if it differs and is not
  marked as final, that dimension is unscored. (With a single dimension there is no
  such block: two unmarked verdicts that differ are unscored.) Nor does it replace them
  if the judge says that it is the reader's (读者写道) or that it does not go by it.
- What stands in quotation marks or behind > is no verdict, unless nothing else is.
- Scores that stand before the names (80分给内容) count if every dimension has one.
- A bare row of numbers counts only if it has exactly one a dimension.
- A range, a bound, digits mixed with Han numerals (八十1分), a value off the scale or out
  of another total, and one corrected at once (80分，不对，75分) is unscored.
- Of a reply that was cut off, what stood whole counts; a number at the cut does not.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from shiyan.answers import split_thinking
from shiyan.judging.expression import normalised, without_loops, without_scale
from shiyan.judging.mention import FINAL, Block, agreed
from shiyan.judging.prose import (
    loose_block,
    number_row,
    scores_before_names,
    section_blocks,
    without_quotations,
)
from shiyan.judging.rubric import Rubric
from shiyan.judging.structured import json_blocks, table_blocks


@dataclass(frozen=True)
class Verdict:
    """What one reply says.

    Attributes:
        scores: every dimension of the rubric; None is unscored.
        problems: dimension -> why it is unscored.
        reasons: dimension -> what the judge gave as its reason, where it did.
        repaired: the reply held JSON that strict JSON refuses.
    """

    scores: Mapping[str, float | None]
    problems: Mapping[str, str]
    reasons: Mapping[str, str]
    repaired: bool = False

    @property
    def is_complete(self) -> bool:
        return not self.problems

    @property
    def n_scored(self) -> int:
        return len(self.scores) - len(self.problems)

    @property
    def explanation(self) -> str | None:
        """The problems in one clause, dimensions with the same one together."""
        if not self.problems:
            return None
        if len(set(self.problems.values())) == 1 and len(self.problems) == len(self.scores):
            return next(iter(self.problems.values()))
        together: dict[str, list[str]] = {}
        for dimension, problem in self.problems.items():
            together.setdefault(problem, []).append(dimension)
        return "; ".join(f"{'、'.join(names)}: {problem}" for problem, names in together.items())


def parse_reply(reply: str, rubric: Rubric, *, is_cut: bool = False) -> Verdict:
    """Read a judge's reply.

    Args:
        is_cut: the server stopped at the token limit (finish_reason `length`).

    Returns:
        A verdict with every dimension of the rubric; none is guessed.
    """
    text = without_loops(normalised(split_thinking(reply)[1]))
    if not text.strip():
        reason = "no answer after the reasoning" if reply.strip() else "an empty reply"
        return _unscored(rubric, reason)
    blocks, rest, repaired = json_blocks(text, rubric)
    tables, rest = table_blocks(rest, rubric)
    rest = without_scale(rest, rubric)
    own = without_quotations(rest, rubric, is_scored=bool(blocks or tables))
    found = [*blocks, *tables]
    turned = [] if found else scores_before_names(own, rubric, is_cut)
    if isinstance(turned, str):
        return _unscored(rubric, turned)
    found += turned or section_blocks(own, rubric, is_cut)
    if not any(block.readings() for block in found):
        found = section_blocks(rest, rubric, is_cut)
    blocks = _disputed(sorted(found, key=lambda block: block.start), text)
    if not any(block.readings() for block in blocks):
        row = number_row(text, rubric)
        if isinstance(row, str):
            return _unscored(rubric, row)
        blocks += row or [loose_block(rest, rubric, is_cut)]
    if not any(block.readings() for block in blocks) and _REFUSAL.search(text):
        return _unscored(rubric, "the judge declined to score")
    return _resolved(blocks, rubric, is_cut, repaired)


_ANOTHERS = re.compile(
    r"(?:读者|理解|文中|其中)[^\n。]{0,20}(?:写|藏|注入|夹带|埋|自评|自称|要求|声称|命令)[^\n。]{0,12}\s*$"
)
_REJECTED = re.compile(r"(?:没有|没|未|不)(?:予|作|会|被)?(?:采[用纳]|理会)|作弊|注入")


def _disputed(blocks: Sequence[Block], text: str) -> list[Block]:
    """The blocks, those marked that the judge calls another's or does not go by."""
    starts = [*(block.start for block in blocks), len(text)]
    return [
        replace(block, is_disputed=True)
        if _ANOTHERS.search(text[max(0, block.start - 50) : block.start])
        or _REJECTED.search(text, block.start, end)
        else block
        for block, end in zip(blocks, starts[1:], strict=True)
    ]


_REFUSAL = re.compile(
    r"抱歉|对不起|无法(?:对|为|给|评|打)|不能(?:对|为|给|评|打)|拒绝|不予(?:评|打)|不便(?:评|打)|"
    r"\b(?:sorry|cannot|can't|unable to|decline)\b",
    re.I,
)


def _unscored(rubric: Rubric, reason: str) -> Verdict:
    return Verdict(dict.fromkeys(rubric.names), dict.fromkeys(rubric.names, reason), {})


def _resolved(blocks: Sequence[Block], rubric: Rubric, is_cut: bool, repaired: bool) -> Verdict:
    covering = [b for b in blocks if b.covers(rubric)] if len(rubric.dimensions) > 1 else []
    if covering:
        covering = [b for b in covering if not b.is_disputed] or covering[:1]
        base = next((b for b in reversed(covering) if b.is_final), covering[-1])
        blocks = blocks[blocks.index(base) :]
    scores: dict[str, float | None] = {}
    problems: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for name in rubric.names:
        said = [
            replace(m, rung=FINAL) if block.is_final else m
            for block in blocks
            for m in block.mentions
            if m.dimension == name
        ]
        reading = agreed(said)
        scores[name] = reading.value if reading else None
        if reading is None:
            problems[name] = _absence(bool(said), is_cut)
        elif reading.problem is not None:
            problems[name] = reading.problem
        if reason := next((m.reason for m in said if m.reason), ""):
            reasons[name] = reason
    return Verdict(scores, problems, reasons, repaired)


def _absence(is_named: bool, is_cut: bool) -> str:
    what = "named without a score" if is_named else "no score"
    return f"{what} (the reply was cut off)" if is_cut else what
