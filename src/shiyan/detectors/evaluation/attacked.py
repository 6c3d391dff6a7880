"""What an attack costs each detector, paired by poem.

Detector and threshold know nothing of the attack. A cheat changes the poems of LLMs alone;
where both classes were changed, the numbers tell whether an LLM's poem hides or whether what
was done shows itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from shiyan.detectors.evaluation.cells import CellResult, told_difference
from shiyan.detectors.evaluation.evaluator import Evaluator
from shiyan.detectors.evaluation.poems import attacked_id
from shiyan.detectors.evaluation.rows import Row
from shiyan.metrics import Estimate

LOST = ("auroc", "macro_f1", "true_positive_rate")
OF_LLMS = "LLM poems"
OF_BOTH = "both classes"


def attacks(evaluator: Evaluator) -> Iterator[Row]:
    """Each attack on the LLM poems of the main setting, and where there is one on both classes."""
    tested = set(evaluator.main.test)
    poems = [p for p in evaluator.poems.values() if p.attack is not None and p.of in tested]
    for attack in dict.fromkeys(poem.attack for poem in poems if poem.attack):
        of_attack = {poem.of: poem.label for poem in poems if poem.attack == attack if poem.of}
        llm = [poem_id for poem_id, label in of_attack.items() if label]
        human = [poem_id for poem_id, label in of_attack.items() if not label]
        everybody = [p for p in evaluator.main.test if evaluator.poems[p].label == 0]
        for detector in evaluator.detectors:
            yield _row(evaluator, detector, attack, OF_LLMS, llm, everybody)
            if human and llm:
                yield _row(evaluator, detector, attack, OF_BOTH, [*llm, *human], ())


def _row(
    evaluator: Evaluator,
    detector: str,
    attack: str,
    who: str,
    changed: Sequence[str],
    unchanged: Sequence[str],
) -> Row:
    scores = evaluator.scores(detector, evaluator.main)
    assert scores is not None
    row_of = evaluator.matrix.row_of

    def value(poem_id: str) -> float:
        return float(scores[row_of[poem_id]])

    both = [p for p in changed if np.isfinite([value(p), value(attacked_id(p, attack))]).all()]
    before = evaluator.cell(detector, evaluator.main, test=(*unchanged, *both))
    after = evaluator.cell(
        detector, evaluator.main, test=(*unchanged, *(attacked_id(p, attack) for p in both))
    )
    assert before is not None and after is not None
    n_unscored = len(changed) - len(both) + before.n_unscored
    before, after = (replace(cell, n_unscored=n_unscored) for cell in (before, after))
    facts = {
        "n_human": before.n_human,
        "n_llm": before.n - before.n_human,
        "n_unscored": n_unscored,
        "n_changed": sum(value(p) != value(attacked_id(p, attack)) for p in both),
    }
    return Row({"attack": attack, "changed": who}, detector, _estimates(before, after), facts)


def _estimates(before: CellResult, after: CellResult) -> dict[str, Estimate]:
    found: dict[str, Estimate] = {}
    for metric in LOST:
        found[f"{metric}_before"] = before.of(metric)
        found[f"{metric}_after"] = after.of(metric)
        found[f"{metric}_lost"] = told_difference(before, after, metric)
    return found
