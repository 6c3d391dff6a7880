"""Detectors' metrics: thresholds, ROC curves, calibration, and a cell of any table.

A detector's metrics rest on labels and scores of poems, grouped by the human poem that they
belong to; see `shiyan.metrics` for the resamples.

Axes: B resamples, G groups, n poems, H human poems.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shiyan.metrics import Draws, Floats, Kind, Labels, Sampled, Weights, finite_or_none

CLASSES = ("human", "LLM")
BINS = 10
"""Of the expected calibration error: equally wide, over probabilities 0 … 1."""
NO_INTERVAL_OF_ECE = "no interval: resampling adds to every bin's error; the Brier score has one"
SIMULATIONS = 400
"""Of a calibrated detector's calibration error."""
FINER = 5
"""Parts of a bin, within which its simulated labels take probabilities for equal."""
FEWEST_ERRORS = 2.0
"""Brier score times groups, below which a few poems that are far off decide it: intervals of it
and of the log-loss then held the truth in 83 to 91 % of simulated corpora, above in 92 to 96 %."""
CANDIDATES = 128
"""Cuts at most, out of which a resample of the train poems chooses."""
TOLERANCE = 1e-9
"""For products such as 0.01 * 300, which fall short of 3."""
FEWEST_ACCUSED = 2
"""Human poems that a limit on false positives must let accuse before the bootstrap covers: with
none of them 95 % intervals held the truth in 73 to 78 % of simulated corpora, with 2 in 94 %."""


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
    rule: Literal["youden", "published", "own", "train_fpr"]
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
        found = self.draws.sampled(won / (human * llm), "auroc")
        # Sums of many pairs are rounded in the weights' float32.
        return replace(found, value=auroc(self.labels, self.scores))

    def tpr_at_fpr(self, limit: float) -> Sampled:
        """Highest share of LLM poems found while new human ones are accused at `limit` or less.

        A point of the ROC curve of these very poems, without interpolation. A cut that accuses
        a of n human poems must be expected to accuse (a + 1) / (n + 1) of others.
        """
        human, columns = self._human
        if reason := too_few_human(len(human), limit):
            return Sampled.without(reason, "share")
        allowed = _allowed(len(human), limit)
        total, found = self.weight
        cut = _cuts(self.draws.weights, columns, np.nan_to_num(total), limit)
        hits = (self._above[:, cut].T * self.draws.weights).sum(1, dtype=np.float64)
        sampled = self.draws.sampled(np.where(np.isnan(total), np.nan, hits / found), "quantile")
        uncovered = "" if allowed >= FEWEST_ACCUSED else _too_few(allowed, len(human))
        return replace(sampled, uncovered=uncovered)

    def tpr_at_train_fpr(
        self, train_human: ArrayLike, limit: float, fitted_on: str
    ) -> tuple[Sampled, Sampled]:
        """Rates of true and of false positives by the cut that one can deploy.

        The lowest one of which `limit` or less of new human poems is expected to lie above, by
        the train fold's; what it does to the test fold's is the second rate. No value where the
        train fold's poems are too few to show so low a rate.
        """
        human = np.sort(np.asarray(train_human, np.float64))[::-1]
        if reason := too_few_human(len(human), limit):
            nothing = Sampled.without(f"{fitted_on}: {reason}", "share")
            return nothing, nothing
        cut = np.nextafter(human[_allowed(len(human), limit)], np.inf)
        return self.rates(Threshold(float(cut), "train_fpr", fitted_on))

    # --- by a threshold -------------------------------------------------------------

    def rates(self, threshold: Threshold) -> tuple[Sampled, Sampled]:
        """True and false positive rate at a threshold."""
        true, false = self._rates([threshold.value])
        return self.draws.sampled(true[:, 0], "share"), self.draws.sampled(false[:, 0], "share")

    def _rates(self, cuts: ArrayLike) -> tuple[Floats, Floats]:
        """True and false positive rates on each row of the weights, at each cut."""
        cuts = np.asarray(cuts, np.float64)
        false, true = (self._reached(y, cuts) / self.weight[y][:, None] for y in (0, 1))
        return true, false

    def _reached(self, label: int, cuts: Floats) -> Floats:
        """Poems of a class that score at least a cut, on each row of the weights; (rows, cuts)."""
        mine = self.labels == label
        # Ascending cuts: a poem that reaches the k-th reaches all before it.
        order = np.argsort(cuts, kind="stable")
        reached = np.searchsorted(cuts[order], self.scores[mine], "right")
        size = len(cuts) + 1
        cells = self.columns[mine] * size + reached
        counts = np.bincount(cells, minlength=len(self.draws.groups) * size).reshape(-1, size)
        at_least = counts[:, ::-1].cumsum(1)[:, ::-1][:, 1:]
        found = np.empty((len(self.draws.weights), len(cuts)))
        found[:, order] = self.draws.exact @ at_least
        return found

    def at_threshold(self, threshold: Threshold) -> dict[str, Sampled]:
        """Macro-F1 with equal and with natural class weights, accuracy, AUROC of hard labels."""
        return self._by_rates(self.rates(threshold))

    def at_refitted_threshold(self, train: "Cell") -> dict[str, Sampled]:
        """The same by Youden's threshold of the train poems, whose variance is in the intervals.

        Each resample is one of the test groups by the threshold of one of the train groups. To
        the jackknife over test groups come the deviations that thresholds of resamples cause.

        Args:
            train: on draws of as many resamples.
        """
        cuts, chosen = train.youden_cuts()
        rates = []
        for rows in self._rates(cuts):
            end = 1 + len(self.draws.resampled)
            value = rows[0, chosen[0]]
            resampled = rows[np.arange(1, end), chosen[1:end]]
            moved = (rows[0, chosen[1:end]] - value) / math.sqrt(end - 1)
            left_out = np.concatenate([rows[end:, chosen[0]], value + moved])
            rates.append(Sampled(float(value), resampled, left_out, "share"))
        return self._by_rates((rates[0], rates[1]))

    def youden_cuts(self) -> tuple[Floats, NDArray[np.intp]]:
        """Candidates for a threshold, and which of them each row of the weights chooses.

        The first, infinite, calls all human; the choice of all poems is `Threshold.youden`.
        """
        false, true, scores = roc(self.labels, self.scores)
        best = int(np.argmax(true - false))
        inner = np.arange(1, len(scores) - 1)
        if len(inner) > CANDIDATES:
            inner = np.unique(np.append(np.linspace(1, inner[-1], CANDIDATES).astype(int), best))
            inner = inner[inner > 0]
        cuts = np.array([math.inf, *(_between(scores[i + 1], scores[i]) for i in inner)])
        true, false = self._rates(cuts)
        return cuts, np.argmax(np.nan_to_num(true - false), axis=1)

    def _by_rates(self, rates: tuple[Sampled, Sampled]) -> dict[str, Sampled]:
        human, llm = self.weight
        share = self.draws.sampled(llm / (llm + human), "share")
        more = len(rates[0].left_out) - len(share.left_out)
        share = replace(share, left_out=np.append(share.left_out, np.full(more, share.value)))
        found = {}
        for name, formula in _OF_RATES.items():
            of_two = partial(_with_share, formula, share.value)
            sampled = Sampled.combined(formula, *rates, share, kind="share")
            found[name] = replace(sampled, parts=rates, of_parts=of_two)
        return found

    # --- calibration ----------------------------------------------------------------

    def calibration(self, platt: "Platt") -> dict[str, Sampled]:
        """Brier score, log-loss skill, expected calibration error, classes weighing equally.

        The skill is 1 - log-loss / ln 2: 0 for a probability of a half for all, 1 for certainty
        that is right. The calibration error has no interval: each bin's counts by its size,
        which resampling only adds to. Beside it stand the mean and the 95 % point of what a
        calibrated detector of these probabilities would have (`ece_of_calibrated`, `…_95`).
        """
        probability = platt.probability(self.scores)
        miss = probability - self.labels
        # The logistic loss of the log-odds: the logarithm of a probability of 0 is none.
        log_odds = platt.slope * self.scores + platt.intercept
        loss = np.logaddexp(0, np.where(self.is_llm, -log_odds, log_odds))
        brier = self._balanced_mean(miss**2, "share")
        lost = self._balanced_mean(loss, "mean")
        skill = Sampled.combined(lambda mean: 1 - mean / math.log(2), lost, kind="skill")
        found = {"brier": brier, "log_loss_skill": skill}
        if brier.value * self.n_groups < FEWEST_ERRORS:
            uncovered = _too_few_errors(brier.value, self.n_groups)
            found = {name: replace(own, uncovered=uncovered) for name, own in found.items()}
        return found | self._calibration_error(probability, miss)

    def _calibration_error(self, probability: Floats, miss: Floats) -> dict[str, Sampled]:
        bins = np.minimum((probability * BINS).astype(np.intp), BINS - 1)
        value = np.zeros(BINS)
        for label in (0, 1):
            mine = self.labels == label
            value += np.bincount(bins[mine], miss[mine], minlength=BINS) / mine.sum() / 2
        simulated = errors_of_calibrated(probability, float(self.is_llm.mean()))
        numbers = {
            "ece": np.abs(value).sum(),
            "ece_of_calibrated": simulated.mean(),
            "ece_of_calibrated_95": np.quantile(simulated, 0.95),
        }
        nothing = Sampled.without(NO_INTERVAL_OF_ECE)
        return {name: replace(nothing, value=float(x)) for name, x in numbers.items()}

    def _balanced_mean(self, values: Floats, kind: Kind) -> Sampled:
        """Mean of both classes' means."""
        means = [
            self.draws.sums(self.columns[self.labels == y], values[self.labels == y]) / weight
            for y, weight in enumerate(self.weight)
        ]
        return self.draws.sampled((means[0] + means[1]) / 2, kind)


