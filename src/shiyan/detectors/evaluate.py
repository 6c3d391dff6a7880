"""From detector scores to the numbers, ROC curves and distributions of a stage.

Metrics are of the test fold; thresholds and calibrations come from the train
fold of the same subset. A trained detector's train-fold scores must be
cross-fitted (each poem scored by a model that did not learn from its group):
scores of poems that a model has learnt by heart would put the threshold wrong.
"""

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from shiyan.errors import UserError
from shiyan.jsonl import replacing
from shiyan.metrics import (
    CLASSES,
    Cell,
    Draws,
    Estimate,
    Floats,
    Labels,
    Platt,
    Sampled,
    Threshold,
    lacks,
    roc,
)
from shiyan.records import Assignment, DetectorScore, Fold, Poem

FALSE_POSITIVE_RATES = {"tpr_at_fpr_1": 0.01, "tpr_at_fpr_5": 0.05}
AT_THRESHOLD = ("macro_f1", "macro_f1_unweighted", "auroc_from_labels")
CALIBRATED = ("brier", "ece")
METRICS = ("auroc", *AT_THRESHOLD, *FALSE_POSITIVE_RATES, *CALIBRATED)

MADE = {
    "score": "higher: more likely an LLM's",
    "threshold_rule": "Youden's J on the train fold of the same subset, midway between scores",
    "macro_f1": "classes weigh equally; macro_f1_unweighted: as they occur",
    "tpr_at_fpr": "point of the test fold's ROC curve, not interpolated",
    "calibration": "logistic (Platt, 1999) on the train fold; ece: 10 equal bins",
    "interval": "95 %, percentile bootstrap over groups, widened for few groups",
}


@dataclass(frozen=True)
class Evaluation:
    """What detectors achieve.

    Attributes:
        metrics: detector -> subset -> metric -> estimate; a subset is `all`, a
            generator, a prompt, `generator/prompt`, or all without LLM poems of
            under three lines. Besides estimates: `threshold`, `n_human`, `n_llm`.
        roc_rows: detector, false_positive_rate, true_positive_rate; test fold, all.
        distribution_rows: poem_id, detector, label, fold, score; unscored ones are absent.
        notices: what a reader should know before trusting a number.
        made: how the numbers were made.
    """

    metrics: dict[str, dict[str, dict[str, Any]]]
    roc_rows: list[dict[str, str | float]]
    distribution_rows: list[dict[str, str | float]]
    notices: list[str]
    made: dict[str, str | int]


@dataclass(frozen=True)
class _Scored:
    """One detector's scores of some poems of one fold, and how many have none."""

    labels: Labels
    scores: Floats
    groups: list[str]
    n_unscored: int


@dataclass(frozen=True)
class _Table:
    """Every detector's finite scores by poem, and what each poem is."""

    poems: Mapping[str, Poem]
    assignments: Mapping[str, Assignment]
    scores: dict[str, dict[str, float]] = field(default_factory=dict)

    def of(self, detector: str, fold: Fold, poem_ids: Iterable[str]) -> _Scored:
        """A poem of the fold without a finite score is unscored, whatever the reason."""
        mine = self.scores[detector]
        members = [p for p in poem_ids if self.assignments[p].fold == fold]
        scored = [p for p in members if p in mine]
        return _Scored(
            np.array([self.poems[p].label for p in scored], np.int_),
            np.array([mine[p] for p in scored], np.float64),
            [self.assignments[p].group_id for p in scored],
            len(members) - len(scored),
        )


def evaluate_scores(
    scores: Sequence[DetectorScore],
    poems: Mapping[str, Poem],
    assignments: Mapping[str, Assignment],
    *,
    resamples: int,
    seed: int,
) -> Evaluation:
    """Every metric of every detector on every subset of the test fold.

    Raises:
        UserError: a score of an unknown poem, a poem without a fold, or two scores
            of one poem by one detector.
    """
    table = _tabled(scores, poems, assignments)
    test = [a.group_id for a in assignments.values() if a.fold == "test"]
    draws = Draws.of(test, resamples, seed)
    subsets = subsets_of(poems)
    metrics: dict[str, dict[str, dict[str, Any]]] = {}
    roc_rows: list[dict[str, str | float]] = []
    notices: list[str] = []
    for detector in table.scores:
        metrics[detector] = {
            name: _evaluated(table, detector, name, members, draws)
            for name, members in subsets.items()
        }
        roc_rows += _roc_rows(detector, table.of(detector, "test", subsets["all"]))
        notices += _notices(detector, metrics[detector])
    made: dict[str, str | int] = {**MADE, "resamples": resamples, "seed": seed}
    return Evaluation(metrics, roc_rows, _distribution_rows(table), notices, made)


