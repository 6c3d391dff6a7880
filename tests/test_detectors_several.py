"""Sets of poems by one author: how they are drawn, and that more poems make surer."""

from collections import Counter

import numpy as np
import pytest
from detector_fakes import halves, noisy, pairs

from shiyan.detectors.several import of_several, sets_of


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
    sets = sets_of(poems, halves(poems), fold, k, seed=0)
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
    sets = sets_of(poems, halves(poems), "test", 4, seed=0)
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


def test_what_is_left_of_an_author_is_in_no_set():
    poems = corpus(n=10, poets=1, prompts=("P1",))
    sets = sets_of(poems, halves(poems), "test", 3, seed=0)
    assert Counter(sets.labels) == {0: 1, 1: 1}


def test_another_seed_draws_other_sets():
    poems = corpus()
    drawn = {sets_of(poems, halves(poems), "test", 4, seed=seed).members for seed in range(5)}
    assert len(drawn) == 5


def test_more_poems_make_surer_and_one_is_the_detector_itself():
    poems = corpus(n=128)
    values = {"d": np.array([noisy(poems, 1.0)[p] for p in poems])}
    found = [
        of_several(values, poems, halves(poems), k, resamples=100, seed=0)["d"].metrics["auroc"]
        for k in (1, 2, 4, 8)
    ]
    assert [e.value for e in found] == sorted(e.value for e in found)
    assert found[0].n == 64 * 3
    # One normal score with a shift of 1 has an AUROC of 0.76, the mean of eight of 0.98.
    assert found[0].value == pytest.approx(0.76, abs=0.07)
    assert found[3].value == pytest.approx(0.98, abs=0.03)
    assert all(e.low <= e.value <= e.high for e in found)


def test_a_set_with_an_unscored_poem_is_unscored():
    poems = corpus(n=16, poets=1, prompts=("P1",))
    scores = np.array([noisy(poems, 1.0)[p] for p in poems])
    scores[list(poems).index("h0")] = np.nan
    found = of_several({"d": scores}, poems, halves(poems), 2, resamples=20, seed=0)["d"]
    assert (found.n_human, found.n_llm, found.n_unscored) == (3, 4, 1)


def test_authors_with_too_few_poems_leave_no_number_but_a_reason():
    poems = corpus(n=16, poets=8)
    values = {"d": np.array([noisy(poems, 1.0)[p] for p in poems])}
    found = of_several(values, poems, halves(poems), 4, resamples=20, seed=0)["d"]
    assert found.metrics["auroc"].value is None
    assert "one class (LLM" in found.metrics["auroc"].reason
    none = of_several(values, poems, halves(poems), 64, resamples=20, seed=0)["d"]
    assert none.metrics["auroc"].reason == "no scored poem"
    assert (none.n_human, none.n_llm) == (0, 0)
