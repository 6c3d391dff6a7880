"""Sets of poems by one author: how they are drawn, and that more poems make surer."""

from collections import Counter

import numpy as np
import pytest
from detector_fakes import evaluator_of, halves, noisy, pairs, scored

from shiyan.detectors.evaluation.author_sets import METRICS, author_sets, sets_of
from shiyan.detectors.evaluation.poems import evaluated_poems
from shiyan.families import family_of
from shiyan.records import Assignment


def described(poems):
    return evaluated_poems(poems, halves(poems))


def of_sets(poems, values, k, folds=None, resamples=100):
    """The row of sets of k; values in the order of the poems, or by id."""
    by_id = values if isinstance(values, dict) else dict(zip(poems, values, strict=True))
    scores = scored(poems, "d", {p: None if np.isnan(v) else float(v) for p, v in by_id.items()})
    rows = author_sets(evaluator_of(poems, scores, folds=folds, resamples=resamples, seed=3))
    return next(row for row in rows if row.place == {"poems_a_set": str(k)})


def corpus(n=64, poets=2, prompts=("P1", "P2")):
    """The poet of a poem changes with every second number, so that each has both folds."""
    poems = pairs(n, prompts)
    return {
        p: poem
        if poem.generation
        else poem.model_copy(update={"author": f"poet{int(p[1:]) // 2 % poets}"})
        for p, poem in poems.items()
    }


@pytest.mark.parametrize("k", [1, 2, 3, 8])
@pytest.mark.parametrize("fold", ["train", "test"])
def test_sets_are_disjoint_of_k_and_of_one_author(k, fold):
    poems = corpus()
    sets = sets_of(described(poems), fold, k, seed=0)
    members = [p for of_set in sets.members for p in of_set]
    assert len(members) == len(set(members))
    assert {len(of_set) for of_set in sets.members} == {k}
    for of_set, label in zip(sets.members, sets.labels, strict=True):
        assert {poems[p].label for p in of_set} == {label}
        assert {halves(poems)[p].fold for p in of_set} == {fold}
        authors = {
            (poems[p].author, poems[p].generation and poems[p].generation.prompt_id) for p in of_set
        }
        assert len(authors) == 1


def test_a_human_set_and_the_sets_of_its_imitations_are_one_group():
    poems = corpus()
    sets = sets_of(described(poems), "test", 4, seed=0)
    for group, n in Counter(sets.groups).items():
        inside = [i for i, g in enumerate(sets.groups) if g == group]
        if n == 1:
            continue
        assert n == 3, "the poet's set and one of each prompt"
        (people,) = [sets.members[i] for i in inside if sets.labels[i] == 0]
        for i in inside:
            if sets.labels[i]:
                seeds = {poems[p].generation.seed_poem_id for p in sets.members[i]}
                assert seeds == set(people)


def tangled(n=64):
    """Twins by two poets, second samples, poems of no human poem, and imitations that lack."""
    poems = corpus(n)
    poems |= {
        f"{poem_id}-again": poem.model_copy(update={"poem_id": f"{poem_id}-again"})
        for poem_id, poem in corpus(n, prompts=("P1",)).items()
        if poem.generation
    }
    for i in range(0, n, 5):
        del poems[f"m-P2-{i}"]
    folds = halves(poems)
    for i in range(n):
        made = poems["m-P1-1"].generation.model_copy(update={"seed_poem_id": None})
        poem_id = f"loose{i}"
        poems[poem_id] = poems["m-P1-1"].model_copy(update={"poem_id": poem_id, "generation": made})
        assert family_of(poems[poem_id]) == poem_id
        folds[poem_id] = Assignment(
            poem_id=poem_id, group_id=poem_id, fold="train" if i % 2 else "test"
        )
    return poems, {
        p: a.model_copy(update={"group_id": "h0"}) if a.group_id == "h4" else a
        for p, a in folds.items()
    }


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_sets_that_share_a_group_of_the_split_are_one_group_and_few_do(k, seed):
    poems, folds = tangled()
    sets = sets_of(evaluated_poems(poems, folds), "test", k, seed)
    held_by: dict[str, set[str]] = {}
    for members, group in zip(sets.members, sets.groups, strict=True):
        for poem_id in members:
            held_by.setdefault(folds[poem_id].group_id, set()).add(group)
    assert {len(groups) for groups in held_by.values()} == {1}
    if k == 1:
        assert all(groups == {group} for group, groups in held_by.items())
    # 31 groups of human poems and 32 of an LLM's poem each.
    assert len(set(sets.groups)) >= 63 // k - k


