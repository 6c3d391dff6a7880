"""Detectors' metrics: thresholds, ROC curves, calibration, and a cell of any table.

A detector's metrics rest on labels and scores of poems, grouped by the human poem that they
belong to; see `shiyan.metrics` for the resamples.

Axes: B resamples, G groups, n poems, H human poems.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shiyan.metrics import Draws, Floats, Labels, Sampled, Weights, finite_or_none

CLASSES = ("human", "LLM")
BINS = 10
"""Of the expected calibration error: equally wide, over probabilities 0 … 1."""
NO_INTERVAL_OF_ECE = "no interval: resampling adds to every bin's error; the Brier score has one"
TOLERANCE = 1e-9
"""For products such as 0.01 * 300, which fall short of 3."""
FEWEST_ACCUSED = 5
"""Human poems that a limit on false positives must let accuse before the bootstrap covers: with
1 or 2 of them 95 % intervals held the truth in 85 to 91 % of simulated corpora, with 5 in 93 %."""


# --- thresholds ---------------------------------------------------------------------


@dataclass(frozen=True)
class Threshold:
    """Scores at or above `value` are called LLM-written.

    Attributes:
        value: infinite where no cut does better than calling all human; no poem is then
            called an LLM's.
        rule: how the value was chosen.
        fitted_on: the subset whose scores it was chosen on; never the test fold.
        inverted: human poems scored higher there (AUROC under a half), or no cut helps.
    """

    value: float
    rule: Literal["youden", "published", "own"]
    fitted_on: str
    inverted: bool = False

    @classmethod
    def youden(cls, labels: ArrayLike, scores: ArrayLike, fitted_on: str) -> Self:
        """Maximise true minus false positive rate; midway to the next lower score.

        Raises:
            ValueError: a class is missing, or a score is not finite.
        """
        labels, scores = np.asarray(labels, np.int_), np.asarray(scores, np.float64)
        if reason := lacks(labels, scores):
            raise ValueError(f"{fitted_on}: a threshold needs poems of both classes; {reason}")
        false_rate, true_rate, cuts = roc(labels, scores)
        best = int(np.argmax(true_rate - false_rate))
        # The best cut is never the lowest score: calling all LLM's is no better than none.
        value = _between(cuts[best + 1], cuts[best]) if best else math.inf
        return cls(value, "youden", fitted_on, not best or auroc(labels, scores) < 0.5)

    def predict(self, scores: ArrayLike) -> Labels:
        return (np.asarray(scores, np.float64) >= self.value).astype(np.int_)

    def as_dict(self) -> dict[str, Any]:
        return {
            "value": finite_or_none(self.value),
            "rule": self.rule,
            "fitted_on": self.fitted_on,
            "inverted": self.inverted,
        }


def _between(low: float, high: float) -> float:
    """Midway; `high` where no number lies between, so that `low` stays below."""
    middle = float(low / 2 + high / 2)
    return middle if low < middle else float(high)


def lacks(labels: Labels, scores: Floats | None = None) -> str:
    """Why nothing can be said of these poems, or an empty string.

    Raises:
        ValueError: a score is not finite; the caller counts those as unscored.
    """
    if scores is not None and not np.isfinite(scores).all():
        raise ValueError("a score is NaN or infinite; count it as unscored instead")
    if len(labels) == 0:
        return "no scored poem"
    present = np.unique(labels)
    if len(present) == 1:
        there, missing = CLASSES[present[0]], CLASSES[1 - present[0]]
        return f"one class ({there}, n={len(labels)}), no {missing} poem"
    return ""


def roc(labels: Labels, scores: Floats) -> tuple[Floats, Floats, Floats]:
    """False and true positive rate at each cut, and the cuts.

    From "no poem is an LLM's" (an infinite cut) down to the lowest score, one
    point a distinct score.
    """
    order = np.argsort(-scores, kind="stable")
    ranked, hits = scores[order], labels[order]
    ends = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), len(ranked) - 1)
    true = np.cumsum(hits)[ends] / hits.sum()
    false = (ends + 1 - np.cumsum(hits)[ends]) / (len(hits) - hits.sum())
    return (
        np.concatenate([[0.0], false]),
        np.concatenate([[0.0], true]),
        np.concatenate([[np.inf], ranked[ends]]),
    )


def macro_f1(tp: ArrayLike, fp: ArrayLike, fn: ArrayLike, tn: ArrayLike) -> Floats:
    """Mean of both classes' F1, from counts or any other weights of the confusion table.

    A class of which nothing was found has F1 0, as scikit-learn has it with
    `zero_division=0`; NaN stays NaN.
    """
    tp, fp, fn, tn = (np.asarray(x, np.float64) for x in (tp, fp, fn, tn))
    with np.errstate(invalid="ignore", divide="ignore"):
        llm = np.where(tp == 0, 0.0, 2 * tp / (2 * tp + fp + fn))
        human = np.where(tn == 0, 0.0, 2 * tn / (2 * tn + fp + fn))
    return np.asarray((llm + human) / 2 + 0 * (tp + fp + fn + tn))


def auroc(labels: Labels, scores: Floats) -> float:
    """Chance that an LLM's poem scores above a human one, ties half (Mann-Whitney)."""
    human = np.sort(scores[labels == 0])
    llm = scores[labels == 1]
    wins = np.searchsorted(human, llm, "left") + np.searchsorted(human, llm, "right")
    return float(wins.sum() / (2 * len(human) * len(llm)))