def subsets_of(poems: Mapping[str, Poem]) -> dict[str, list[str]]:
    """Subset name -> poem ids; every subset holds all human poems as the other class."""
    human = [poem.poem_id for poem in poems.values() if poem.generation is None]
    members: dict[str, list[str]] = {"all": list(poems)}
    written = [(poem.poem_id, poem.generation) for poem in poems.values() if poem.generation]
    generators = sorted({generation.generator for _, generation in written})
    prompts = sorted({generation.prompt_id for _, generation in written}, key=_natural)
    for name in generators:
        members[name] = human + [p for p, g in written if g.generator == name]
    for name in prompts:
        members[name] = human + [p for p, g in written if g.prompt_id == name]
    if len(generators) > 1 and len(prompts) > 1:
        by_cell: dict[str, list[str]] = {}
        for poem_id, g in written:
            by_cell.setdefault(f"{g.generator}/{g.prompt_id}", []).append(poem_id)
        for name in (f"{g}/{p}" for g in generators for p in prompts):
            members[name] = human + by_cell.get(name, [])
    short = {p for p, _ in written if sum(map(bool, poems[p].text.split())) < 3}
    if short:
        members["all_of_3_lines_or_more"] = [p for p in poems if p not in short]
    return members


def _natural(name: str) -> tuple[str, int, str]:
    """P2 before P10."""
    digits = "".join(c for c in name if c.isdigit())
    return name.rstrip("0123456789"), int(digits or 0), name


def _tabled(
    scores: Sequence[DetectorScore],
    poems: Mapping[str, Poem],
    assignments: Mapping[str, Assignment],
) -> _Table:
    if lost := next((p for p in poems if p not in assignments), None):
        raise UserError(f"poem {lost!r} has no fold; run the stage split again")
    table = _Table(poems, assignments)
    seen = set()
    for score in scores:
        if score.poem_id not in poems:
            raise UserError(
                f"{score.detector} scored poem {score.poem_id!r}, which is not among the poems; "
                "score again"
            )
        if (score.detector, score.poem_id) in seen:
            raise UserError(f"{score.detector} scored poem {score.poem_id!r} twice; keep one score")
        seen.add((score.detector, score.poem_id))
        mine = table.scores.setdefault(score.detector, {})
        if score.score is not None and math.isfinite(score.score):
            mine[score.poem_id] = score.score
    return table


def _evaluated(
    table: _Table, detector: str, subset: str, members: Sequence[str], draws: Draws
) -> dict[str, Any]:
    """One cell of a table: metric -> estimate, the threshold, and the classes' sizes."""
    train, test = (table.of(detector, fold, members) for fold in ("train", "test"))
    found: dict[str, Any] = {}
    reason = unusable(test.labels, test.scores)
    cell = Cell(test.labels, test.scores, draws.columns(test.groups), draws)
    n, n_human = len(test.labels), int((test.labels == 0).sum())

    def put(sampled: Mapping[str, Sampled], note: str = "") -> None:
        for name, value in sampled.items():
            found[name] = value.estimate(n, cell.n_groups, test.n_unscored, note).as_dict()

    def lacking(names: Iterable[str], why: str) -> None:
        for name in names:
            found[name] = Estimate(None, None, None, n, test.n_unscored, why).as_dict()

    where = f"train:{subset}"
    train_reason = unusable(train.labels, train.scores)
    if reason:
        lacking(METRICS, reason)
    else:
        put({"auroc": cell.auroc()})
        for name, limit in FALSE_POSITIVE_RATES.items():
            put({name: cell.tpr_at_fpr(limit)}, _resolution(n_human, limit))
    threshold: dict[str, Any] | None = None
    if train_reason:
        if not reason:
            lacking((*AT_THRESHOLD, *CALIBRATED), f"no threshold: {where}: {train_reason}")
    else:
        youden = Threshold.youden(train.labels, train.scores, where)
        threshold = youden.as_dict()
        if not reason:
            put(cell.at_threshold(youden))
            put(cell.calibration(Platt.fit(train.labels, train.scores, where)))
    ordered = {name: found[name] for name in METRICS}
    return {**ordered, "threshold": threshold, "n_human": n_human, "n_llm": n - n_human}


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


def _roc_rows(detector: str, test: _Scored) -> list[dict[str, str | float]]:
    if unusable(test.labels, test.scores):
        return []
    false, true, _ = roc(test.labels, test.scores)
    return [
        {"detector": detector, "false_positive_rate": float(f), "true_positive_rate": float(t)}
        for f, t in zip(false, true, strict=True)
    ]


def _distribution_rows(table: _Table) -> list[dict[str, str | float]]:
    return [
        {
            "poem_id": poem_id,
            "detector": detector,
            "label": CLASSES[table.poems[poem_id].label],
            "fold": table.assignments[poem_id].fold,
            "score": score,
        }
        for detector, scores in table.scores.items()
        for poem_id, score in scores.items()
    ]


def _notices(detector: str, cells: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """An AUROC under a half and an inverted threshold stand as they are, and are named."""
    notices = []
    for subset, cell in cells.items():
        value = cell["auroc"]["value"]
        if value is not None and value < 0.5:
            notices.append(
                f"{detector} on {subset}: AUROC {100 * value:.1f} is under 50 and stays so"
            )
        if cell["threshold"] and cell["threshold"]["inverted"]:
            notices.append(
                f"{detector} on {subset}: no threshold of the train fold helps, "
                "so every poem is called a person's"
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
