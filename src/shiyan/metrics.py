"""Numbers one can defend: estimates with intervals, and the files that hold them.

A detector's metrics rest on labels and scores of poems, grouped by the human
poem that they belong to. Every interval comes from one matrix of resampled
group weights: what a resample does to a metric is then a product of matrices,
and two detectors (or two subsets) are compared on the very same resamples.

Axes: B resamples, G groups, n poems, H human poems.
"""

import json
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shiyan.jsonl import replacing

Floats = NDArray[np.float64]
Labels = NDArray[np.int_]
Weights = NDArray[np.float32]


# --- estimates ----------------------------------------------------------------------


@dataclass(frozen=True)
class Estimate:
    """A number, its 95 % interval, and what it rests on.

    Attributes:
        value: the estimate; None where there is none, with `reason`.
        low, high: the ends of the 95 % interval; None where there is none.
        n: how many items the value was computed from.
        n_unscored: how many items have no score and are not in `n`.
        reason: why there is no value or no interval, or what limits it.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    n_unscored: int = 0
    reason: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """As it stands in metrics/*.json; non-finite numbers are None there."""
        fields = {
            "value": finite_or_none(self.value),
            "low": finite_or_none(self.low),
            "high": finite_or_none(self.high),
        }
        counts: dict[str, Any] = {"n": self.n, "n_unscored": self.n_unscored}
        return fields | counts | ({"reason": self.reason} if self.reason else {})


def finite_or_none(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


def write_metrics(path: Path, metrics: Mapping[str, Any], levels: int = 99) -> None:
    """Write a metrics file in one rename.

    Args:
        levels: of nesting that are spread over lines; what is deeper stands on one.

    Raises:
        ValueError: a NaN or an infinity, which is no JSON and no number to defend.
    """
    with replacing(path) as file:
        file.write(_spread(metrics, levels) + "\n")


def _spread(value: Any, levels: int, margin: str = "") -> str:
    if not isinstance(value, Mapping) or not value or not levels:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    deeper = margin + "  "
    lines = (
        f"{deeper}{json.dumps(str(key), ensure_ascii=False)}: {_spread(inner, levels - 1, deeper)}"
        for key, inner in value.items()
    )
    return "{\n" + ",\n".join(lines) + f"\n{margin}}}"


# --- the bootstrap over groups ------------------------------------------------------


@dataclass(frozen=True)
class Draws:
    """Resamples of whole groups: a human poem and its imitations come and go together.

    Attributes:
        groups: the group ids, in the order of the columns.
        resampled: how often each resample holds each group; (B, G).
    """

    groups: tuple[str, ...]
    resampled: Weights

    @classmethod
    def of(cls, groups: Iterable[str], resamples: int, seed: int) -> Self:
        """Draw with replacement from the distinct groups; their order does not matter."""
        names = tuple(sorted(set(groups)))
        if not names:
            return cls(names, np.zeros((resamples, 0), np.float32))
        rng = np.random.default_rng(seed)
        counts = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), size=resamples)
        return cls(names, counts.astype(np.float32))

    @cached_property
    def weights(self) -> Weights:
        """All groups once, the resamples, and all groups but one each; (1 + B + G, G)."""
        size = len(self.groups)
        whole, left_out = np.ones((1, size)), 1 - np.eye(size)
        return np.concatenate([whole, self.resampled, left_out]).astype(np.float32)

    @cached_property
    def column_of(self) -> dict[str, int]:
        return {name: column for column, name in enumerate(self.groups)}

    def columns(self, groups: Iterable[str]) -> NDArray[np.intp]:
        return np.array([self.column_of[group] for group in groups], np.intp)

    @cached_property
    def exact(self) -> Floats:
        """The weights for sums of numbers that float32 would round; (1 + B + G, G)."""
        return self.weights.astype(np.float64)

    def sums(self, columns: NDArray[np.intp], values: ArrayLike | None = None) -> Floats:
        """Sum of `values` (or the count) over the poems of each row of weights; (1 + B + G,)."""
        weights = None if values is None else np.asarray(values, np.float64)
        totals = np.bincount(columns, weights, minlength=len(self.groups))
        return np.asarray(self.exact @ totals, np.float64)

    def mean(
        self, columns: NDArray[np.intp], values: ArrayLike, kind: "Kind" = "mean"
    ) -> "Sampled":
        """The mean of `values` over poems whose groups are `columns`."""
        return self.ratio(columns, values, None, kind)

    def ratio(
        self,
        columns: NDArray[np.intp],
        values: ArrayLike,
        by: ArrayLike | None,
        kind: "Kind",
    ) -> "Sampled":
        """The sum of `values` over the sum of `by` (or over the count)."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.sampled(self.sums(columns, values) / self.sums(columns, by), kind)

    @cached_property
    def nothing(self) -> "Sampled":
        """A metric without a value on any row."""
        return self.sampled(np.full(len(self.weights), np.nan), "mean")

    def sampled(self, rows: Floats, kind: "Kind", *, lacking: str = "") -> "Sampled":
        """A metric that was computed on every row of the weights; (1 + B + G,)."""
        end = 1 + len(self.resampled)
        return Sampled(float(rows[0]), rows[1:end], rows[end:], kind, lacking=lacking)


Kind = Literal["auroc", "share", "skill", "correlation", "mean", "percentiles"]
"""What an interval must know of a metric: an area under a ROC curve; another number from 0 to 1;
one below 1; one from -1 to 1; one without bounds that matter, as all differences; one whose
resamples tell more than the jackknife: it changes by leaps as groups come and go, or is divided by
what may be near 0."""


@dataclass(frozen=True)
class Sampled:
    """A metric's value, and its values on the rows of one matrix of weights.

    Attributes:
        resampled: on each resample; NaN where it has none there; (B,).
        left_out: without each of the groups; (G,).
        uncovered: why nothing that the resamples tell is an interval, where it is none.
        lacking: what is the matter with a resample that has no value.
        parts: other metrics that this one is made of; of a difference, both sides.
        of_parts: how it follows from their values, where its interval is to follow from theirs;
            it must rise or fall with each of them throughout.
    """

    value: float
    resampled: Floats
    left_out: Floats
    kind: Kind
    uncovered: str = ""
    lacking: str = ""
    parts: tuple["Sampled", ...] = ()
    of_parts: Callable[..., Any] | None = None

    @classmethod
    def without(cls, reason: str, kind: Kind = "mean") -> "Sampled":
        """No value at all."""
        nothing = np.full(0, np.nan)
        return cls(math.nan, nothing, nothing, kind, reason)

    def estimate(self, n: int, n_groups: int, n_unscored: int = 0, note: str = "") -> Estimate:
        """With the 95 % interval; `note` says what limits the number, if anything does."""
        low, high, reason = (
            (None, None, self.uncovered) if self.uncovered else interval(self, n_groups)
        )
        told = "; ".join(part for part in (note, reason) if part)
        return Estimate(finite_or_none(self.value), low, high, n, n_unscored, told or None)

    @classmethod
    def combined(
        cls, function: Callable[..., Any], *parts: "Sampled", kind: Kind = "mean"
    ) -> "Sampled":
        """What a function makes of metrics that were computed on the same draws."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return cls(
                float(function(*(part.value for part in parts))),
                np.asarray(function(*(part.resampled for part in parts)), np.float64),
                np.asarray(function(*(part.left_out for part in parts)), np.float64),
                kind,
                next((part.uncovered for part in parts if part.uncovered), ""),
                next((part.lacking for part in parts if part.lacking), ""),
            )

    @classmethod
    def mean(cls, several: Sequence["Sampled"]) -> "Sampled":
        """Their mean, paired by resample: all were computed on the same draws."""
        found = cls.combined(_average, *several, kind=several[0].kind)
        if not several[0].of_parts:
            return found
        return replace(found, parts=tuple(several), of_parts=_average)

    @classmethod
    def pooled(cls, several: Sequence["Sampled"]) -> "Sampled":
        """Their mean, with the resamples of all: each was computed on draws of its own.

        The left-out groups of all make the mean of the jackknife's variances, since what
        differs among the parts is how the same poems were drawn.
        """
        if len(several) == 1:
            return several[0]
        value = float(np.mean([s.value for s in several]))
        shrunk = [(s.left_out - s.value) / math.sqrt(len(several)) for s in several]
        return cls(
            value,
            np.concatenate([s.resampled for s in several]),
            value + np.concatenate(shrunk),
            several[0].kind,
            next((s.uncovered for s in several if s.uncovered), ""),
        )

    def minus(self, other: "Sampled") -> "Sampled":
        """The paired difference: both were computed on the same draws."""
        found = Sampled.combined(operator.sub, self, other)
        return replace(found, parts=(self, other))

    @property
    def standard_error(self) -> float:
        """By the jackknife over groups; a group without poems of the metric changes nothing."""
        size = len(self.left_out)
        changes = self.left_out - self.value
        return math.sqrt((size - 1) / size * float((changes**2).sum())) if size else math.nan


def _average(*values: Any) -> Any:
    return sum(values) / len(values)


# --- intervals ----------------------------------------------------------------------

BOUNDED = ("auroc", "share")
"""Kinds of metrics from 0 to 1."""
INTERVAL = "95 %, Student's t by the jackknife over"
"""How the intervals of a metrics file were made; of what, the file says."""
MOST_UNDEFINED = 0.01
"""Share of the resamples. An interval from the others is one given that the metric is defined:
of one success among 28, rank correlations with anything left 0 out in 65 % of simulations."""

NEAR_THE_END, FEWEST_NEAR_THE_END = 0.98, 20
"""A difference of AUROCs that both lie above has an interval from so many groups on: with 15 of
them it lay below the true difference in 13 % of simulated corpora."""

Ends = tuple[float | None, float | None, str]
"""Low and high end, or None; and what there is to say."""


def interval(sampled: Sampled, n_groups: int) -> Ends:
    """Ends of the 95 % interval, or None and the reason.

    By the jackknife's standard error and Student's t, a metric from 0 to 1 on the logit scale; at
    0 or 1 the exact interval of a share of the groups, or that of an AUROC by Newcombe.
    `bench/coverage.py` shows what they hold.

    Args:
        n_groups: G, of the class that has fewer.
    """
    value, is_bounded = sampled.value, sampled.kind in BOUNDED
    if not math.isfinite(value):
        return None, None, sampled.lacking
    if n_groups < 2:
        return None, None, f"no interval from {n_groups} group{'s' if n_groups != 1 else ''}"
    if is_bounded and not sampled.of_parts and not TINY < value < 1 - TINY:
        return _at_an_end(sampled.kind, value > 0.5, n_groups)
    if reason := _undefined(sampled):
        return None, None, reason
    if sampled.kind == "percentiles":
        return _percentiles(sampled.resampled, n_groups)
    if sampled.of_parts:
        return _from_parts(sampled, n_groups)
    if n_groups < FEWEST_NEAR_THE_END and _near_the_end(sampled):
        told = f"both AUROCs lie above {NEAR_THE_END:.0%} and there are {n_groups} groups"
        return None, None, f"no interval: {told}, of {FEWEST_NEAR_THE_END} that are needed"
    error = sampled.standard_error
    if error < TINY * max(1.0, abs(value)):
        return None, None, SAME_VALUE
    width = student(_degrees_of_freedom(sampled, n_groups)) * error
    if is_bounded:
        return *_on_logits(value, width), ""
    if sampled.kind == "skill":
        low, high = (1 - (1 - value) * math.exp(d / (1 - value)) for d in (width, -width))
        return low, high, ""
    if sampled.kind == "correlation":
        return *_on_fishers_z(value, width), ""
    return value - width, value + width, ""


def _near_the_end(difference: Sampled) -> bool:
    return bool(difference.parts) and all(
        part.kind == "auroc" and part.value > NEAR_THE_END for part in difference.parts
    )


def _undefined(sampled: Sampled) -> str:
    """Why too many resamples have no value, or an empty string."""
    lacks_value = ~np.isfinite(sampled.resampled)
    why = sampled.lacking or "a class is missing"
    if lacks_value.mean() > MOST_UNDEFINED:
        return f"no interval: in {int(lacks_value.sum()):,} of {len(lacks_value):,} resamples {why}"
    if not np.isfinite(sampled.left_out).all():
        return f"no interval: without one of the groups {why}"
    return ""


TINY = 1e-12
SAME_VALUE = "no interval: every resample gives the same value"


def student(degrees_of_freedom: float) -> float:
    """The 97.5 % point of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees_of_freedom, 0.975))


def _degrees_of_freedom(sampled: Sampled, n_groups: int) -> float:
    """G - 1, and fewer where few groups carry the variance.

    By Satterthwaite's rule from how unequal the groups' squared changes are; of normal changes
    it gives G.
    """
    squares = (sampled.left_out - sampled.value) ** 2
    mean_square = float(squares.sum()) ** 2 / len(squares)
    unequal = float((squares**2).sum()) - mean_square
    if unequal <= TINY * mean_square:
        return n_groups - 1
    return min(n_groups - 1.0, max(1.0, 2 * mean_square * len(squares) / unequal))


def _on_logits(value: float, width: float) -> tuple[float, float]:
    """value ± width by the delta method on the logit scale."""
    middle, half = math.log(value / (1 - value)), width / (value * (1 - value))
    low, high = (0.5 + 0.5 * math.tanh((middle + d) / 2) for d in (-half, half))
    return low, high


def _on_fishers_z(value: float, width: float) -> tuple[float, float]:
    """The same for a number from -1 to 1, where z = artanh."""
    if abs(value) > 1 - TINY:
        return max(-1.0, value - width), min(1.0, value + width)
    middle, half = math.atanh(value), width / (1 - value**2)
    return math.tanh(middle - half), math.tanh(middle + half)


def _from_parts(sampled: Sampled, n_groups: int) -> Ends:
    """The deviations that the ends of the parts' intervals cause, squared and added.

    With the jackknife's correlations (Zou, 2007: MOVER). It keeps each part's skewness, and knows
    of a part that stands at 0 or 1 that it varies.
    """
    function, values = sampled.of_parts, [part.value for part in sampled.parts]
    assert function is not None
    reached = []
    for index, part in enumerate(sampled.parts):
        low, high, reason = interval(part, n_groups)
        if low is None and reason != SAME_VALUE:
            return None, None, reason
        ends = (low, high) if low is not None else (part.value, part.value)
        reached.append([function(*values[:index], e, *values[index + 1 :]) for e in ends])
    # Whether the metric rises with a part, or falls.
    signs = np.array([1.0 if high >= low else -1.0 for low, high in reached])
    correlations = _correlations(sampled.parts) * np.outer(signs, signs)
    below = sampled.value - np.min(reached, axis=1)
    above = np.max(reached, axis=1) - sampled.value
    # Rounding may leave less than nothing of parts that move as one.
    low, high = (math.sqrt(max(0.0, float(d @ correlations @ d))) for d in (below, above))
    if low + high < TINY:
        return None, None, SAME_VALUE
    ends = sampled.value - low, sampled.value + high
    if sampled.kind in BOUNDED:
        # The sum of squares knows of no limit, the share does.
        ends = max(0.0, ends[0]), min(1.0, ends[1])
    return *ends, ""


def _correlations(parts: Sequence[Sampled]) -> Floats:
    """Of the parts as the jackknife moves them; 0 for one that it does not move."""
    changes = np.stack([part.left_out - part.value for part in parts])
    sizes = np.sqrt((changes**2).sum(axis=1))
    scaled = changes / np.where(sizes > TINY, sizes, np.inf)[:, None]
    found = np.asarray(scaled @ scaled.T, np.float64)
    np.fill_diagonal(found, 1.0)
    return found


def _percentiles(resampled: Floats, n_groups: int) -> Ends:
    """Of the resamples, widened for few groups.

    The plain ones are too narrow by sqrt((G - 1) / G) and more (Hesterberg, 2015, section on the
    expanded percentile interval).
    """
    from scipy.special import ndtr

    finite = resampled[np.isfinite(resampled)]
    if np.ptp(finite) < TINY * max(1.0, float(np.abs(finite).max())):
        return None, None, SAME_VALUE
    tail = float(ndtr(-math.sqrt(n_groups / (n_groups - 1)) * student(n_groups - 1)))
    low, high = np.quantile(finite, [tail, 1 - tail])
    return float(low), float(high), ""


def _at_an_end(kind: Kind, is_one: bool, n_groups: int) -> Ends:
    if kind == "auroc":
        low = newcombe(n_groups, n_groups)
        told = f"at the end of the scale, by Newcombe for {n_groups} groups a class"
        return (low, 1.0, told) if is_one else (0.0, 1 - low, told)
    told = f"at the end of the scale, by Clopper and Pearson for {n_groups} groups"
    return *clopper_pearson(n_groups if is_one else 0, n_groups), told


def newcombe(n_human: int, n_llm: int) -> float:
    """The lower end of the 95 % interval of an AUROC of 1 (Newcombe, 2006, method 5).

    Where 1 lies 1.96 standard errors above; the variance is Hanley and McNeil's with the sizes
    of both classes replaced by their mean in the terms for pairs of pairs.
    """
    low, high = 0.0, 1.0
    z = 1.959963984540054
    pairs = (n_human + n_llm) / 2 - 1
    for _ in range(60):
        area = (low + high) / 2
        inside = 1 + pairs * ((1 - area) / (2 - area) + area / (1 + area))
        error = math.sqrt(area * (1 - area) * inside / (n_human * n_llm))
        low, high = (area, high) if 1 - area > z * error else (low, area)
    return (low + high) / 2


def simultaneous(differences: Sequence[Sampled], n_groups: int) -> list[tuple[float, float] | None]:
    """95 % intervals that hold for all of a family of paired differences at once.

    By the distribution of the largest studentised deviation over the family, on the same
    resamples (max-T; Romano and Wolf, 2005), widened for few groups by Student's t as a single
    interval is. None for a difference that has no interval of its own.
    """
    usable = np.array([interval(d, n_groups)[0] is not None for d in differences], np.bool_)
    found: list[tuple[float, float] | None] = [None] * len(differences)
    if not usable.any():
        return found
    own = [d for d, fits in zip(differences, usable, strict=True) if fits]
    resampled = np.stack([d.resampled for d in own])
    values, errors = (
        np.array(x) for x in zip(*((d.value, d.standard_error) for d in own), strict=True)
    )
    spread = np.nanstd(resampled, axis=1)
    largest = np.nanmax(np.abs(resampled - values[:, None]) / spread[:, None], axis=0)
    widths = errors * _widened(float(np.quantile(largest, 0.95)), n_groups)
    for index, value, width in zip(np.flatnonzero(usable), values, widths, strict=True):
        found[index] = float(value - width), float(value + width)
    return found


def _widened(deviation: float, n_groups: int) -> float:
    """The deviation that Student's t exceeds as rarely as the normal one does this one."""
    from scipy.special import ndtr, stdtrit

    return -float(stdtrit(n_groups - 1, ndtr(-deviation)))


def clopper_pearson(hits: int, n: int) -> tuple[float, float]:
    """The exact 95 % interval of a share of independent items (Clopper and Pearson, 1934)."""
    from scipy.special import betaincinv

    low = betaincinv(hits, n - hits + 1, 0.025) if hits else 0.0
    high = betaincinv(hits + 1, n - hits, 0.975) if hits < n else 1.0
    return float(low), float(high)


def intraclass_correlation(values: Floats, clusters: NDArray[np.intp]) -> float | None:
    """Share of the variance that lies between clusters (one-way analysis of variance, ICC(1)).

    Args:
        values, clusters: (n,).

    Returns:
        At least 0; None with fewer than two clusters, or where no cluster has two items.
    """
    _, index, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
    k, n = len(sizes), len(values)
    if k < 2 or n <= k:
        return None
    means = np.bincount(index, values) / sizes
    between = float((sizes * (means - values.mean()) ** 2).sum() / (k - 1))
    within = float(((values - means[index]) ** 2).sum() / (n - k))
    size = (n - (sizes**2).sum() / n) / (k - 1)
    total = between + (size - 1) * within
    return max(0.0, (between - within) / total) if total > 0 else 0.0


def design_effect(correlation: float | None, clusters: NDArray[np.intp]) -> float | None:
    """How many times fewer independent items n items in clusters are worth (Kish, 1965)."""
    if correlation is None:
        return None
    sizes = np.unique(clusters, return_counts=True)[1]
    return float(1 + ((sizes**2).sum() / sizes.sum() - 1) * correlation)


def mean_estimate(
    values: Sequence[float | None],
    groups: Sequence[str],
    *,
    resamples: int,
    seed: int,
    kind: Kind = "mean",
) -> Estimate:
    """The mean of what was scored, with an interval over groups.

    Args:
        values: one an item; None (or NaN) is unscored: counted, never a zero.
        groups: the group of each item.
    """
    scored = [
        (float(value), group)
        for value, group in zip(values, groups, strict=True)
        if value is not None and math.isfinite(value)
    ]
    missing = len(values) - len(scored)
    if not scored:
        return Estimate(None, None, None, 0, missing, "nothing was scored")
    draws = Draws.of((group for _, group in scored), resamples, seed)
    columns = draws.columns(group for _, group in scored)
    numbers = [value for value, _ in scored]
    sampled = draws.mean(columns, numbers, kind)
    return sampled.estimate(len(scored), len(draws.groups), missing)
