"""One cell: every metric of a detector on some poems, by a threshold of others.

Reported values come from the `evaluate` module of this project (`hf_metrics`, scikit-learn
inside); the bootstrap computes the same metrics from products of matrices, and each of its
values must equal the module's to 1e-12.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiyan.detectors.metrics import (
    Cell,
    Platt,
    Threshold,
    fewest_groups,
    lacks,
)
from shiyan.metrics import Draws, Estimate, Floats, Labels, Sampled

Rows = NDArray[np.intp]

FALSE_POSITIVE_RATES = {"tpr_at_fpr_1": 0.01, "tpr_at_fpr_5": 0.05}
AT_THRESHOLD = (
    "macro_f1",
    "macro_f1_unweighted",
    "accuracy",
    "auroc_from_labels",
    "true_positive_rate",
)
TRAIN_LIMIT = 0.05
AT_TRAIN_FPR = ("tpr_at_train_fpr_5", "fpr_at_train_fpr_5")
"""Rates by the cut above which 5 % of the train fold's human poems are expected."""
CALIBRATED = ("brier", "log_loss_skill", "ece", "ece_of_calibrated", "ece_of_calibrated_95")
OWN_LABELS = "macro_f1_of_own_labels"
"""Of a trained detector: by the labels that it gives itself, no threshold chosen."""
METRICS = (
    "auroc",
    *AT_THRESHOLD,
    OWN_LABELS,
    *FALSE_POSITIVE_RATES,
    *AT_TRAIN_FPR,
    *CALIBRATED,
)
FLAT = "a higher score is no likelier an LLM's, so the calibration is flat"
NO_OWN_LABELS = "the detector gives no labels of its own"
EXACT = 1e-12
"""Largest difference between the `evaluate` module and the vectorised bootstrap."""


@dataclass(frozen=True)
class Scored:
    """One detector's scores of some poems, and how many have none.

    Attributes:
        labels, scores, columns: (n,); a column is that of the poem's group in the draws.
        own_labels: (n,), NaN where the detector gives none.
    """

    labels: Labels
    scores: Floats
    columns: Rows
    own_labels: Floats
    n_unscored: int = 0


@dataclass
class CellResult:
    """One cell of a table, before its numbers become estimates."""

    n: int
    n_groups: int
    n_unscored: int
    n_human: int
    threshold: Threshold | None = None
    sampled: dict[str, Sampled] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    """Metric -> why it has no value, or what limits it."""

    def of(self, metric: str) -> Estimate:
        """A metric of the cell."""
        return self.told(metric, self.sampled.get(metric))

    def told(self, metric: str, sampled: Sampled | None) -> Estimate:
        """A number that rests on this cell's poems, as one can defend it."""
        reason = self.reasons.get(metric, "")
        if sampled is None:
            return Estimate(None, None, None, self.n, self.n_unscored, reason)
        return sampled.estimate(self.n, self.n_groups, self.n_unscored, reason)

    def counts(self) -> dict[str, Any]:
        """What the cell rests on, beside its estimates."""
        threshold = self.threshold
        return {
            "threshold": threshold.as_dict()
            if threshold
            else {"value": None, "inverted": False, "reason": self.reasons.get("threshold", "")},
            "n_human": self.n_human,
            "n_llm": self.n - self.n_human,
            "n_unscored": self.n_unscored,
        }


def measured(train: Scored, test: Scored, draws: Draws, where: str) -> CellResult:
    """Every metric of the test poems, by a threshold and a calibration of the train poems.

    Args:
        draws: over the groups of the test poems; the train poems' columns are not looked at.
        where: names the train poems.
    """
    n_human = int((test.labels == 0).sum())
    n_groups = fewest_groups(test.labels, test.columns)
    result = CellResult(len(test.labels), n_groups, test.n_unscored, n_human)
    platt = _learn(result, train, where)
    if reason := unusable(test.labels, test.scores):
        result.reasons |= dict.fromkeys(METRICS, reason)
        return result
    cell = Cell(test.labels, test.scores, test.columns, draws)
    result.sampled["auroc"] = cell.auroc()
    _by_own_labels(result, test, draws)
    for name, limit in FALSE_POSITIVE_RATES.items():
        result.sampled[name] = cell.tpr_at_fpr(limit)
    if result.threshold:
        rates = cell.tpr_at_train_fpr(train.scores[train.labels == 0], TRAIN_LIMIT, where)
        result.sampled |= dict(zip(AT_TRAIN_FPR, rates, strict=True))
        result.sampled |= cell.at_threshold(result.threshold)
        result.sampled["true_positive_rate"] = cell.rates(result.threshold)[0]
    if platt:
        result.sampled |= cell.calibration(platt)
    _compare_with_library(result, cell, platt)
    return result