Formula = Callable[[Any, Any, Any], Any]
_OF_RATES: Mapping[str, Formula] = {
    "macro_f1": lambda true, false, share: _weighted_f1(true, false, 1, 1),
    "macro_f1_unweighted": lambda true, false, share: _weighted_f1(true, false, share, 1 - share),
    "accuracy": lambda true, false, share: share * true + (1 - share) * (1 - false),
    "auroc_from_labels": lambda true, false, share: (1 + true - false) / 2,
}
"""From true and false positive rate and the share of LLM poems."""


def _with_share(formula: Formula, share: float, true: Any, false: Any) -> Any:
    return formula(true, false, share)


def errors_of_calibrated(probability: Floats, share_of_llm: float) -> Floats:
    """Expected calibration errors of a calibrated detector, of simulated labels; (at most 400,).

    Args:
        probability: of an LLM, both classes equally likely beforehand; (n,).
        share_of_llm: of the poems, by which an LLM's poem is likelier than `probability` says.
    """
    cells = np.minimum((probability * BINS * FINER).astype(np.intp), BINS * FINER - 1)
    n = np.bincount(cells, minlength=BINS * FINER)
    mean = np.bincount(cells, probability, minlength=BINS * FINER) / np.maximum(n, 1)
    weighted = mean * share_of_llm
    likely = weighted / (weighted + (1 - mean) * (1 - share_of_llm))
    llm = np.random.default_rng(0).binomial(n, likely, (SIMULATIONS, len(n))).astype(np.float64)
    human = n - llm
    both = (llm.sum(1) > 0) & (human.sum(1) > 0)
    llm, human = llm[both], human[both]
    miss = human * mean / human.sum(1, keepdims=True)
    miss -= llm * (1 - mean) / llm.sum(1, keepdims=True)
    return np.asarray(np.abs(miss.reshape(-1, BINS, FINER).sum(2) / 2).sum(1), np.float64)


