"""Spearman's rank correlation on bootstrap draws, and its p by permutation."""

import numpy as np
from numpy.typing import NDArray

from shiyan.metrics import Draws, Floats, Sampled


def spearman(first: Floats, second: Floats, columns: NDArray[np.intp], draws: Draws) -> Sampled:
    """Spearman's rank correlation of two scores an item; NaN where one of them is constant."""
    weights = np.asarray(draws.weights[:, columns], np.float64)
    rows = _weighted_spearman(first, second, weights)
    return draws.sampled(rows, "correlation", lacking="one score is constant")


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


def permutation_p(first: Floats, second: Floats, permutations: int, seed: int) -> float:
    """Two-sided p of Spearman's correlation, by permuting one of both; from 1 / (R + 1) to 1.

    It needs no continuous distribution: ties, such as one success among many, are as they are.
    """
    one = np.ones((1, len(first)))
    a, b = (_mid_ranks(values, one)[0] for values in (first, second))
    a, b = a - a.mean(), b - b.mean()
    rng = np.random.default_rng(seed)
    permuted = rng.permuted(np.tile(b, (permutations, 1)), axis=1) @ a
    # Of sums that are equal but for rounding, each is as extreme as the other.
    as_extreme = np.abs(permuted) >= abs(a @ b) * (1 - 1e-9)
    return float((1 + as_extreme.sum()) / (1 + permutations))
