"""Poems of one poet are not independent: what detectors do to whom, and what that costs.

The interval over groups speaks of these poets; the one over poets of poets like them. A
detector that accuses one author of nine poems in ten and another of none is no fair one,
whatever its mean.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from shiyan.detectors.evaluation.cells import unusable
from shiyan.detectors.evaluation.evaluator import Evaluator
from shiyan.detectors.evaluation.rows import Row
from shiyan.detectors.metrics import Cell, fewest_groups
from shiyan.metrics import Estimate, Sampled, clopper_pearson, design_effect, intraclass_correlation


def over_poets(evaluator: Evaluator, detector: str) -> tuple[dict[str, Estimate], dict[str, Any]]:
    """(AUROC and macro-F1 with intervals over poets, ICC and design effect) of the main setting."""
    draws = evaluator.poet_draws
    units = evaluator.matrix.clusters
    poems = evaluator.scored(detector, evaluator.main, evaluator.main.test, draws, units)
    cell = evaluator.cell(detector, evaluator.main)
    if cell is None or unusable(poems.labels, poems.scores):
        return {}, {}
    is_human = poems.labels == 0
    scores, columns = poems.scores[is_human], poems.columns[is_human]
    correlation = intraclass_correlation(scores, columns)
    facts = {
        "n_poets": len(np.unique(columns)),
        "intraclass_correlation": correlation,
        "design_effect": design_effect(correlation, columns),
    }
    by_poets = Cell(poems.labels, poems.scores, poems.columns, draws)
    n_poets = fewest_groups(poems.labels, poems.columns)
    found: dict[str, Sampled] = {"auroc": by_poets.auroc()}
    if cell.threshold:
        found["macro_f1"] = by_poets.at_threshold(cell.threshold)["macro_f1"]
    return {
        f"{metric}_over_poets": sampled.estimate(cell.n, n_poets, cell.n_unscored)
        for metric, sampled in found.items()
    }, facts


def by_poet(evaluator: Evaluator) -> Iterator[Row]:
    """False-positive rate of each poet of the test fold: whom the detector accuses."""
    poems = evaluator.poems
    tested = [p for p in evaluator.main.test if poems[p].label == 0]
    poets = sorted({poems[p].author for p in tested} - {""})
    for poet in poets:
        own = [p for p in tested if poems[p].author == poet]
        for detector in evaluator.detectors:
            yield _accused(evaluator, detector, poet, own)


def _accused(evaluator: Evaluator, detector: str, poet: str, own: list[str]) -> Row:
    cell = evaluator.cell(detector, evaluator.main)
    scored = evaluator.scored(detector, evaluator.main, own, evaluator.draws)
    n = len(scored.scores)
    facts = {"n_human": n, "n_unscored": scored.n_unscored}
    if cell is None or cell.threshold is None or not n:
        reason = "no threshold" if n else "no scored poem"
        nothing = Estimate(None, None, None, n, scored.n_unscored, reason)
        return Row({"poet": poet}, detector, {"false_positive_rate": nothing}, facts)
    accused = int(cell.threshold.predict(scored.scores).sum())
    low, high = clopper_pearson(accused, n)
    rate = Estimate(accused / n, low, high, n, scored.n_unscored)
    return Row({"poet": poet}, detector, {"false_positive_rate": rate}, facts)
