"""From detector scores to the numbers, ROC curves and distributions of a stage.

Metrics are of the test fold; thresholds and calibrations come from the train
fold of the same subset. A trained detector's train-fold scores must be
cross-fitted (each poem scored by a model that did not learn from its group):
scores of poems that a model has learnt by heart would put the threshold wrong.
"""

import csv
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiyan.errors import UserError
from shiyan.families import family_of
from shiyan.jsonl import replacing
from shiyan.metrics import (
    CLASSES,
    FEWEST_ACCUSED,
    Cell,
    Draws,
    Estimate,
    Floats,
    Labels,
    Platt,
    Sampled,
    Threshold,
    fewest_groups,
    lacks,
    roc,
)
from shiyan.poem import lines
from shiyan.records import Assignment, DetectorScore, Fold, Poem
from shiyan.splits import subsets_of

FALSE_POSITIVE_RATES = {"tpr_at_fpr_1": 0.01, "tpr_at_fpr_5": 0.05}
AT_THRESHOLD = ("macro_f1", "macro_f1_unweighted", "auroc_from_labels")
CALIBRATED = ("brier", "ece")
FLAT = "a higher score is no likelier an LLM's, so the calibration is flat"
OWN_LABELS = "macro_f1_of_own_labels"
"""Of a trained detector: by the labels that it gives itself, no threshold chosen."""
BORDERS = {"char_ngrams_forest": 0.5}
"""Score above which a trained detector says LLM; 0 of all others, for log odds and margins."""
COMPARED = ("auroc", "macro_f1")
BASELINE = "D1"
"""The subset that every D_i of a generator is compared with."""
WITHOUT_SHORT = "all_of_3_lines_or_more"
METRICS = ("auroc", *AT_THRESHOLD, *FALSE_POSITIVE_RATES, *CALIBRATED)

MADE = {
    "score": "higher: more likely an LLM's",
    "learnt_from": "the whole train fold, also in a subset's cells, whose threshold is its own; "
    "in the report's Tables 2-4 a detector learns from the subset",
    "threshold_rule": "Youden's J on the train fold of the same subset, midway between scores",
    "macro_f1": "classes weigh equally; macro_f1_unweighted: as they occur",
    OWN_LABELS: "by the labels that a trained detector gives itself, no threshold chosen",
    "tpr_at_fpr": "point of the test fold's ROC curve, not interpolated; an interval where "
    f"{FEWEST_ACCUSED} human poems or more may be accused",
    "calibration": "logistic (Platt, 1999) on the train fold; ece: 10 equal bins",
    "interval": "95 %, percentile bootstrap over groups, widened for few groups",
}


Rows = NDArray[np.intp]


@dataclass(frozen=True)
class Evaluation:
    """What detectors achieve.

    Attributes:
        metrics: detector -> subset -> metric -> estimate; subsets as in
            `evaluated_subsets`. Besides estimates: `threshold`, `n_human`, `n_llm`.
        differences: "A - B" -> metric -> estimate, on the test poems that both
            detectors scored and by the same resamples: an interval without 0 says
            which is better.
        roc_rows: detector, false_positive_rate, true_positive_rate; test fold, all.
        distribution_rows: poem_id, detector, label, fold, score; unscored ones are absent.
        notices: what a reader should know before trusting a number.
        made: how the numbers were made.
    """

    metrics: dict[str, dict[str, dict[str, Any]]]
    differences: dict[str, dict[str, Any]]
    roc_rows: list[dict[str, str | float]]
    distribution_rows: list[dict[str, str | float]]
    notices: list[str]
    made: dict[str, str | int]

    def as_metrics(self, made: Mapping[str, Any]) -> dict[str, Any]:
        """The body of a metrics file; `made` adds what the stage knows of its models."""
        return {
            "detectors": self.metrics,
            "differences": self.differences,
            "notices": self.notices,
            "made": {**self.made, **made},
        }


@dataclass(frozen=True)
class Scored:
    """One detector's scores of some poems of one fold, and how many have none."""

    labels: Labels
    scores: Floats
    columns: Rows
    n_unscored: int


@dataclass(frozen=True)
class _Subset:
    """Rows of a table, by fold."""

    name: str
    train: Rows
    test: Rows


