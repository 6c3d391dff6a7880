"""Which cells there are: AIGenPoetry's Tables 2-6, and what the paper leaves open."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from shiyan.config import LessonKind
from shiyan.detectors.evaluation.attacked import attacks
from shiyan.detectors.evaluation.author_sets import author_sets
from shiyan.detectors.evaluation.cells import (
    METRICS,
    OWN_LABELS,
    CellResult,
    mean_over,
    told_difference,
)
from shiyan.detectors.evaluation.differences import differences
from shiyan.detectors.evaluation.evaluator import Evaluator, Restriction
from shiyan.detectors.evaluation.poets import by_poet, over_poets
from shiyan.detectors.evaluation.rows import Row, row_of
from shiyan.detectors.metrics import Cell, Threshold, lacks
from shiyan.detectors.protocol import EVERYBODY, Setting, generators_of, subset_order
from shiyan.metrics import Estimate

COMPARED = ("auroc", "macro_f1")
BASELINE = "D1"
"""The subset that every other of a generator is compared with."""
TRANSFERRED = ("macro_f1", "auroc", "auroc_from_labels", "accuracy", OWN_LABELS)
STRATA = 3
"""Of poems by length."""

Table = Callable[[Evaluator], Iterator[Row]]


def in_domain(evaluator: Evaluator) -> Iterator[Row]:
    """Learnt from a subset, tested on it: of each generator, of their mean, of all together."""
    settings = evaluator.protocol.of_kind("in_domain")
    # With one generator, its poems and all poems are the same.
    several = {s.generator for s in settings} - {EVERYBODY}
    shown = [s for s in settings if len(several) > 1 or s.generator == EVERYBODY]
    shown.sort(key=lambda s: (subset_order(s.tested_on), s.generator == EVERYBODY, s.generator))
    for subset, found in groupby(shown, lambda setting: setting.tested_on):
        of_subset = list(found)
        for setting in of_subset:
            yield from _in_domain(evaluator, setting)
        if len(of_subset) > 1:
            yield from _means(evaluator, subset, of_subset)


def _in_domain(evaluator: Evaluator, setting: Setting) -> Iterator[Row]:
    place = {"subset": setting.tested_on, "generator": setting.generator}
    baseline = next(
        (
            s
            for s in evaluator.protocol.of_kind("in_domain")
            if s.tested_on == BASELINE and s.generator == setting.generator
        ),
        None,
    )
    is_compared = baseline and setting.tested_on not in (BASELINE, EVERYBODY)
    for detector, cell in _cells(evaluator, setting):
        further: dict[str, Estimate] = {}
        if baseline and is_compared:
            first = evaluator.cell(detector, baseline)
            further = {f"{m}_minus_{BASELINE}": told_difference(cell, first, m) for m in COMPARED}
        yield row_of(
            place,
            detector,
            cell,
            METRICS,
            further,
            **evaluator.facts(detector, setting),
        )


def _means(evaluator: Evaluator, subset: str, settings: Sequence[Setting]) -> Iterator[Row]:
    """The mean of the generators, each with a threshold of its own, as AIGenPoetry's of four."""
    *single, together = settings
    for detector, whole in _cells(evaluator, together):
        cells = [evaluator.cell(detector, setting) for setting in single]
        means = {m: mean_over(cells, m, whole.n_unscored) for m in METRICS}
        learnt = {evaluator.learnt_from(detector, setting) for setting in single}
        facts = {
            "learnt_from": learnt.pop() if len(learnt) == 1 else "each its own",
            "n_human": whole.n_human,
            "n_llm": whole.n - whole.n_human,
            "n_unscored": whole.n_unscored,
        }
        yield Row({"subset": subset, "generator": f"mean of {len(single)}"}, detector, means, facts)


def _cells(evaluator: Evaluator, setting: Setting) -> Iterator[tuple[str, CellResult]]:
    """Of every detector that has scores for the setting."""
    for detector in evaluator.detectors:
        if (cell := evaluator.cell(detector, setting)) is not None:
            yield detector, cell


def transferred(kind: LessonKind) -> Table:
    """Learnt from one thing, tested on another."""

    def rows(evaluator: Evaluator) -> Iterator[Row]:
        for setting in evaluator.protocol.of_kind(kind):
            place = {
                "generator": setting.generator,
                "trained_on": setting.trained_on,
                "tested_on": setting.tested_on,
            }
            tested = generators_of(evaluator.poems[poem_id] for poem_id in setting.test)
            for detector, cell in _cells(evaluator, setting):
                facts = evaluator.facts(detector, setting) | {"generators": ", ".join(tested)}
                yield row_of(place, detector, cell, TRANSFERRED, {}, **facts)

    return rows


def main_setting(evaluator: Evaluator) -> Iterator[Row]:
    """Every detector on the whole test fold, with a second interval over poets."""
    for detector, cell in _cells(evaluator, evaluator.main):
        further, facts = over_poets(evaluator, detector)
        further |= refitted(evaluator, detector, cell)
        facts |= evaluator.facts(detector, evaluator.main)
        yield row_of({"tested_on": EVERYBODY}, detector, cell, METRICS, further, **facts)


def refitted(evaluator: Evaluator, detector: str, cell: CellResult) -> dict[str, Estimate]:
    """Macro-F1 whose interval holds the choice of the threshold too.

    Of detectors without training alone: to choose a trained one anew takes another training.
    """
    if detector not in evaluator.untrained or cell.threshold is None:
        return {}
    setting = evaluator.main
    train_ids = evaluator.protocol.lessons[setting.lesson].train
    train_draws = evaluator.drawn(evaluator.poems[p].group_id for p in train_ids)
    chosen = ((train_ids, train_draws), (setting.test, evaluator.draws))
    scored = [evaluator.scored(detector, setting, ids, draws) for ids, draws in chosen]
    train, test = (
        Cell(poems.labels, poems.scores, poems.columns, draws)
        for poems, (_, draws) in zip(scored, chosen, strict=True)
    )
    if lacks(test.labels):
        return {}
    found = test.at_refitted_threshold(cell.threshold, train)["macro_f1"]
    return {"macro_f1_with_choice": cell.told("macro_f1", found)}


