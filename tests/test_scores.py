"""Detection scores against values worked out by hand, by sampling, or by plain loops."""

import math
from itertools import pairwise

import numpy as np
import pytest

from shiyan.detectors import scores
from shiyan.token_statistics import ModelStatistics, PairStatistics

V = 8
ONE_MODEL = (scores.log_likelihood, scores.log_rank, scores.rank, scores.entropy)


def read(p: np.ndarray, targets: list[int]) -> ModelStatistics:
    """From next-token probabilities p, (T + 1, V), the slow and obvious way."""
    steps = range(len(targets))
    own = np.array([p[t, targets[t]] for t in steps])
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.nansum(p * np.log(p), axis=1)
    return ModelStatistics(
        log_prob=np.log(own).astype(np.float32),
        rank=np.array([1 + (p[t] > own[t]).sum() for t in steps], np.float32),
        ties=np.array([(p[t] == own[t]).sum() - 1 for t in steps], np.float32),
        entropy=entropy.astype(np.float32),
        top_log_prob=np.log(p.max(1)).astype(np.float32),
    )


def compared(p: np.ndarray, q: np.ndarray) -> PairStatistics:
    """What p expects of q's texts, the slow and obvious way."""
    mean = (q * np.log(p)).sum(1)
    variance = (q * (np.log(p) - mean[:, None]) ** 2).sum(1)
    return PairStatistics(mean.astype(np.float32), variance.astype(np.float32))


FLAT = np.full((4, V), 1 / V)
UNIFORM = read(FLAT, [1, 2, 3])
LN_V = math.log(V)


def test_a_uniform_model_gives_every_token_one_over_v():
    assert scores.log_likelihood(UNIFORM) == pytest.approx(-LN_V)
    assert scores.entropy(UNIFORM) == pytest.approx(-LN_V)
    assert UNIFORM.ties.tolist() == [V - 1] * 3


def test_by_hand():
    p = np.array([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25], [1 / 3] * 3])
    tokens = read(p, [0, 1])
    assert scores.log_likelihood(tokens) == pytest.approx(-1.5 * math.log(2))
    assert tokens.rank.tolist() == [1, 2]
    assert tokens.ties.tolist() == [0, 1]
    assert scores.rank(tokens) == -1.5
    assert scores.log_rank(tokens) == pytest.approx(-math.log(2) / 2)
    assert scores.lrr(tokens) == pytest.approx(3)
    assert scores.entropy(tokens) == pytest.approx(-1.5 * math.log(2))
    pair = compared(p, p)
    # At each predicted position ln p is -ln 2 or -2 ln 2, half and half.
    surplus = -3 * math.log(2) + 2 * 1.5 * math.log(2)
    assert scores.fast_detectgpt(tokens, pair) == pytest.approx(surplus, abs=1e-6)
    over_all = (2 * 1.5 * math.log(2) + math.log(3)) / 3
    assert scores.binoculars(tokens, pair) == pytest.approx(-1.5 * math.log(2) / over_all)
    assert scores.binoculars_aligned(tokens, pair) == pytest.approx(-1)
    assert scores.dna_detectllm(tokens, pair) == pytest.approx(-2.5 * math.log(2) / 2 / over_all)


@pytest.mark.parametrize("score", [scores.binoculars, scores.binoculars_aligned])
def test_binoculars_is_minus_one_when_observer_and_performer_agree_on_a_uniform_text(score):
    assert score(UNIFORM, compared(FLAT, FLAT)) == pytest.approx(-1)
    assert scores.dna_detectllm(UNIFORM, compared(FLAT, FLAT)) == pytest.approx(-1)


def test_fast_detectgpt_agrees_with_resampling():
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(V), size=(2, 7))
    targets = [0, 1, 2, 3, 4, 5]
    draws = np.stack([rng.choice(V, 200_000, p=q[t]) for t in range(6)], axis=1)
    sampled = np.log(p)[np.arange(6), draws].sum(1)
    text = np.log(p)[np.arange(6), targets].sum()
    expected = (text - sampled.mean()) / sampled.std()
    found = scores.fast_detectgpt(read(p, targets), compared(p, q))
    assert found == pytest.approx(expected, abs=0.02)


def test_shares_among_the_first_choices():
    p = np.tile(np.arange(2000, 0, -1) / np.arange(1, 2001).sum(), (6, 1))
    tokens = read(p, [0, 9, 10, 500, 1999])
    found = [scores.share_among_first(tokens, k) for k in (10, 100, 1000)]
    assert found == pytest.approx([0.4, 0.6, 0.8])


@pytest.mark.parametrize("score", [*ONE_MODEL, scores.lrr])
def test_a_likelier_text_scores_higher(score):
    p = np.tile([0.6, 0.2, 0.1, 0.05, 0.05], (6, 1))
    rather, hardly = read(p, [0, 0, 0, 0, 1]), read(p, [2, 3, 4, 2, 3])
    assert score(rather) >= score(hardly)


def test_a_text_of_first_choices_has_no_lrr():
    with pytest.raises(scores.UnscoredError, match="first choice"):
        scores.lrr(read(np.tile([0.9, 0.1], (3, 1)), [0, 0]))


def test_models_that_leave_no_choice_give_no_ratio():
    sure = PairStatistics(np.zeros(4, np.float32), np.zeros(4, np.float32))
    with pytest.raises(scores.UnscoredError, match="variance is 0"):
        scores.fast_detectgpt(UNIFORM, sure)
    for score in (scores.binoculars, scores.binoculars_aligned, scores.dna_detectllm):
        with pytest.raises(scores.UnscoredError, match="cross-perplexity is 0"):
            score(UNIFORM, sure)


def diversity_by_loops(series: list[float], window: int, bins: int) -> float:
    """The diversity entropy as its paper says it, one window at a time."""
    windows = [series[i : i + window] for i in range(len(series) - window + 1)]
    counts = [0] * bins
    for a, b in pairwise(windows):
        dot = sum(x * y for x, y in zip(a, b, strict=True))
        cosine = dot / (math.hypot(*a) * math.hypot(*b))
        counts[min(int((cosine + 1) / 2 * bins), bins - 1)] += 1
    total = sum(counts)
    shares = [count / total for count in counts if count]
    return -sum(s * math.log(s) for s in shares) / math.log(bins)


@pytest.mark.parametrize(("bins_a_token", "scales"), [(10, 5), (1, 15)])
def test_lastde_agrees_with_plain_loops(bins_a_token, scales):
    rng = np.random.default_rng(1)
    series = -rng.exponential(3.0, 40)
    tokens = ModelStatistics(series.astype(np.float32), *[np.ones(40, np.float32)] * 4)
    values = tokens.log_prob.tolist()
    entropies = []
    for scale in range(1, scales + 1):
        means = [sum(values[i : i + scale]) / scale for i in range(len(values) - scale + 1)]
        entropies.append(diversity_by_loops(means, 3, bins_a_token * len(values)))
    center = sum(entropies) / scales
    spread = math.sqrt(sum((e - center) ** 2 for e in entropies) / (scales - 1))
    expected = sum(values) / len(values) / spread
    assert scores.lastde(tokens, 3, bins_a_token, scales) == pytest.approx(expected, rel=1e-6)


def test_lastde_of_a_short_or_monotonous_text_has_no_value():
    with pytest.raises(scores.UnscoredError, match="fewer than 9 tokens"):
        scores.lastde(read(np.full((8, V), 1 / V), [0] * 7))
    with pytest.raises(scores.UnscoredError, match="equally diverse"):
        scores.lastde(read(np.full((21, V), 1 / V), [0] * 20))