@dataclass(frozen=True)
class _Table:
    """Every detector's scores, and what each poem is; NaN is unscored; n poems.

    Attributes:
        labels, is_test, columns: (n,); a column is that of the poem's group in `draws`.
        scores: detector -> (n,).
    """

    poem_ids: tuple[str, ...]
    labels: Labels
    is_test: NDArray[np.bool_]
    columns: Rows
    draws: Draws
    scores: dict[str, Floats]
    row_of: dict[str, int]
    seed: int

    def subset(self, name: str, poem_ids: Iterable[str]) -> _Subset:
        rows = np.sort(np.array([self.row_of[poem_id] for poem_id in poem_ids], np.intp))
        return _Subset(name, rows[~self.is_test[rows]], rows[self.is_test[rows]])

    def of(self, detector: str, rows: Rows) -> Scored:
        scores = self.scores[detector][rows]
        scored = np.isfinite(scores)
        kept = rows[scored]
        return Scored(self.labels[kept], scores[scored], self.columns[kept], int((~scored).sum()))


def evaluate_scores(
    scores: Sequence[DetectorScore],
    poems: Mapping[str, Poem],
    assignments: Mapping[str, Assignment],
    *,
    resamples: int,
    seed: int,
    trained: bool = False,
) -> Evaluation:
    """Every metric of every detector on every subset of the test fold.

    Args:
        trained: the detectors give labels of their own, so that OWN_LABELS means something.

    Raises:
        UserError: a split that leaks, a poem without a fold, a score of an unknown
            poem, or two scores of one poem by one detector.
    """
    from threadpoolctl import threadpool_limits

    refuse_leaks(poems, assignments)
    # The matrices are small: threads would mostly wait for each other.
    with threadpool_limits(1):
        table = _tabled(scores, poems, assignments, resamples, seed)
        return _evaluation(table, poems, trained)


def _evaluation(table: _Table, poems: Mapping[str, Poem], trained: bool) -> Evaluation:
    told = (*METRICS, OWN_LABELS) if trained else METRICS
    made = {key: how for key, how in MADE.items() if trained or key != OWN_LABELS}
    subsets = [table.subset(name, ids) for name, ids in evaluated_subsets(poems).items()]
    metrics: dict[str, dict[str, dict[str, Any]]] = {}
    roc_rows: list[dict[str, str | float]] = []
    notices: list[str] = []
    for detector in table.scores:
        results = {subset.name: _result(table, detector, subset) for subset in subsets}
        metrics[detector] = {name: result.as_dict(told) for name, result in results.items()}
        _put_against_baseline(results, metrics[detector])
        roc_rows += _roc_rows(detector, table.of(detector, subsets[0].test))
        notices += _notices(detector, metrics[detector])
    return Evaluation(
        metrics,
        _differences(table, subsets[0]),
        roc_rows,
        _distribution_rows(table, subsets[0]),
        notices,
        {**made, "resamples": len(table.draws.weights), "seed": table.seed},
    )


def refuse_leaks(poems: Mapping[str, Poem], assignments: Mapping[str, Assignment]) -> None:
    """Stop where a poem and its imitation, or two poems of a group, stand in both folds.

    Raises:
        UserError: names the group and the poem, or the poem that has no fold.
    """
    fold_of: dict[str, Fold] = {}
    for poem in poems.values():
        if poem.poem_id not in assignments:
            raise UserError(f"poem {poem.poem_id!r} has no fold; run the stage split again")
        assignment = assignments[poem.poem_id]
        for group in (f"group {assignment.group_id}", f"family {family_of(poem)}"):
            if fold_of.setdefault(group, assignment.fold) != assignment.fold:
                raise UserError(
                    f"the split leaks: {group!r} stands in train and in test (poem "
                    f"{poem.poem_id!r}); a poem and its imitations must share a fold, "
                    "so run the stage split again"
                )


def evaluated_subsets(poems: Mapping[str, Poem]) -> dict[str, tuple[str, ...]]:
    """Those of `splits.subsets_of`, and all poems without an LLM's of under three lines."""
    found = subsets_of(poems.values())
    short = {p.poem_id for p in poems.values() if p.generation and len(lines(p.text)) < 3}
    if short:
        found[WITHOUT_SHORT] = tuple(p for p in found["all"] if p not in short)
    return found