def _learn(result: CellResult, train: Scored, where: str) -> Platt | None:
    """Put the threshold into the cell and return the calibration; a reason where there is none."""
    if lacking := unusable(train.labels, train.scores):
        needed = (*AT_THRESHOLD, *AT_TRAIN_FPR, *CALIBRATED, "threshold")
        result.reasons |= dict.fromkeys(needed, f"no threshold, {where}: {lacking}")
        return None
    result.threshold = Threshold.youden(train.labels, train.scores, where)
    platt = Platt.fit(train.labels, train.scores, where)
    if platt.slope > 0:
        return platt
    result.reasons |= dict.fromkeys(CALIBRATED, f"{where}: {FLAT}")
    return None


def _by_own_labels(result: CellResult, test: Scored, draws: Draws) -> None:
    given = np.isfinite(test.own_labels)
    if reason := lacks(test.labels[given]):
        result.reasons[OWN_LABELS] = reason if given.any() else NO_OWN_LABELS
        return
    cell = Cell(test.labels[given], test.own_labels[given], test.columns[given], draws)
    result.sampled[OWN_LABELS] = cell.at_threshold(Threshold(0.5, "own", "nothing"))["macro_f1"]


def _compare_with_library(result: CellResult, cell: Cell, platt: Platt | None) -> None:
    """Put the `evaluate` module's values into the cell.

    Raises:
        AssertionError: the bootstrap's own value of a metric is another number.
    """
    from shiyan.detectors.hf_metrics import detection_metrics

    called = result.threshold.predict(cell.scores) if result.threshold else None
    probabilities = platt.probability(cell.scores) if platt else None
    for metric, value in detection_metrics(cell.labels, cell.scores, called, probabilities).items():
        ours = result.sampled[metric]
        if not math.isclose(ours.value, value, rel_tol=0, abs_tol=EXACT):
            raise AssertionError(
                f"{metric} is {value!r} by the module of `evaluate` and {ours.value!r} by the "
                "bootstrap; please report this"
            )
        result.sampled[metric] = replace(ours, value=value)


def unusable(labels: Labels, scores: Floats) -> str:
    """Why no detector metric can be computed, or an empty string."""
    if reason := lacks(labels, scores):
        return reason
    return f"all {len(scores)} scores are equal" if np.ptp(scores) == 0 else ""


def difference(cell: CellResult | None, other: CellResult | None, metric: str) -> Sampled | None:
    """A cell's metric minus another's, on the same resamples; None where one has none."""
    if cell is None or other is None:
        return None
    mine, theirs = cell.sampled.get(metric), other.sampled.get(metric)
    return mine.minus(theirs) if mine and theirs else None


def told_difference(cell: CellResult, other: CellResult | None, metric: str) -> Estimate:
    """The same as an estimate; null with the reason of the one that lacks the metric."""
    found = difference(cell, other, metric)
    if found is not None:
        return cell.told(metric, found)
    reason = cell.reasons.get(metric) or (other.reasons.get(metric) if other else None)
    lacking = "there is nothing to compare with" if other is None else "one of both has no value"
    return Estimate(None, None, None, cell.n, cell.n_unscored, reason or lacking)


def mean_over(cells: Iterable[CellResult | None], metric: str, n_unscored: int) -> Estimate:
    """A metric's mean over the cells that have it, paired by resample; says if some lack it.

    The human poems of all cells are the same and count once.
    """
    all_cells = list(cells)
    own = [cell for cell in all_cells if cell and metric in cell.sampled]
    limit = f"the mean is over {len(own)} of {len(all_cells)} generators"
    if not own:
        return Estimate(None, None, None, 0, n_unscored, limit)
    mean = Sampled.mean([cell.sampled[metric] for cell in own])
    n = max(cell.n_human for cell in own) + sum(cell.n - cell.n_human for cell in own)
    n_groups = min(cell.n_groups for cell in own)
    return mean.estimate(n, n_groups, n_unscored, limit if len(own) < len(all_cells) else "")


def estimates(cell: CellResult, metrics: Iterable[str]) -> Mapping[str, Estimate]:
    return {metric: cell.of(metric) for metric in metrics}