def test_of_one_poem_the_numbers_are_those_of_the_detector_itself():
    poems, folds = tangled()
    scores = noisy(poems, 1.0)
    evaluator = evaluator_of(poems, scored(poems, "d", scores), folds=folds, resamples=200, seed=3)
    cell = evaluator.cell("d", evaluator.main)
    found = of_sets(poems, scores, 1, folds, resamples=200)
    for metric in METRICS:
        assert found.estimates[metric] == cell.of(metric)
    assert (found.facts["n_human"], found.facts["n_llm"]) == (cell.n_human, cell.n - cell.n_human)


def test_poems_without_a_poets_name_are_no_poets_poems():
    poems = corpus(n=32, poets=2)
    nameless = [f"h{i}" for i in range(0, 32, 2) if i % 4 == 0]
    poems |= {p: poems[p].model_copy(update={"author": ""}) for p in nameless}
    for k, there in ((1, set(nameless)), (2, set())):
        sets = sets_of(described(poems), "test", k, seed=0)
        assert {p for members in sets.members for p in members} & set(nameless) == there


def test_sets_are_of_one_temperature():
    poems = corpus(n=16, poets=1, prompts=("P1",))
    for poem in [p for p in poems.values() if p.generation]:
        for degree in (1.0, 0.7):
            made = poem.generation.model_copy(update={"temperature": degree})
            poem_id = f"{poem.poem_id}-{degree}"
            poems[poem_id] = poem.model_copy(update={"poem_id": poem_id, "generation": made})
        del poems[poem.poem_id]
    sets = sets_of(described(poems), "test", 2, seed=0)
    assert Counter(sets.labels) == {0: 4, 1: 4}
    made = {poems[p].generation for members in sets.members for p in members} - {None}
    assert {generation.temperature for generation in made} == {1.0}


def test_what_is_left_of_an_author_is_in_no_set():
    poems = corpus(n=10, poets=1, prompts=("P1",))
    sets = sets_of(described(poems), "test", 3, seed=0)
    assert Counter(sets.labels) == {0: 1, 1: 1}


def test_another_seed_draws_other_sets():
    poems = corpus()
    drawn = {sets_of(described(poems), "test", 4, seed=seed).members for seed in range(5)}
    assert len(drawn) == 5


def test_more_poems_make_surer_and_one_is_the_detector_itself():
    poems = corpus(n=128)
    found = [of_sets(poems, noisy(poems, 1.0), k).estimates["auroc"] for k in (1, 2, 4, 8)]
    assert [e.value for e in found] == sorted(e.value for e in found)
    assert found[0].n == 64 * 3
    # One normal score with a shift of 1 has an AUROC of 0.76, the mean of eight of 0.98.
    assert found[0].value == pytest.approx(0.76, abs=0.07)
    assert found[3].value == pytest.approx(0.98, abs=0.03)
    assert all(e.low <= e.value <= e.high for e in found)


def test_a_set_with_an_unscored_poem_is_unscored():
    poems = corpus(n=16, poets=1, prompts=("P1",))
    facts = of_sets(poems, noisy(poems, 1.0) | {"h0": np.nan}, 2).facts
    assert (facts["n_human"], facts["n_llm"], facts["n_unscored"]) == (3, 4, 1)


def test_authors_with_too_few_poems_leave_no_number_but_a_reason():
    poems = corpus(n=16, poets=8)
    found = of_sets(poems, noisy(poems, 1.0), 4).estimates["auroc"]
    assert found.value is None
    assert "one class (LLM" in found.reason