def _tabled(
    scores: Sequence[DetectorScore],
    poems: Mapping[str, Poem],
    assignments: Mapping[str, Assignment],
    resamples: int,
    seed: int,
) -> _Table:
    """A poem without a record, or whose score is not finite, is unscored."""
    row_of = {poem_id: row for row, poem_id in enumerate(poems)}
    by_detector: dict[str, Floats] = {}
    seen: set[tuple[str, str]] = set()
    for score in scores:
        if score.poem_id not in row_of:
            raise UserError(
                f"{score.detector} scored poem {score.poem_id!r}, which is not among the poems; "
                "score again"
            )
        if (score.detector, score.poem_id) in seen:
            raise UserError(f"{score.detector} scored poem {score.poem_id!r} twice; keep one score")
        seen.add((score.detector, score.poem_id))
        if score.detector not in by_detector:
            by_detector[score.detector] = np.full(len(poems), np.nan)
        if score.score is not None and math.isfinite(score.score):
            by_detector[score.detector][row_of[score.poem_id]] = score.score
    folds = [assignments[poem_id].fold for poem_id in poems]
    groups = [assignments[poem_id].group_id for poem_id in poems]
    draws = Draws.of(
        (group for group, fold in zip(groups, folds, strict=True) if fold == "test"),
        resamples,
        seed,
    )
    return _Table(
        tuple(poems),
        np.array([poem.label for poem in poems.values()], np.int_),
        np.array([fold == "test" for fold in folds], np.bool_),
        # Groups of the train fold are never resampled and have no column.
        np.array([draws.column_of.get(group, -1) for group in groups], np.intp),
        draws,
        by_detector,
        row_of,
        seed,
    )


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

    def estimate(self, metric: str, sampled: Sampled | None) -> dict[str, Any]:
        return self.told(metric, sampled).as_dict()

    def as_dict(self, told: Iterable[str] = METRICS) -> dict[str, Any]:
        return {
            **{name: self.estimate(name, self.sampled.get(name)) for name in told},
            "threshold": self.threshold.as_dict() if self.threshold else self._no_threshold(),
            "n_human": self.n_human,
            "n_llm": self.n - self.n_human,
        }

    def _no_threshold(self) -> dict[str, Any]:
        return {"value": None, "inverted": False, "reason": self.reasons.get("threshold", "")}


def _result(table: _Table, detector: str, subset: _Subset) -> CellResult:
    train, test = (table.of(detector, rows) for rows in (subset.train, subset.test))
    border = BORDERS.get(detector, 0.0)
    return measured(train, test, table.draws, f"train:{subset.name}", border)


def measured(
    train: Scored, test: Scored, draws: Draws, where: str, border: float = 0.0
) -> CellResult:
    """Every metric of the test poems, by a threshold and a calibration of the train poems.

    Args:
        draws: over the groups of the test poems; the train poems' columns are not looked at.
        where: names the train poems.
        border: see BORDERS.
    """
    n_human = int((test.labels == 0).sum())
    n_groups = fewest_groups(test.labels, test.columns)
    result = CellResult(len(test.labels), n_groups, test.n_unscored, n_human)
    if lacking := unusable(train.labels, train.scores):
        needed = (*AT_THRESHOLD, *CALIBRATED, "threshold")
        result.reasons |= dict.fromkeys(needed, f"no threshold, {where}: {lacking}")
    else:
        result.threshold = Threshold.youden(train.labels, train.scores, where)
    if reason := unusable(test.labels, test.scores):
        result.reasons |= dict.fromkeys((*METRICS, OWN_LABELS), reason)
        return result
    cell = Cell(test.labels, test.scores, test.columns, draws)
    result.sampled["auroc"] = cell.auroc()
    # On the border itself scikit-learn and an argmax say human.
    own = Threshold(float(np.nextafter(border, np.inf)), "own", "nothing")
    result.sampled[OWN_LABELS] = cell.at_threshold(own)["macro_f1"]
    for name, limit in FALSE_POSITIVE_RATES.items():
        result.sampled[name] = cell.tpr_at_fpr(limit)
        result.reasons[name] = _resolution(n_human, limit)
    if result.threshold:
        result.sampled |= cell.at_threshold(result.threshold)
        platt = Platt.fit(train.labels, train.scores, where)
        if platt.slope > 0:
            result.sampled |= cell.calibration(platt)
        else:
            result.reasons |= dict.fromkeys(CALIBRATED, f"{where}: {FLAT}")
    return result


def _put_against_baseline(
    results: Mapping[str, CellResult], metrics: dict[str, dict[str, Any]]
) -> None:
    """Beside each subset's metrics, how far they are from D1's (of the same generator)."""
    for subset, result in results.items():
        generator, _, chosen = subset.rpartition("/")
        other = results.get(f"{generator}/{BASELINE}" if generator else BASELINE)
        if other is None or other is result or not re.match(r"D\d", chosen):
            continue
        for metric in COMPARED:
            mine, theirs = result.sampled.get(metric), other.sampled.get(metric)
            if mine and theirs:
                metrics[subset][f"{metric}_minus_{BASELINE}"] = result.estimate(
                    metric, mine.minus(theirs)
                )


