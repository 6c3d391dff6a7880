"""How much surer a detector is of several poems by one author than of one.

The score of a set of k poems is the mean of their scores: log-odds add up where poems
are independent given their author, and a mean orders sets of one size as the sum does.

A human set is k poems of one poet. An LLM's set is k poems by one generator to one
prompt, the imitations of a human set where they are all there. Poems of a group of the
split (a poem and its imitations, twins, the ci of a cipai) are never independent of each
other, so a human set ties the groups of its poems to one, groups of which no human set
holds a poem are tied by k, and every set lies within such a group of groups: the bootstrap
takes or leaves it as a whole. Of one poem it is the group itself.

Sets are disjoint; how they are drawn is a matter of chance, so they are drawn several
times and the numbers are means over the draws.
"""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shiyan.detectors.evaluation.cells import CellResult, Scored, measured
from shiyan.detectors.evaluation.evaluator import Evaluator
from shiyan.detectors.evaluation.rows import Row
from shiyan.metrics import Draws, Estimate, Floats, Sampled
from shiyan.records import EvaluatedPoem, Fold
from shiyan.splits import FOLDS, at_main_temperature
from shiyan.twins import root

SIZES = (1, 2, 4, 8)
DRAWS_OF_SETS = 10
METRICS = ("auroc", "macro_f1", "tpr_at_fpr_5")


@dataclass(frozen=True)
class Sets:
    """Disjoint sets of k poems of one fold.

    Attributes:
        members: poem ids of each set.
        labels: 1 = LLM, one a set.
        groups: of each set; poems of two sets share a group of the split only where the sets
            share theirs.
    """

    members: tuple[tuple[str, ...], ...]
    labels: tuple[int, ...]
    groups: tuple[str, ...]


_Written = tuple[str, str | None]
"""An LLM's poem and the human poem that it imitates."""


@dataclass(frozen=True)
class _Authors:
    """Whose poems stand in a fold, and in which group of the split; ids in order.

    Attributes:
        human: poet -> poem ids; "" for those that name none.
        llm: (generator, prompt, group) -> their poems.
    """

    human: Mapping[str, Sequence[str]]
    llm: Mapping[tuple[str, str, str], Sequence[_Written]]
    group_of_human: Mapping[str, str]

    @classmethod
    def of(cls, poems: Mapping[str, EvaluatedPoem], fold: Fold) -> "_Authors":
        human: dict[str, list[str]] = {}
        llm: dict[tuple[str, str, str], list[_Written]] = {}
        group_of_human: dict[str, str] = {}
        own = [poem for poem in poems.values() if poem.attack is None]
        for poem in sorted(at_main_temperature(own), key=lambda poem: poem.poem_id):
            if poem.fold != fold:
                continue
            if made := poem.generation:
                whose = (made.generator, made.prompt_id, poem.group_id)
                llm.setdefault(whose, []).append((poem.poem_id, made.seed_poem_id))
            else:
                human.setdefault(poem.author, []).append(poem.poem_id)
                group_of_human[poem.poem_id] = poem.group_id
        return cls(human, llm, group_of_human)


def sets_of(poems: Mapping[str, EvaluatedPoem], fold: Fold, k: int, seed: int) -> Sets:
    """Draw sets of k; what is left of an author with fewer than k poems is in no set.

    Neither are human poems without an author's name, but for k = 1.
    """
    return _drawn(_Authors.of(poems, fold), k, seed)


def _drawn(authors: _Authors, k: int, seed: int) -> Sets:
    rng = random.Random(seed)
    human = [
        members
        for poet, own in sorted(authors.human.items())
        if poet or k == 1
        for members in _chunks(own, k, rng)
    ]
    tied = _tied(authors, human, k, rng)
    drawn = [(members, 0, tied[authors.group_of_human[members[0]]]) for members in human]
    people: dict[str, list[tuple[str, ...]]] = {}
    for members, _, group in drawn:
        people.setdefault(group, []).append(members)
    llm: dict[tuple[str, str, str], list[_Written]] = {}
    for (generator, prompt, group), own in authors.llm.items():
        llm.setdefault((generator, prompt, tied[group]), []).extend(own)
    for (*_, group), written in sorted(llm.items()):
        sets = _llm_sets(written, people.get(group, []), k, rng)
        drawn += [(members, 1, group) for members in sets]
    return Sets(*(tuple(column) for column in zip(*drawn, strict=True))) if drawn else NO_SETS


NO_SETS = Sets((), (), ())


