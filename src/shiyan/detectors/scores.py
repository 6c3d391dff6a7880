"""The zero-shot detection scores, one function a detector.

A score is arithmetic on what one pass of the language models left for each
token; nothing here sees a model, a logit or a tokenizer. A higher score always
means "more likely written by an LLM". All logarithms are natural.

Axes: T predicted tokens; n = T + 1 positions, the one after the last token too.
p is the scoring model (Binoculars: the performer), q the reference (the observer).
"""

import numpy as np
from numpy.typing import NDArray

from shiyan.token_statistics import ModelStatistics, PairStatistics, Row

Floats = NDArray[np.float64]


class UnscoredError(ValueError):
    """A text that has no such score; the message is the reason that is kept."""


# --- one model -------------------------------------------------------------------------


def log_likelihood(p: ModelStatistics) -> float:
    """Mean token log-probability (Solaiman et al., 2019, section 4.1); at most 0."""
    return _mean(p.log_prob)


def rank(p: ModelStatistics) -> float:
    """Negated mean rank, the likeliest token having 1 (Gehrmann et al., 2019, section 3)."""
    return -_mean(p.rank)


def log_rank(p: ModelStatistics) -> float:
    """Negated mean logarithm of the rank (Mitchell et al., 2023, section 5); at most 0."""
    return -_mean(np.log(p.rank))


def lrr(p: ModelStatistics) -> float:
    """Log-likelihood to log-rank ratio (Su et al., 2023, section 3.1); at least 0.

    Raises:
        UnscoredError: every token was the model's first choice, so the log-rank is 0.
    """
    if (p.rank == 1).all():
        raise UnscoredError("every token is the model's first choice")
    return log_likelihood(p) / log_rank(p)


def entropy(p: ModelStatistics) -> float:
    """Negated mean entropy where a token is predicted (Gehrmann et al., 2019, section 3)."""
    return -_mean(p.entropy[:-1])


def share_among_first(p: ModelStatistics, k: int) -> float:
    """Share of tokens among the model's first k choices (GLTR: Gehrmann et al., 2019); 0 to 1."""
    return float((p.rank <= k).mean())


def lastde(p: ModelStatistics, window: int = 3, bins_a_token: int = 10, scales: int = 5) -> float:
    """Log-likelihood over the spread of its diversity entropy (Lastde: Xu et al., 2025, section 4).

    The series of log-probabilities is averaged over 1, 2, … `scales` neighbours; of each
    the diversity entropy says how evenly the cosines of adjacent windows fill
    `bins_a_token` x T bins; the denominator is their standard deviation.

    Raises:
        UnscoredError: too few tokens for the coarsest scale, or no spread.
    """
    series = p.log_prob.astype(np.float64)
    if len(series) < scales + window:
        raise UnscoredError(f"fewer than {scales + window + 1} tokens, which Lastde needs")
    bins = bins_a_token * len(series)
    entropies = [
        _diversity_entropy(_averaged(series, scale), window, bins) for scale in range(1, scales + 1)
    ]
    spread = float(np.std(entropies, ddof=1))
    if spread == 0:
        raise UnscoredError("its log-probabilities are equally diverse at every scale")
    return log_likelihood(p) / spread


def _averaged(series: Floats, scale: int) -> Floats:
    """Means over each `scale` neighbours."""
    sums = np.concatenate([[0.0], series.cumsum()])
    means: Floats = (sums[scale:] - sums[:-scale]) / scale
    return means


def _diversity_entropy(series: Floats, window: int, bins: int) -> float:
    """Entropy of the cosines of adjacent windows over `bins` equal bins of -1 … 1, over ln bins."""
    squares = _in_windows(series * series, window)
    products = _in_windows(series[:-1] * series[1:], window)
    norms = np.sqrt(squares[:-1] * squares[1:])
    cosines = products / np.maximum(norms, np.finfo(np.float32).tiny)
    # The last bin holds its upper end, as in a histogram.
    numbers = np.clip((cosines + 1) / 2 * bins, 0, bins - 1).astype(np.intp)
    counts = np.bincount(numbers)
    shares = counts[counts > 0] / len(cosines)
    return float(-(shares * np.log(shares)).sum() / np.log(bins))


def _in_windows(series: Floats, window: int) -> Floats:
    """Sums over each `window` neighbours."""
    parts = [series[k : len(series) - window + 1 + k] for k in range(window)]
    return np.asarray(sum(parts[1:], start=parts[0]))


# --- two models ------------------------------------------------------------------------


def fast_detectgpt(p: ModelStatistics, pair: PairStatistics) -> float:
    """Conditional probability curvature in closed form (Bao et al., 2024, section 3.2).

    How many standard deviations the text's log-probability lies above that of texts
    drawn token by token from the reference model.

    Raises:
        UnscoredError: the reference model leaves no choice, so the variance is 0.
    """
    variance = _sum(pair.variance[:-1])
    if variance == 0:
        raise UnscoredError("the reference model leaves no choice: its variance is 0")
    return _sum(p.log_prob - pair.expected_log_prob[:-1]) / float(np.sqrt(variance))


def binoculars(p: ModelStatistics, pair: PairStatistics) -> float:
    """Negated log-perplexity over cross-perplexity (Hans et al., 2024, section 3.2).

    As in the authors' code the perplexity is the performer's, and the cross-perplexity
    also averages over the position after the last token; `binoculars_aligned` leaves
    it out.
    """
    return _over(_mean(p.log_prob), -_mean(pair.expected_log_prob))


def binoculars_aligned(p: ModelStatistics, pair: PairStatistics) -> float:
    """`binoculars` with both averages over the same positions."""
    return _over(_mean(p.log_prob), -_mean(pair.expected_log_prob[:-1]))


def dna_detectllm(p: ModelStatistics, pair: PairStatistics) -> float:
    """Negated mutation-repair score (DNA-DetectLLM: Zhu et al., 2025, section 3).

    Half the sum of the text's log-perplexity and that of the performer's first choices,
    over the cross-perplexity, which as in the authors' code also averages over the
    position after the last token.
    """
    both = _mean(p.log_prob) + _mean(p.top_log_prob[:-1])
    return _over(both, -2 * _mean(pair.expected_log_prob))


def _over(numerator: float, cross_perplexity: float) -> float:
    if cross_perplexity == 0:
        raise UnscoredError("observer and performer leave no choice: the cross-perplexity is 0")
    return numerator / cross_perplexity


def _mean(row: Row) -> float:
    return float(row.mean(dtype=np.float64))


def _sum(row: Row) -> float:
    return float(row.sum(dtype=np.float64))
