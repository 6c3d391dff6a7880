"""What attacks on LLM poems cost each detector, paired by poem."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shiyan.detectors.evaluate import unusable
from shiyan.metrics import Cell, Draws, Estimate, Floats, Sampled, Threshold
from shiyan.records import Assignment, DetectorScore, Poem


@dataclass(frozen=True)
class Drop:
    """A detector's numbers on the attacked poems before and after, and what was lost.

    Each with all human poems of the test fold as the other class; `found` is the share
    of the LLM poems that the detector finds at its threshold.
    """

    detector: str
    attack: str
    n_changed: int
    n_human: int
    n_llm: int
    before: Mapping[str, Estimate]
    after: Mapping[str, Estimate]
    lost: Mapping[str, Estimate]


DROPS = ("auroc", "macro_f1", "found")


def drops(
    scores: Iterable[DetectorScore],
    attacked_scores: Iterable[DetectorScore],
    poems: Mapping[str, Poem],
    assignments: Mapping[str, Assignment],
    *,
    resamples: int,
    seed: int,
) -> list[Drop]:
    """Of every detector and attack, paired by poem: what lacks either score is unscored."""
    before: dict[str, dict[str, float | None]] = {}
    for score in scores:
        before.setdefault(score.detector, {})[score.poem_id] = score.score
    after: dict[tuple[str, str], dict[str, float | None]] = {}
    for score in attacked_scores:
        if not poems[score.poem_id].label:
            continue
        own = after.setdefault((score.detector, score.attack or ""), {})
        own[score.poem_id] = score.score
    test = [p for p in poems if assignments[p].fold == "test"]
    human = [p for p in test if poems[p].generation is None]
    draws = Draws.of((assignments[p].group_id for p in test), resamples, seed)
    found = []
    for (detector, attack), new in after.items():
        old = before.get(detector, {})
        threshold = _threshold(old, poems, assignments)
        both = [p for p in new if new[p] is not None and old.get(p) is not None]
        people = [p for p in human if old.get(p) is not None]
        n_unscored = len(new) - len(both) + len(human) - len(people)
        columns = draws.columns(assignments[p].group_id for p in (*people, *both))
        labels = np.array([0] * len(people) + [1] * len(both), np.int_)
        cells = [
            Cell(labels, _values(people, old, both, source), columns, draws)
            for source in (old, new)
        ]
        n_changed = sum(new[p] != old[p] for p in both)
        found.append(_drop(detector, attack, n_changed, cells, threshold, n_unscored))
    return found


def _values(
    people: Sequence[str],
    old: Mapping[str, float | None],
    both: Sequence[str],
    source: Mapping[str, float | None],
) -> Floats:
    return np.array([*(old[p] for p in people), *(source[p] for p in both)], np.float64)


def _threshold(
    scores: Mapping[str, float | None],
    poems: Mapping[str, Poem],
    assignments: Mapping[str, Assignment],
) -> Threshold | None:
    train = [p for p, s in scores.items() if s is not None and assignments[p].fold == "train"]
    labels = np.array([poems[p].label for p in train], np.int_)
    values = np.array([scores[p] for p in train], np.float64)
    return None if unusable(labels, values) else Threshold.youden(labels, values, "train:all")


def _drop(
    detector: str,
    attack: str,
    n_changed: int,
    cells: Sequence[Cell],
    threshold: Threshold | None,
    n_unscored: int,
) -> Drop:
    first = cells[0]
    n, n_llm = len(first.labels), int(first.is_llm.sum())
    counts = (n_changed, n - n_llm, n_llm)
    if reason := unusable(first.labels, first.scores):
        nothing = dict.fromkeys(DROPS, Estimate(None, None, None, n, n_unscored, reason))
        return Drop(detector, attack, *counts, nothing, nothing, nothing)
    old, new = (_numbers(cell, threshold) for cell in cells)
    lacking = Estimate(None, None, None, n, n_unscored, "no threshold")

    def told(sampled: Mapping[str, Sampled]) -> dict[str, Estimate]:
        return {
            name: sampled[name].estimate(n, first.n_groups, n_unscored)
            if name in sampled
            else lacking
            for name in DROPS
        }

    lost = {name: old[name].minus(new[name]) for name in old}
    return Drop(detector, attack, *counts, told(old), told(new), told(lost))


def _numbers(cell: Cell, threshold: Threshold | None) -> dict[str, Sampled]:
    numbers = {"auroc": cell.auroc()}
    if threshold is not None:
        numbers["macro_f1"] = cell.at_threshold(threshold)["macro_f1"]
        numbers["found"] = cell.rates(threshold)[0]
    return numbers