# --- poems left out ---------------------------------------------------------------------


def restrictions(evaluator: Evaluator) -> list[Restriction]:
    """Choices of the test poems that show what the others decide."""
    params = evaluator.params
    fewest, share = params.fewest_lines, params.copy_share
    found = [
        Restriction(
            f"LLM poems of {fewest} lines or more",
            lambda poem: poem.label == 0 or poem.n_lines >= fewest,
        ),
        Restriction(
            "no copies of the imitated poem",
            lambda poem: poem.seed_overlap is None or poem.seed_overlap < share,
        ),
        Restriction("no memorised human poem", lambda poem: not poem.memorised, in_training=True),
    ]
    tested = [evaluator.poems[p] for p in evaluator.main.test]
    return [r for r in found if not all(map(r.keeps, tested))] + _strata(tested)


def _strata(poems: Sequence[Any]) -> list[Restriction]:
    """Thirds of the human poems by length; an AUROC within one owes nothing to length."""
    lengths = [poem.n_characters for poem in poems if poem.label == 0]
    if not lengths:
        return []
    cuts = [0, *np.quantile(lengths, [i / STRATA for i in range(1, STRATA)]).tolist(), np.inf]
    return [_of_length(low, high) for low, high in pairwise(cuts) if low < high]


def _of_length(low: float, high: float) -> Restriction:
    last = "or more" if math.isinf(high) else f"to {math.ceil(high) - 1}"
    name = f"{math.ceil(low)} {last} characters"
    return Restriction(name, lambda poem: low <= poem.n_characters < high)


def restricted(evaluator: Evaluator) -> Iterator[Row]:
    """Some poems of the whole test fold, and what the others change."""
    for restriction in restrictions(evaluator):
        for detector, whole in _cells(evaluator, evaluator.main):
            cell = evaluator.cell(detector, evaluator.main, restriction)
            assert cell is not None
            further = {f"{m}_change": told_difference(cell, whole, m) for m in COMPARED}
            n_left_out = whole.n + whole.n_unscored - cell.n - cell.n_unscored
            yield row_of(
                {"poems": restriction.name},
                detector,
                cell,
                METRICS,
                further,
                n_left_out=n_left_out,
                **evaluator.facts(detector, evaluator.main),
            )


# --- all poets left out, one by one -----------------------------------------------------


def poets_left_out(evaluator: Evaluator) -> Iterator[Row]:
    """Each poet left out, and before them all of them pooled."""
    for detector in evaluator.detectors:
        if (row := _pooled(evaluator, detector)) is not None:
            yield row
    yield from transferred("poet_left_out")(evaluator)


def _pooled(evaluator: Evaluator, detector: str) -> Row | None:
    """One row over all left-out poets, from calls: scores of two lessons do not compare.

    Each poem is called once, by the threshold of a training set that left its group out. What
    is resampled are the poets, since they are what was left out.
    """
    matrix = evaluator.matrix
    calls: dict[int, int] = {}
    asked: set[int] = set()
    for setting in evaluator.protocol.of_kind("poet_left_out"):
        cell, scores = evaluator.cell(detector, setting), evaluator.scores(detector, setting)
        if cell is None or scores is None:
            return None
        rows = matrix.rows(setting.test)
        asked.update(rows.tolist())
        if cell.threshold is not None:
            # Near-duplicates by two poets are tested when either is left out.
            new = [row for row in rows[np.isfinite(scores[rows])].tolist() if row not in calls]
            calls |= dict(zip(new, cell.threshold.predict(scores[new]).tolist(), strict=True))
    if not calls:
        return None
    return _row_of_calls(evaluator, detector, calls, len(asked) - len(calls))


def _row_of_calls(
    evaluator: Evaluator, detector: str, calls: Mapping[int, int], n_unscored: int
) -> Row:
    place = {"generator": EVERYBODY, "trained_on": "without the poet", "tested_on": "all poets"}
    tested = list(calls)
    labels = evaluator.matrix.labels[tested]
    n_human = int((labels == 0).sum())
    facts = {"n_human": n_human, "n_llm": len(labels) - n_human, "n_unscored": n_unscored}
    names = ("macro_f1", "accuracy", "auroc_from_labels")
    if reason := lacks(labels):
        nothing = Estimate(None, None, None, len(labels), n_unscored, reason)
        return Row(place, detector, dict.fromkeys(names, nothing), facts)
    units = evaluator.matrix.clusters
    draws = evaluator.drawn(units[row] for row in tested)
    columns = draws.columns(units[row] for row in tested)
    cell = Cell(labels, np.array([*calls.values()], np.float64), columns, draws)
    found = cell.at_threshold(Threshold(0.5, "youden", "the training set without the poet"))
    estimates = {n: found[n].estimate(len(labels), cell.n_groups, n_unscored) for n in names}
    return Row(place, detector, estimates, facts)


TABLES: Mapping[str, Table] = {
    "detectors": main_setting,
    "in_domain": in_domain,
    "out_of_domain": transferred("out_of_domain"),
    "temperature": transferred("temperature"),
    "generator_transfer": transferred("generator"),
    "leave_one_generator_out": transferred("generator_left_out"),
    "leave_one_poet_out": poets_left_out,
    "restricted": restricted,
    "differences": differences,
    "several_poems": author_sets,
    "attacks": attacks,
    "poets": by_poet,
}