def _differences(table: _Table, whole: _Subset) -> dict[str, dict[str, Any]]:
    """Each pair of detectors on the poems that both scored."""
    differences: dict[str, dict[str, Any]] = {}
    computed: dict[tuple[str, bytes], CellResult] = {}
    finite = {detector: np.isfinite(scores) for detector, scores in table.scores.items()}

    def result_of(detector: str, both: NDArray[np.bool_]) -> CellResult:
        key = detector, both.tobytes()
        if key not in computed:
            train, test = (rows[both[rows]] for rows in (whole.train, whole.test))
            computed[key] = _result(table, detector, _Subset(whole.name, train, test))
            computed[key].n_unscored = len(whole.test) - len(test)
        return computed[key]

    for a, b in combinations(table.scores, 2):
        both = finite[a] & finite[b]
        ours, theirs = result_of(a, both), result_of(b, both)
        found = {}
        for metric in COMPARED:
            if metric in ours.sampled and metric in theirs.sampled:
                difference = ours.sampled[metric].minus(theirs.sampled[metric])
                found[metric] = ours.estimate(metric, difference)
            else:
                reason = ours.reasons.get(metric) or theirs.reasons.get(metric)
                found[metric] = Estimate(
                    None, None, None, ours.n, ours.n_unscored, reason
                ).as_dict()
        differences[f"{a} - {b}"] = found
    return differences


def unusable(labels: Labels, scores: Floats) -> str:
    """Why no detector metric can be computed, or an empty string."""
    if reason := lacks(labels, scores):
        return reason
    return f"all {len(scores)} scores are equal" if np.ptp(scores) == 0 else ""


def _resolution(n_human: int, limit: float) -> str:
    """Too few human poems cannot show so low a rate: say which rate it is then."""
    if n_human * limit >= 1:
        return ""
    return f"of {n_human} human poems none may be accused: fewer than {round(1 / limit)}"


def _roc_rows(detector: str, test: Scored) -> list[dict[str, str | float]]:
    if unusable(test.labels, test.scores):
        return []
    false, true, _ = roc(test.labels, test.scores)
    return [
        {"detector": detector, "false_positive_rate": float(f), "true_positive_rate": float(t)}
        for f, t in zip(false, true, strict=True)
    ]


def _distribution_rows(table: _Table, whole: _Subset) -> list[dict[str, str | float]]:
    """The scores that the tables are made of."""
    of_whole = np.zeros(len(table.poem_ids), np.bool_)
    of_whole[np.concatenate([whole.train, whole.test])] = True
    return [
        {
            "poem_id": table.poem_ids[row],
            "detector": detector,
            "label": CLASSES[table.labels[row]],
            "fold": "test" if table.is_test[row] else "train",
            "score": float(scores[row]),
        }
        for detector, scores in table.scores.items()
        for row in np.flatnonzero(np.isfinite(scores) & of_whole).tolist()
    ]


def _notices(detector: str, cells: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """An AUROC under a half and an inverted threshold stand as they are, and are named; so is a
    threshold that there is not."""
    under = [
        f"{subset} {100 * cell['auroc']['value']:.1f}"
        for subset, cell in cells.items()
        if cell["auroc"]["value"] is not None and cell["auroc"]["value"] < 0.5
    ]
    lacking = [why for cell in cells.values() if (why := cell["threshold"].get("reason"))]
    notices = [f"{detector}: {'; '.join(lacking)}"] if lacking else []
    if under:
        notices.append(f"{detector}: AUROC under 50, and left so, on {', '.join(under)}")
    thresholds = {subset: cell["threshold"] for subset, cell in cells.items()}
    useless = [s for s, t in thresholds.items() if t["inverted"] and t["value"] is None]
    if useless:
        notices.append(
            f"{detector}: no threshold of the train fold helps, so every poem is called a "
            f"person's, on {', '.join(useless)}"
        )
    return notices


ROC_COLUMNS = ("detector", "false_positive_rate", "true_positive_rate")
DISTRIBUTION_COLUMNS = ("poem_id", "detector", "label", "fold", "score")


def write_plots(evaluation: Evaluation, roc_path: Path, distributions_path: Path) -> None:
    """Write both CSV files that dvc.yaml plots, each in one rename."""
    write_csv(roc_path, ROC_COLUMNS, evaluation.roc_rows)
    write_csv(distributions_path, DISTRIBUTION_COLUMNS, evaluation.distribution_rows)


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """A CSV file in UTF-8 with a header, written in one rename."""
    with replacing(path) as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
