"""Each pair of detectors on the poems that both scored, by the same resamples.

A pair's own interval holds for that pair alone; of all pairs together the simultaneous ones
hold, and only they say that a detector is surely better.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np

from shiyan.detectors.evaluation.cells import CellResult, difference, told_difference
from shiyan.detectors.evaluation.evaluator import Evaluator, Restriction
from shiyan.detectors.evaluation.rows import Row
from shiyan.metrics import Sampled, simultaneous

COMPARED = ("auroc", "macro_f1")
Pair = tuple[str, str]


def differences(evaluator: Evaluator) -> Iterator[Row]:
    """Detector minus another; `surely_better` names the better one, if simulation allows it."""
    cells = {pair: _both(evaluator, *pair) for pair in combinations(evaluator.detectors, 2)}
    surely = {metric: _surely(cells, metric) for metric in COMPARED}
    for (a, b), (ours, theirs) in cells.items():
        found = {metric: told_difference(ours, theirs, metric) for metric in COMPARED}
        facts = {
            "n_human": ours.n_human,
            "n_llm": ours.n - ours.n_human,
            "n_unscored": ours.n_unscored,
            **{f"surely_better_by_{m}": surely[m].get((a, b), "") for m in COMPARED},
        }
        yield Row({"minus": b}, a, found, facts)


def _both(evaluator: Evaluator, a: str, b: str) -> tuple[CellResult, CellResult]:
    setting = evaluator.main
    scores = [evaluator.scores(detector, setting) for detector in (a, b)]
    assert scores[0] is not None and scores[1] is not None
    both = np.isfinite(scores[0]) & np.isfinite(scores[1])
    row_of = evaluator.matrix.row_of
    lacking = sorted(
        poem_id
        for poem_id in (*setting.test, *evaluator.protocol.lessons[setting.lesson].train)
        if not both[row_of[poem_id]]
    )
    # Pairs that lack the same poems share their cells.
    name = f"scored by both, without {lacking}" if lacking else ""
    chosen = Restriction(name, lambda poem: both[row_of[poem.poem_id]], in_training=True)
    ours, theirs = (evaluator.cell(d, setting, chosen if lacking else None) for d in (a, b))
    assert ours is not None and theirs is not None
    n_unscored = sum(not both[row_of[poem_id]] for poem_id in setting.test)
    return replace(ours, n_unscored=n_unscored), replace(theirs, n_unscored=n_unscored)


def _surely(cells: dict[Pair, tuple[CellResult, CellResult]], metric: str) -> dict[Pair, str]:
    """Pair -> the better one, where the simultaneous interval of all pairs leaves 0 out."""
    found: dict[Pair, Sampled] = {}
    for pair, (ours, theirs) in cells.items():
        if (sampled := difference(ours, theirs, metric)) is not None:
            found[pair] = sampled
    n_groups = min((cells[pair][0].n_groups for pair in found), default=0)
    intervals = simultaneous(list(found.values()), n_groups)
    return {
        (a, b): a if low > 0 else b
        for (a, b), ends in zip(found, intervals, strict=True)
        if ends is not None and not (low := ends[0]) <= 0 <= ends[1]
    }
