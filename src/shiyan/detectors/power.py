"""What a test fold of some size can show: differences of detectors, and a published cell's error.

No library of numbers is imported here, so that a plan is told at once.
"""

import csv
import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise

LEVELS = (75, 95)
Cell = tuple[str, int, int, int]
"""Metric, level in points, groups of the test fold, LLM poems in each."""


@cache
def detectable_differences() -> dict[Cell, float]:
    """What bench/power.py found, in points, two detectors sharing half of their noise.

    A difference of this size is found in 80 % of corpora at a two-sided 5 %: 2.8 standard
    deviations of the difference of two equally good detectors.
    """
    file = files("shiyan") / "data/power.tsv"
    _, *rows = csv.reader(file.read_text(encoding="utf-8").splitlines(), delimiter="\t")
    return {
        (metric, int(level), int(groups), int(n_llm)): float(points)
        for metric, level, groups, n_llm, points in rows
    }


def smallest_difference(metric: str, level: int, groups: int, llm_a_group: float) -> float:
    """The smallest difference that so many groups detect, in points.

    Interpolated in the logarithms of both sizes; beyond the simulated ones it falls with the
    root of the groups, and of LLM poems no further.

    Args:
        metric: auroc or macro_f1.
        level: one of `LEVELS`, that of both detectors.
        groups: human poems with their imitations, in the test fold.
        llm_a_group: LLM poems of each; an average may be a fraction.

    Raises:
        ValueError: no group, or no LLM poem.
    """
    if groups < 1 or llm_a_group <= 0:
        raise ValueError("a difference needs poems of both classes")
    table = detectable_differences()
    sizes = sorted({cell[2] for cell in table})
    numbers = sorted({cell[3] for cell in table})

    def of_groups(n_llm: int) -> float:
        points = [(size, table[metric, level, size, n_llm]) for size in sizes]
        if groups <= sizes[0]:
            return points[0][1] * math.sqrt(sizes[0] / groups)
        if groups >= sizes[-1]:
            return points[-1][1] * math.sqrt(sizes[-1] / groups)
        return _between(points, groups)

    return _between([(n, of_groups(n)) for n in numbers], llm_a_group)


def _between(points: list[tuple[int, float]], x: float) -> float:
    """Linear between the logarithms; the first or last value outside."""
    x = min(max(x, points[0][0]), points[-1][0])
    for (low, below), (high, above) in pairwise(points):
        if x <= high:
            share = math.log(x / low) / math.log(high / low)
            return math.exp(math.log(below) + share * math.log(above / below))
    return points[-1][1]


def told(groups: int, llm_a_group: float) -> str:
    """One sentence for a plan."""
    found = {
        (metric, level): smallest_difference(metric, level, groups, llm_a_group)
        for metric in ("auroc", "macro_f1")
        for level in LEVELS
    }
    parts = [
        f"of {name} {found[metric, 75]:.0f} points near 75 and {found[metric, 95]:.0f} near 95"
        for metric, name in (("auroc", "AUROC"), ("macro_f1", "macro-F1"))
    ]
    return (
        f"with {groups} human poems in the test fold and {llm_a_group:.3g} LLM poems to each, two "
        f"detectors can be told apart (80 % power, 5 % level) from a difference "
        f"{' or '.join(parts)} on"
    )


# --- a published cell -------------------------------------------------------------------


@dataclass(frozen=True)
class Confusion:
    """How many of n LLM poems were found, and how many of n human ones accused."""

    found: int
    accused: int
    n: int

    @property
    def rates(self) -> tuple[float, float]:
        return self.found / self.n, self.accused / self.n

    @property
    def macro_f1(self) -> float:
        return macro_f1_of(*self.rates)

    @property
    def accuracy(self) -> float:
        return (self.found + self.n - self.accused) / (2 * self.n)


def macro_f1_of(true: float, false: float) -> float:
    """From true and false positive rate, both classes weighing the same."""
    llm = 2 * true / (1 + true + false)
    human = 2 * (1 - false) / ((1 - false) + 1 + (1 - true))
    return (llm + human) / 2


def confusions(macro_f1: float, n: int, accuracy: float | None = None) -> list[Confusion]:
    """All confusion tables of n + n poems with these printed digits.

    Args:
        macro_f1, accuracy: shares, rounded to four decimals as percents with two are.
    """
    return [
        table
        for table in _by_digits(n).get(round(10_000 * macro_f1), ())
        if accuracy is None or abs(table.accuracy - accuracy) <= 0.5e-4 + 1e-9
    ]


@cache
def _by_digits(n: int) -> dict[int, list[Confusion]]:
    """Macro-F1 in hundredths of a percent -> the tables that have it."""
    found: dict[int, list[Confusion]] = {}
    for hits in range(n + 1):
        for accused in range(n + 1):
            table = Confusion(hits, accused, n)
            found.setdefault(round(10_000 * table.macro_f1), []).append(table)
    return found


def interval_of_published(
    macro_f1: float, n: int, accuracy: float | None = None
) -> tuple[float, float] | None:
    """A 95 % interval of a printed macro-F1 of n + n poems; None where no counts give it.

    Wilson's intervals of both rates, their effects squared and added (MOVER); the widest ends
    over all tables with these digits that find more than they accuse, or over all if none does.
    Poems are taken to be independent, which understates the error where poets differ.
    """
    tables = confusions(macro_f1, n, accuracy)
    tables = [t for t in tables if t.found >= t.accused] or tables
    if not tables:
        return None
    ends = [_interval(table) for table in tables]
    return min(low for low, _ in ends), max(high for _, high in ends)


def _interval(table: Confusion) -> tuple[float, float]:
    true, false = table.rates
    value = table.macro_f1
    reached = [
        [macro_f1_of(end, false) for end in _wilson(table.found, table.n)],
        [macro_f1_of(true, end) for end in _wilson(table.accused, table.n)],
    ]
    below = math.hypot(*(max(0.0, value - min(ends)) for ends in reached))
    above = math.hypot(*(max(0.0, max(ends) - value) for ends in reached))
    return max(0.0, value - below), min(1.0, value + above)


def _wilson(hits: int, n: int) -> tuple[float, float]:
    z = 1.959963984540054
    share, scale = hits / n, 1 + z**2 / n
    middle = (share + z**2 / (2 * n)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return max(0.0, middle - half), min(1.0, middle + half)