# --- a detector's metrics on some poems ----------------------------------------------


def fewest_groups(labels: Labels, columns: NDArray[np.intp]) -> int:
    """Groups of the class that stands in fewer: no interval is surer than they make it."""
    return min((len(np.unique(columns[labels == y])) for y in np.unique(labels)), default=0)


@dataclass(frozen=True)
class Cell:
    """The scored poems of one detector and one subset, both classes, on given draws.

    Attributes:
        labels: 1 = LLM; (n,).
        scores: finite; (n,).
        columns: the poems' groups as columns of `draws`; (n,).
    """

    labels: Labels
    scores: Floats
    columns: NDArray[np.intp]
    draws: Draws

    @cached_property
    def n_groups(self) -> int:
        return fewest_groups(self.labels, self.columns)

    @cached_property
    def is_llm(self) -> NDArray[np.bool_]:
        return np.asarray(self.labels == 1)

    @cached_property
    def weight(self) -> tuple[Floats, Floats]:
        """Human and LLM poems in each resample; (B,) each, NaN for 0."""
        human, llm = (self.draws.sums(self.columns[self.labels == y]) for y in (0, 1))
        return np.where(human > 0, human, np.nan), np.where(llm > 0, llm, np.nan)

    @cached_property
    def _human(self) -> tuple[Floats, NDArray[np.intp]]:
        """Scores and columns of the human poems, the highest score first; (H,) each."""
        scores, columns = self.scores[~self.is_llm], self.columns[~self.is_llm]
        order = np.argsort(-scores, kind="stable")
        return scores[order], columns[order]

    def _beaten_by(self, side: Literal["left", "right"]) -> Weights:
        """LLM poems of each group above ("left"), or at least level with, each human poem.

        Human poems stand as in `_human`; (G, H).
        """
        human, _ = self._human
        size = len(human) + 1
        rank = len(human) - np.searchsorted(human[::-1], self.scores[self.is_llm], side)
        cells = self.columns[self.is_llm] * size + rank
        counts = np.bincount(cells, minlength=len(self.draws.groups) * size).reshape(-1, size)
        # An LLM poem that is above the human poem of rank r is above all the lower ones.
        return counts.astype(np.float32).cumsum(1)[:, :-1]

    @cached_property
    def _above(self) -> Weights:
        return self._beaten_by("left")

    def auroc(self) -> Sampled:
        """As the function of that name: w' P w / (w' a * w' b) for group weights w.

        P holds, for two groups, how many pairs of an LLM's poem of the one and a human
        poem of the other the LLM's wins.
        """
        wins = (self._above + self._beaten_by("right")) / 2
        columns = self._human[1]
        order = np.argsort(columns, kind="stable")
        present, starts = np.unique(columns[order], return_index=True)
        by_group = np.add.reduceat(wins[:, order], starts, axis=1)
        weights = self.draws.weights
        won = (weights @ by_group * weights[:, present]).sum(1, dtype=np.float64)
        human, llm = self.weight
        return Sampled(auroc(self.labels, self.scores), won / (human * llm))

    def tpr_at_fpr(self, limit: float) -> Sampled:
        """Highest share of LLM poems found while at most `limit` of human ones are accused.

        A point of the ROC curve of these very poems, without interpolation.
        """
        human, columns = self._human
        allowed = math.floor(limit * len(human) + TOLERANCE)
        llm = self.scores[self.is_llm]
        value = float((llm > human[allowed]).mean()) if allowed < len(human) else 1.0
        total, found = self.weight
        cut = _cuts(self.draws.weights, columns, np.nan_to_num(total), limit)
        hits = (self._above[:, cut].T * self.draws.weights).sum(1, dtype=np.float64)
        uncovered = "" if allowed >= FEWEST_ACCUSED else _too_few(allowed, len(human))
        return Sampled(value, np.where(np.isnan(total), np.nan, hits / found), uncovered)

    def rates(self, threshold: Threshold) -> tuple[Sampled, Sampled]:
        """True and false positive rate at a threshold."""
        called = threshold.predict(self.scores) == 1
        rates = []
        for label, weight in ((1, self.weight[1]), (0, self.weight[0])):
            of_class = self.labels == label
            hits = self.draws.sums(self.columns[of_class & called])
            rates.append(Sampled(float(called[of_class].mean()), hits / weight))
        return rates[0], rates[1]

    def at_threshold(self, threshold: Threshold) -> dict[str, Sampled]:
        """Macro-F1 with equal and with natural class weights, and AUROC from hard labels."""
        true, false = self.rates(threshold)
        human, llm = self.weight
        share = float(self.is_llm.mean())
        return {
            "macro_f1": Sampled(
                float(_weighted_f1(true.value, false.value, 1, 1)),
                _weighted_f1(true.resampled, false.resampled, 1, 1),
            ),
            "macro_f1_unweighted": Sampled(
                float(_weighted_f1(true.value, false.value, share, 1 - share)),
                _weighted_f1(true.resampled, false.resampled, llm, human),
            ),
            "accuracy": Sampled(
                share * true.value + (1 - share) * (1 - false.value),
                (llm * true.resampled + human * (1 - false.resampled)) / (llm + human),
            ),
            "auroc_from_labels": Sampled(
                (1 + true.value - false.value) / 2, (1 + true.resampled - false.resampled) / 2
            ),
        }

    def calibration(self, platt: "Platt") -> dict[str, Sampled]:
        """Brier score and expected calibration error, classes weighing equally.

        The latter without an interval: each bin's error counts by its size, which resampling
        only adds to. Of a calibrated detector no percentile interval held the truth.
        """
        probability = platt.probability(self.scores)
        miss = probability - self.labels
        bins = np.minimum((probability * BINS).astype(np.intp), BINS - 1)
        brier = self._balanced_mean(miss**2)
        value = np.zeros(BINS)
        for label in (0, 1):
            mine = self.labels == label
            value += np.bincount(bins[mine], miss[mine], minlength=BINS) / mine.sum() / 2
        ece = float(np.abs(value).sum())
        nothing = np.full(len(self.draws.weights), np.nan)
        return {"brier": brier, "ece": Sampled(ece, nothing, NO_INTERVAL_OF_ECE)}

    def _balanced_mean(self, values: Floats) -> Sampled:
        """Mean of both classes' means."""
        value, resampled = 0.0, np.zeros(len(self.draws.weights))
        for label, weight in enumerate(self.weight):
            mine = self.labels == label
            value += float(values[mine].mean()) / 2
            resampled += self.draws.sums(self.columns[mine], values[mine]) / weight / 2
        return Sampled(value, resampled)


