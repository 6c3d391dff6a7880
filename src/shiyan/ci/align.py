"""Which lines of a text answer to which lines of a form, where they do not match.

A bounded edit distance over lines: a pair of lines costs the difference of their
lengths; a break too few or too many costs 1 (nothing at a caesura or a 、); a line
that is missing or one too many costs its characters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

MAX_UNITS = 150
"""Lines of a text that are compared at most; the longest form has 56."""

Kind = Literal["pair", "join", "split", "missing", "extra"]


@dataclass(frozen=True)
class Step:
    """One step of an alignment: `taken` text lines answer to `wanted` form lines.

    Attributes:
        kind: pair 1:1, join 1:2 (a break missing), split 2:1 (a break too many),
            missing 0:1, extra 1:0.
        text, form: index of the first line of each.
    """

    kind: Kind
    text: int
    form: int

    @property
    def taken(self) -> int:
        return {"pair": 1, "join": 1, "split": 2, "missing": 0, "extra": 1}[self.kind]

    @property
    def wanted(self) -> int:
        return {"pair": 1, "join": 2, "split": 1, "missing": 1, "extra": 0}[self.kind]


@dataclass(frozen=True)
class Alignment:
    """The cheapest way from a text to a form.

    Attributes:
        distance: what it costs; where there are no steps, more than the limit.
        n_compared: comparisons of lines that were made.
    """

    distance: int
    steps: tuple[Step, ...]
    n_compared: int


def align(
    text: Sequence[int],
    soft: Sequence[bool],
    form: Sequence[int],
    caesura: Sequence[bool],
    limit: int | None = None,
) -> Alignment:
    """Align line lengths; without steps where the distance exceeds `limit`.

    Args:
        text: lengths of the text's lines, at most MAX_UNITS.
        soft: the break after the line is a 、.
        form: lengths of the form's lines.
        caesura: the form's line ends in a caesura (读), whose break may be left out.

    Equal lines at both ends are taken as pairs before anything is compared, and of
    ways that cost the same, the one that pairs lines early is taken.
    """
    head = 0
    while head < min(len(text), len(form)) and text[head] == form[head]:
        head += 1
    tail = 0
    while tail < min(len(text), len(form)) - head and text[-1 - tail] == form[-1 - tail]:
        tail += 1
    m, n = len(text) - head - tail, len(form) - head - tail
    a, b = text[head : head + m], form[head : head + n]
    softs, caesuras = soft[head : head + m], caesura[head : head + n]
    # costs[i][j]: from text line i and form line j to the end of both. Plain comparisons
    # instead of min() halve the time of the checker's slowest part.
    costs = [[0] * (n + 1) for _ in range(m + 1)]
    for j in range(n - 1, -1, -1):
        costs[m][j] = costs[m][j + 1] + b[j]
    for i in range(m - 1, -1, -1):
        row, below, length = costs[i], costs[i + 1], a[i]
        row[n] = lowest = below[n] + length
        two = i + 1 < m
        for j in range(n - 1, -1, -1):
            best = abs(length - b[j]) + below[j + 1]
            cost = b[j] + row[j + 1]
            best = cost if cost < best else best
            cost = length + below[j]
            best = cost if cost < best else best
            if j + 1 < n:
                cost = abs(length - b[j] - b[j + 1]) + (not caesuras[j]) + below[j + 2]
                best = cost if cost < best else best
            if two:
                cost = abs(length + a[i + 1] - b[j]) + (not softs[i]) + costs[i + 2][j + 1]
                best = cost if cost < best else best
            row[j] = best
            lowest = best if best < lowest else lowest
        # A path may jump over one row, never over two.
        if limit is not None and lowest > limit and min(below) > limit:
            return Alignment(limit + 1, (), (m - i + 1) * (n + 1))
    compared = (m + 1) * (n + 1)
    if limit is not None and costs[0][0] > limit:
        return Alignment(costs[0][0], (), compared)
    steps = [Step("pair", k, k) for k in range(head)]
    steps += _steps(a, softs, b, caesuras, costs, head)
    steps += [Step("pair", len(text) - k, len(form) - k) for k in range(tail, 0, -1)]
    return Alignment(costs[0][0], tuple(steps), compared)


def _steps(
    a: Sequence[int],
    softs: Sequence[bool],
    b: Sequence[int],
    caesuras: Sequence[bool],
    costs: Sequence[Sequence[int]],
    offset: int,
) -> list[Step]:
    """The cheapest path through `costs`, pairs first."""
    steps: list[Step] = []
    i = j = 0
    while i < len(a) or j < len(b):
        here = costs[i][j]
        if i < len(a) and j < len(b) and here == abs(a[i] - b[j]) + costs[i + 1][j + 1]:
            step = Step("pair", i + offset, j + offset)
        elif (
            i < len(a)
            and j + 1 < len(b)
            and here == abs(a[i] - b[j] - b[j + 1]) + (not caesuras[j]) + costs[i + 1][j + 2]
        ):
            step = Step("join", i + offset, j + offset)
        elif (
            i + 1 < len(a)
            and j < len(b)
            and here == abs(a[i] + a[i + 1] - b[j]) + (not softs[i]) + costs[i + 2][j + 1]
        ):
            step = Step("split", i + offset, j + offset)
        elif j < len(b) and here == b[j] + costs[i][j + 1]:
            step = Step("missing", i + offset, j + offset)
        else:
            step = Step("extra", i + offset, j + offset)
        steps.append(step)
        i, j = i + step.taken, j + step.wanted
    return steps
