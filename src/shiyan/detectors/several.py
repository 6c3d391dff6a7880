"""How much surer a detector is of several poems by one author than of one.

The score of a set of k poems is the mean of their scores: log-odds add up where poems
are independent given their author, and a mean orders sets of one size as the sum does.

A human set is k poems of one poet. An LLM's set is k poems by one generator to one
prompt, the imitations of a human set where they are all there. A human set and the sets
of its imitations are one group, which the bootstrap takes or leaves as a whole, as it
does with a poem and its imitations. Sets are disjoint; how they are drawn is a matter of
chance, so they are drawn several times and the numbers are means over the draws.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shiyan.detectors.evaluate import CellResult, Scored, measured
from shiyan.metrics import Draws, Estimate, Floats, Sampled
from shiyan.records import Assignment, Fold, Poem
from shiyan.splits import FOLDS

SIZES = (1, 2, 4, 8)
DRAWS_OF_SETS = 10
METRICS = ("auroc", "macro_f1", "tpr_at_fpr_5")


@dataclass(frozen=True)
class Sets:
    """Disjoint sets of k poems of one fold.

    Attributes:
        members: poem ids of each set.
        labels: 1 = LLM, one a set.
        groups: of each set; a human set and its imitations share one.
    """

    members: tuple[tuple[str, ...], ...]
    labels: tuple[int, ...]
    groups: tuple[str, ...]


def sets_of(
    poems: Mapping[str, Poem], assignments: Mapping[str, Assignment], fold: Fold, k: int, seed: int
) -> Sets:
    """Draw sets of k; what is left of an author with fewer than k poems is in no set."""
    rng = random.Random(seed)
    inside = [poem for poem in poems.values() if assignments[poem.poem_id].fold == fold]
    by_poet: dict[str, list[str]] = {}
    by_llm: dict[tuple[str, str], dict[str, str]] = {}
    loose: dict[tuple[str, str], list[str]] = {}
    for poem in sorted(inside, key=lambda poem: poem.poem_id):
        if poem.generation is None:
            by_poet.setdefault(poem.author, []).append(poem.poem_id)
            continue
        author = (poem.generation.generator, poem.generation.prompt_id)
        seed_poem = poem.generation.seed_poem_id
        imitations = by_llm.setdefault(author, {})
        if seed_poem is not None and seed_poem not in imitations:
            imitations[seed_poem] = poem.poem_id
        else:
            loose.setdefault(author, []).append(poem.poem_id)
    drawn: list[tuple[tuple[str, ...], int, str]] = []
    for poet, own in sorted(by_poet.items()):
        for number, members in enumerate(_chunks(own, k, rng)):
            group = f"{poet}|{number}"
            drawn.append((members, 0, group))
            for imitations in by_llm.values():
                if all(member in imitations for member in members):
                    drawn.append((tuple(imitations.pop(m) for m in members), 1, group))
    for author in sorted(by_llm.keys() | loose.keys()):
        rest = [*by_llm.get(author, {}).values(), *loose.get(author, [])]
        for number, members in enumerate(_chunks(rest, k, rng)):
            drawn.append((members, 1, "|".join((*author, str(number)))))
    return Sets(*(tuple(column) for column in zip(*drawn, strict=True))) if drawn else NO_SETS


NO_SETS = Sets((), (), ())


def _chunks(poem_ids: Sequence[str], k: int, rng: random.Random) -> list[tuple[str, ...]]:
    order = list(poem_ids)
    rng.shuffle(order)
    return [tuple(order[i : i + k]) for i in range(0, len(order) - k + 1, k)]


@dataclass(frozen=True)
class OfSeveral:
    """A detector on sets of k poems: metric -> estimate, and how many sets of each class."""

    metrics: Mapping[str, Estimate]
    n_human: int
    n_llm: int
    n_unscored: int


def of_several(
    values: Mapping[str, Floats],
    poems: Mapping[str, Poem],
    assignments: Mapping[str, Assignment],
    k: int,
    *,
    resamples: int,
    seed: int,
) -> dict[str, OfSeveral]:
    """Every detector on sets of k poems of the test fold.

    The threshold is Youden's on sets of k of the train fold.

    Args:
        values: a detector's scores in the order of `poems`, NaN where there is none.
    """
    row_of = {poem_id: row for row, poem_id in enumerate(poems)}
    times = DRAWS_OF_SETS if k > 1 else 1
    drawn = []
    for number in range(times):
        train, test = (sets_of(poems, assignments, fold, k, seed + number) for fold in FOLDS)
        draws = Draws.of(test.groups, -(-resamples // times), seed + number)
        drawn.append((train, test, draws))
    return {
        detector: _pooled(
            [
                measured(
                    _scored(scores, train, row_of, draws),
                    _scored(scores, test, row_of, draws),
                    draws,
                    f"train:sets of {k}",
                )
                for train, test, draws in drawn
            ]
        )
        for detector, scores in values.items()
    }


def _scored(values: Floats, sets: Sets, row_of: Mapping[str, int], draws: Draws) -> Scored:
    """A set with an unscored poem is unscored."""
    means = np.array([values[[row_of[m] for m in members]].mean() for members in sets.members])
    finite = np.isfinite(means) if len(means) else np.zeros(0, np.bool_)
    columns = np.array([draws.column_of.get(group, -1) for group in sets.groups], np.intp)
    labels = np.array(sets.labels, np.int_)
    return Scored(labels[finite], means[finite], columns[finite], int((~finite).sum()))


def _pooled(results: Sequence[CellResult]) -> OfSeveral:
    """Means over the draws of sets; the resamples of all of them make the interval."""
    found: dict[str, Estimate] = {}
    first = results[0]
    for metric in METRICS:
        sampled = [r.sampled[metric] for r in results if metric in r.sampled]
        if len(sampled) < len(results):
            lacking = next(r for r in results if metric not in r.sampled)
            found[metric] = lacking.of(metric)
            continue
        pooled = Sampled(
            float(np.mean([s.value for s in sampled])),
            np.concatenate([s.resampled for s in sampled]),
        )
        found[metric] = first.told(metric, pooled)
    return OfSeveral(found, first.n_human, first.n - first.n_human, first.n_unscored)
