"""Numbers one can defend: estimates with intervals, and the files that hold them.

A detector's metrics rest on labels and scores of poems, grouped by the human
poem that they belong to. Every interval comes from one matrix of resampled
group weights: what a resample does to a metric is then a product of matrices,
and two detectors (or two subsets) are compared on the very same resamples.

Axes: B resamples, G groups, n poems, H human poems.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

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
        weights: how often each resample holds each group; (B, G).
    """

    groups: tuple[str, ...]
    weights: Weights

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
    def column_of(self) -> dict[str, int]:
        return {name: column for column, name in enumerate(self.groups)}

    def columns(self, groups: Iterable[str]) -> NDArray[np.intp]:
        return np.array([self.column_of[group] for group in groups], np.intp)

    @cached_property
    def _exact(self) -> Floats:
        """The weights for sums of numbers that float32 would round; (B, G)."""
        return self.weights.astype(np.float64)

    def sums(self, columns: NDArray[np.intp], values: ArrayLike | None = None) -> Floats:
        """Sum of `values` (or the count) over each resample's poems; (B,)."""
        weights = None if values is None else np.asarray(values, np.float64)
        totals = np.bincount(columns, weights, minlength=len(self.groups))
        return np.asarray(self._exact @ totals, np.float64)


@dataclass(frozen=True)
class Sampled:
    """A metric's value, and its value on each resample; NaN where it has none there.

    Attributes:
        uncovered: why percentiles of the resamples are no interval, where they are none.
    """

    value: float
    resampled: Floats
    uncovered: str = ""

    def estimate(self, n: int, n_groups: int, n_unscored: int = 0, note: str = "") -> Estimate:
        """With the 95 % interval; `note` says what limits the number, if anything does."""
        low, high, reason = (
            (None, None, self.uncovered) if self.uncovered else interval(self.resampled, n_groups)
        )
        told = "; ".join(part for part in (note, reason) if part)
        return Estimate(self.value, low, high, n, n_unscored, told or None)

    @classmethod
    def mean(cls, several: Sequence["Sampled"]) -> "Sampled":
        """Their mean, paired by resample: all were computed on the same draws."""
        return cls(
            float(np.mean([s.value for s in several])),
            np.mean([s.resampled for s in several], axis=0),
            next((s.uncovered for s in several if s.uncovered), ""),
        )

    @classmethod
    def pooled(cls, several: Sequence["Sampled"]) -> "Sampled":
        """Their mean, with the resamples of all: each was computed on draws of its own."""
        return cls(
            float(np.mean([s.value for s in several])),
            np.concatenate([s.resampled for s in several]),
            next((s.uncovered for s in several if s.uncovered), ""),
        )

    def minus(self, other: "Sampled") -> "Sampled":
        """The paired difference: both were computed on the same draws."""
        return Sampled(
            self.value - other.value,
            self.resampled - other.resampled,
            self.uncovered or other.uncovered,
        )


def interval(resampled: Floats, n_groups: int) -> tuple[float | None, float | None, str]:
    """Ends of the 95 % percentile interval, or None and the reason.

    The percentiles are widened for few groups by Student's t, since the plain
    ones are too narrow by sqrt((G - 1) / G) and more (Hesterberg, 2015, section
    on the expanded percentile interval).
    """
    from scipy.special import ndtr, stdtrit

    finite = resampled[np.isfinite(resampled)]
    if n_groups < 2:
        return None, None, f"no interval from {n_groups} group{'s' if n_groups != 1 else ''}"
    if len(finite) < len(resampled) / 2:
        return None, None, "no interval: most resamples lack a class"
    if np.ptp(finite) < 1e-12 * max(1.0, float(np.abs(finite).max())):
        return None, None, "no interval: every resample gives the same value"
    tail = float(ndtr(-math.sqrt(n_groups / (n_groups - 1)) * stdtrit(n_groups - 1, 0.975)))
    low, high = np.quantile(finite, [tail, 1 - tail])
    return float(low), float(high), ""


def simultaneous(differences: Sequence[Sampled], n_groups: int) -> list[tuple[float, float] | None]:
    """95 % intervals that hold for all of a family of paired differences at once.

    By the distribution of the largest studentised deviation over the family, on the same
    resamples (max-T; Romano and Wolf, 2005). None for a difference that varies in no resample
    or is not defined on one.
    """
    if not differences or n_groups < 2:
        return [None] * len(differences)
    resampled = np.stack([d.resampled for d in differences])
    values = np.array([d.value for d in differences])
    spread = resampled.std(axis=1, ddof=1) * math.sqrt(n_groups / (n_groups - 1))
    usable = np.isfinite(spread) & (spread > 1e-12)
    if not usable.any():
        return [None] * len(differences)
    deviations = np.abs(resampled[usable] - values[usable, None]) / spread[usable, None]
    width = spread * float(np.quantile(deviations.max(axis=0), 0.95))
    return [
        (float(value - w), float(value + w)) if fits else None
        for value, w, fits in zip(values, width, usable, strict=True)
    ]


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
    values: Sequence[float | None], groups: Sequence[str], *, resamples: int, seed: int
) -> Estimate:
    """The mean of what was scored, with an interval by bootstrap over groups.

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
    sampled = Sampled(float(np.mean(numbers)), draws.sums(columns, numbers) / draws.sums(columns))
    return sampled.estimate(len(scored), len(draws.groups), missing)