def _tied(
    authors: _Authors, human: Iterable[Sequence[str]], k: int, rng: random.Random
) -> dict[str, str]:
    """Group of the split -> the group that it is tied into.

    The groups beside the human sets are tied by k, once for all LLMs and prompts: were each
    to draw its own sets there, they would soon tie all groups to one.
    """
    of_llms = (group for *_, group in authors.llm)
    parent = {group: group for group in sorted({*authors.group_of_human.values(), *of_llms})}
    held = [[authors.group_of_human[poem_id] for poem_id in members] for members in human]
    rest = sorted(parent.keys() - {group for groups in held for group in groups})
    for groups in (*held, *_chunks(rest, k, rng)):
        _tie(parent, groups)
    return {group: root(parent, group) for group in parent}


def _tie(parent: dict[str, str], groups: Iterable[str]) -> None:
    first, *others = sorted({root(parent, group) for group in groups})
    for other in others:
        parent[other] = first


def _llm_sets(
    written: Iterable[_Written], human: Iterable[Sequence[str]], k: int, rng: random.Random
) -> list[tuple[str, ...]]:
    """Sets of poems by one generator to one prompt: imitations of human sets, then the rest."""
    imitations: dict[str, str] = {}
    rest: list[str] = []
    for poem_id, seed_poem in written:
        if seed_poem is None or seed_poem in imitations:
            rest.append(poem_id)
        else:
            imitations[seed_poem] = poem_id
    whole = [
        tuple(imitations.pop(member) for member in members)
        for members in human
        if all(member in imitations for member in members)
    ]
    return whole + _chunks([*imitations.values(), *rest], k, rng)


def _chunks(poem_ids: Sequence[str], k: int, rng: random.Random) -> list[tuple[str, ...]]:
    order = list(poem_ids)
    rng.shuffle(order)
    return [tuple(order[i : i + k]) for i in range(0, len(order) - k + 1, k)]


def author_sets(evaluator: Evaluator) -> Iterator[Row]:
    """Every detector on sets of k poems of the test fold, by a threshold from such of train."""
    values = {d: evaluator.scores(d, evaluator.main) for d in evaluator.detectors}
    authors = [_Authors.of(evaluator.poems, fold) for fold in FOLDS]
    for k in SIZES:
        drawn = _several_times(authors, k, evaluator)
        for detector, scores in values.items():
            assert scores is not None
            results = [
                measured(
                    _scored(scores, train, evaluator.matrix.row_of, draws),
                    _scored(scores, test, evaluator.matrix.row_of, draws),
                    draws,
                    f"train:sets of {k}",
                )
                for train, test, draws in drawn
            ]
            yield _pooled(results, k, detector)


def _several_times(
    authors: Sequence[_Authors], k: int, evaluator: Evaluator
) -> list[tuple[Sets, Sets, Draws]]:
    """(sets of train, sets of test, resamples of the latter) of each draw of the sets."""
    times = DRAWS_OF_SETS if k > 1 else 1
    params = evaluator.params
    found = []
    for number in range(times):
        train, test = (_drawn(of_fold, k, params.seed + number) for of_fold in authors)
        draws = Draws.of(test.groups, -(-params.resamples // times), params.seed + number)
        found.append((train, test, draws))
    return found


def _scored(values: Floats, sets: Sets, row_of: Mapping[str, int], draws: Draws) -> Scored:
    """A set with an unscored poem is unscored."""
    means = np.array([values[[row_of[m] for m in members]].mean() for members in sets.members])
    finite = np.isfinite(means) if len(means) else np.zeros(0, np.bool_)
    columns = np.array([draws.column_of.get(group, -1) for group in sets.groups], np.intp)
    labels = np.array(sets.labels, np.int_)[finite]
    own = np.full(len(labels), np.nan)
    return Scored(labels, means[finite], columns[finite], own, int((~finite).sum()))


def _pooled(results: Sequence[CellResult], k: int, detector: str) -> Row:
    """Means over the draws of sets; the resamples of all of them make the interval."""
    found: dict[str, Estimate] = {}
    first = results[0]
    for metric in METRICS:
        lacking = next((r for r in results if metric not in r.sampled), None)
        if lacking is not None:
            found[metric] = lacking.of(metric)
        else:
            found[metric] = first.told(metric, Sampled.pooled([r.sampled[metric] for r in results]))
    facts = {
        "n_human": first.n_human,
        "n_llm": first.n - first.n_human,
        "n_unscored": first.n_unscored,
    }
    return Row({"poems_a_set": str(k)}, detector, found, facts)