def _weighted_f1(true: Any, false: Any, llm: Any, human: Any) -> Floats:
    """Macro-F1 from true and false positive rates and the weight of each class."""
    return macro_f1(true * llm, false * human, (1 - true) * llm, (1 - false) * human)


def _too_few(allowed: int, n_human: int) -> str:
    told = f"{allowed} of {n_human} human poems may be accused"
    return f"no interval: {told}, and resamples cover from {FEWEST_ACCUSED} on"


def _cuts(
    weights: Weights, columns: NDArray[np.intp], total: Floats, limit: float
) -> NDArray[np.intp]:
    """The first human poem, from the top, that a resample's limit no longer lets accuse; (B,).

    Only the top is looked at, and more of it where a resample accuses hardly anyone there.
    """
    size = min(len(columns), 16 + math.ceil(4 * limit * len(columns)))
    while True:
        accused = weights[:, columns[:size]].cumsum(1)
        beyond = accused > (limit * total + TOLERANCE)[:, None]
        if size == len(columns) or beyond[:, -1].all():
            # Where none is beyond the limit (no human poem was drawn) the last will do.
            return np.where(beyond[:, -1], beyond.argmax(1), size - 1)
        size = len(columns)


@dataclass(frozen=True)
class Platt:
    """From a score to the probability of an LLM, classes equally likely beforehand.

    A logistic curve fitted with Platt's (1999) smoothed targets, so that poems
    that a score parts perfectly still give finite parameters. It never turns a
    detector round: where the best slope is negative it is 0, the probability a half.
    """

    slope: float
    intercept: float
    fitted_on: str

    @classmethod
    def fit(cls, labels: ArrayLike, scores: ArrayLike, fitted_on: str) -> Self:
        """By Newton's method on the weighted log-loss.

        Raises:
            ValueError: a class is missing, or a score is not finite.
        """
        y, s = np.asarray(labels, np.int_), np.asarray(scores, np.float64)
        if reason := lacks(y, s):
            raise ValueError(f"{fitted_on}: a calibration needs poems of both classes; {reason}")
        counts = np.bincount(y, minlength=2)
        target = np.where(y == 1, (counts[1] + 1) / (counts[1] + 2), 1 / (counts[0] + 2))
        weight = 0.5 / counts[y]
        # Squares of the largest numbers would overflow.
        size = float(np.abs(s).max()) or 1.0
        center, scale = (s / size).mean(), (s / size).std() or 1.0
        x = np.stack([(s / size - center) / scale, np.ones_like(s)])
        beta = np.zeros(2)
        loss = _log_loss(beta, x, target, weight)
        for _ in range(100):
            p = _sigmoid(beta @ x)
            gradient = x @ (weight * (p - target))
            curvature = (x * (weight * p * (1 - p))) @ x.T + 1e-12 * np.eye(2)
            step = np.linalg.solve(curvature, gradient)
            while (reached := _log_loss(beta - step, x, target, weight)) > loss + 1e-15:
                step = step / 2
            beta, done = beta - step, loss - reached < 1e-13
            loss = reached
            if done:
                break
        if beta[0] <= 0:
            return cls(0.0, 0.0, fitted_on)
        slope = float(beta[0] / scale / size)
        return cls(slope, float(beta[1] - beta[0] * center / scale), fitted_on)

    def probability(self, scores: ArrayLike) -> Floats:
        return _sigmoid(self.slope * np.asarray(scores, np.float64) + self.intercept)

    def as_dict(self) -> dict[str, Any]:
        return {"slope": self.slope, "intercept": self.intercept, "fitted_on": self.fitted_on}


def _sigmoid(x: Floats) -> Floats:
    return np.asarray(0.5 * (1 + np.tanh(x / 2)))


def _log_loss(beta: Floats, x: Floats, target: Floats, weight: Floats) -> float:
    z = beta @ x
    return float((weight * (np.logaddexp(0, z) - target * z)).sum())
