"""How far raters agree with each other, and ranks with ranks; on bootstrap draws."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from shiyan.metrics import Draws, Sampled

Floats = NDArray[np.float64]
ALL_THE_SAME = "every rating is the same: agreement by chance cannot be told from any other"
LEAST_SPREAD = 1e-6
"""Of the mean square: below it, differences are what rounding leaves of equal values."""


def krippendorff_alpha(
    ratings: Mapping[str, Sequence[float]], poem_of: Mapping[str, str], draws: Draws
) -> tuple[Sampled, int]:
    """Krippendorff's alpha for interval data (2004, section 11.3), and over how many items.

    Args:
        ratings: item -> its raters' scores; items of one rater do not count.
        poem_of: item -> the group it is resampled with.

    Returns:
        1: the raters agree; 0: as by chance. NaN where all values are one.
    """
    rated = [value for values in ratings.values() if len(values) > 1 for value in values]
    # Alpha does not depend on where 0 lies, what rounding does to it does.
    middle = float(np.mean(rated)) if rated else 0.0
    paired = {item: np.asarray(v, float) - middle for item, v in ratings.items() if len(v) > 1}
    columns = draws.columns(poem_of[item] for item in paired)
    counts = np.array([len(values) for values in paired.values()])
    sums = np.array([values.sum() for values in paired.values()])
    squares = np.array([np.square(values).sum() for values in paired.values()])
    # Sum over ordered pairs of (x - y)^2 is 2 (m sum x^2 - (sum x)^2).
    within = 2 * (counts * squares - sums**2) / np.maximum(counts - 1, 1)

    def alpha(n: Floats, total: Floats, square: Floats, inside: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            observed = inside / n
            expected = 2 * (n * square - total**2) / (n * (n - 1))
            differ = expected > LEAST_SPREAD * square / n
            return np.asarray(np.where(differ, 1 - observed / expected, np.nan))

    value = alpha(*(np.array(part.sum(), float) for part in (counts, sums, squares, within)))
    resampled = alpha(*(draws.sums(columns, part) for part in (counts, sums, squares, within)))
    return _where_defined(float(value), resampled, "every rating is the same"), len(paired)


def spearman(first: Floats, second: Floats, columns: NDArray[np.intp], draws: Draws) -> Sampled:
    """Spearman's rank correlation of two scores an item; NaN where one of them is constant."""
    weights = np.asarray(draws.weights[:, columns], np.float64)
    whole = np.ones((1, len(first)))
    value = float(_weighted_spearman(first, second, whole)[0])
    return _where_defined(
        value, _weighted_spearman(first, second, weights), "one score is constant"
    )


def _where_defined(value: float, resampled: Floats, why_not: str) -> Sampled:
    """Without an interval where half of the resamples have no value, and with the reason."""
    is_rare = np.isfinite(resampled).sum() < len(resampled) / 2
    return Sampled(value, resampled, f"no interval: in most resamples {why_not}" if is_rare else "")


def _weighted_spearman(first: Floats, second: Floats, weights: Floats) -> Floats:
    """One correlation a row of weights, which say how often each item is there; (B, N) -> (B,)."""
    a, b = _mid_ranks(first, weights), _mid_ranks(second, weights)
    n = weights.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        a = a - (weights * a).sum(axis=1, keepdims=True) / n
        b = b - (weights * b).sum(axis=1, keepdims=True) / n
        covariance = (weights * a * b).sum(axis=1)
        spread = np.sqrt((weights * a**2).sum(axis=1) * (weights * b**2).sum(axis=1))
        return np.asarray(np.where(spread > 1e-9, covariance / spread, np.nan))


def _mid_ranks(values: Floats, weights: Floats) -> Floats:
    """Each item's rank among all copies of all items; ties share the middle one; (B, N)."""
    levels, level_of = np.unique(values, return_inverse=True)
    counts = weights @ (level_of[:, None] == np.arange(len(levels)))
    ranks = np.cumsum(counts, axis=1) - counts + (counts + 1) / 2
    return np.asarray(ranks[:, level_of])