def _weighted_f1(true: Any, false: Any, llm: Any, human: Any) -> Floats:
    """Macro-F1 from true and false positive rates and the weight of each class."""
    return macro_f1(true * llm, false * human, (1 - true) * llm, (1 - false) * human)


def too_few_human(n_human: int, limit: float) -> str:
    """Why so many human poems cannot show so low a false-positive rate, or an empty string."""
    needed = math.ceil(1 / limit - TOLERANCE)
    if n_human >= needed:
        return ""
    return f"{n_human} human poems cannot show a rate of {limit:.0%}: {needed} are needed"


def _allowed(n_human: int, limit: float) -> int:
    """Human poems that may be accused, for a rate of `limit` of others to be expected."""
    return math.floor(limit * (n_human + 1) + TOLERANCE) - 1


def _too_few(allowed: int, n_human: int) -> str:
    told = f"{allowed} of {n_human} human poems may be accused"
    return f"no interval: {told}, and resamples cover from {FEWEST_ACCUSED} on"


def _too_few_errors(brier: float, n_groups: int) -> str:
    told = f"a Brier score of {brier:.3f} in {n_groups} groups rests on few poems"
    return f"no interval: {told}, and intervals cover where the product is {FEWEST_ERRORS:g}"


def _cuts(
    weights: Weights, columns: NDArray[np.intp], total: Floats, limit: float
) -> NDArray[np.intp]:
    """The first human poem, from the top, that the limit no longer lets accuse; one a row.

    Only the top is looked at, and more of it where a row accuses hardly anyone there.
    """
    size = min(len(columns), 16 + math.ceil(4 * limit * len(columns)))
    while True:
        accused = weights[:, columns[:size]].cumsum(1)
        beyond = accused > (limit * (total + 1) - 1 + TOLERANCE)[:, None]
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
