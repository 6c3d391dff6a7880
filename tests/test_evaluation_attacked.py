"""What attacks cost a detector."""

import pytest
from detector_fakes import halves, noisy, pairs, scored
from shiyan.detectors.attack_drops import DROPS, drops

from shiyan.records import DetectorScore


def attack_scores(values, attack="a", detector="d"):
    return [
        DetectorScore(poem_id=p, detector=detector, score=v, attack=attack)
        for p, v in values.items()
    ]


def test_a_drop_is_paired_and_counts_what_lacks_a_score():
    poems = pairs(60)
    before: dict[str, float | None] = noisy(poems, 3.0)
    after = {
        p: before[p] - 1.5 for p, a in halves(poems).items() if a.fold == "test" and poems[p].label
    }
    after["m-P1-0"] = None
    before["h2"] = None
    (found,) = drops(
        scored(poems, "d", before),
        attack_scores(after),
        poems,
        halves(poems),
        resamples=200,
        seed=0,
    )
    assert (found.detector, found.attack, found.n_changed) == ("d", "a", 29)
    assert found.lost["auroc"].low > 0
    for name in DROPS:
        assert found.lost[name].value == pytest.approx(
            found.before[name].value - found.after[name].value
        )
        assert (found.before[name].n, found.before[name].n_unscored) == (58, 2)


def test_an_attack_that_changes_nothing_costs_nothing():
    poems = pairs(20)
    before = noisy(poems, 1.0)
    same = {p: v for p, v in before.items() if poems[p].label and halves(poems)[p].fold == "test"}
    (found,) = drops(
        scored(poems, "d", before), attack_scores(same), poems, halves(poems), resamples=50, seed=0
    )
    assert found.n_changed == 0
    assert {found.lost[name].value for name in DROPS} == {0.0}


@pytest.mark.parametrize("value", [None, 1.0])
def test_a_detector_that_tells_nothing_drops_nothing_and_says_so(value):
    poems = pairs(6)
    before = dict.fromkeys(poems, value)
    after = {"m-P1-0": value}
    (found,) = drops(
        scored(poems, "d", before), attack_scores(after), poems, halves(poems), resamples=20, seed=0
    )
    assert {found.lost[name].value for name in DROPS} == {None}
    assert found.lost["auroc"].reason


def test_attacked_human_poems_do_not_count_as_llm_poems():
    poems = pairs(20)
    before = noisy(poems, 1.0)
    test = [p for p, a in halves(poems).items() if a.fold == "test"]
    (found,) = drops(
        scored(poems, "d", before),
        attack_scores({p: before[p] for p in test}),
        poems,
        halves(poems),
        resamples=20,
        seed=0,
    )
    assert (found.n_human, found.n_llm) == (10, 10)
