"""What attacks cost a detector."""

import pytest
from detector_fakes import evaluator_of, halves, noisy, pairs, scored

from shiyan.detectors.evaluation.attacked import LOST, attacks
from shiyan.records import DetectorScore


def attack_scores(values, attack="a", detector="d"):
    return [
        DetectorScore(poem_id=p, detector=detector, score=v, attack=attack)
        for p, v in values.items()
    ]


def rows_of(poems, before, after, resamples=50):
    scores = scored(poems, "d", before) + attack_scores(after)
    return list(attacks(evaluator_of(poems, scores, resamples=resamples)))


def test_a_loss_is_paired_and_counts_what_lacks_a_score():
    poems = pairs(60)
    before: dict[str, float | None] = noisy(poems, 3.0)
    after = {
        p: before[p] - 1.5 for p, a in halves(poems).items() if a.fold == "test" and poems[p].label
    }
    after["m-P1-0"] = None
    before["h2"] = None
    (row,) = rows_of(poems, before, after, 200)
    assert row.place == {"attack": "a", "changed": "LLM poems"}
    assert row.facts["n_changed"] == 29
    assert row.estimates["auroc_lost"].low > 0
    for name in LOST:
        assert row.estimates[f"{name}_lost"].value == pytest.approx(
            row.estimates[f"{name}_before"].value - row.estimates[f"{name}_after"].value
        )
        found = row.estimates[f"{name}_before"]
        assert (found.n, found.n_unscored) == (58, 2)


def test_an_attack_that_changes_nothing_costs_nothing():
    poems = pairs(20)
    before = noisy(poems, 1.0)
    same = {p: v for p, v in before.items() if poems[p].label and halves(poems)[p].fold == "test"}
    (row,) = rows_of(poems, before, same)
    assert row.facts["n_changed"] == 0
    assert {row.estimates[f"{name}_lost"].value for name in LOST} == {0.0}


@pytest.mark.parametrize("value", [None, 1.0])
def test_a_detector_that_tells_nothing_loses_nothing_and_says_so(value):
    poems = pairs(6)
    (row,) = rows_of(poems, dict.fromkeys(poems, value), {"m-P1-0": value})
    assert {row.estimates[f"{name}_lost"].value for name in LOST} == {None}
    assert row.estimates["auroc_lost"].reason


def test_an_attack_on_both_classes_that_moves_all_scores_alike_hides_nobody():
    """On the LLM poems alone it looks like a great success, or a great failure."""
    poems = pairs(20)
    before = noisy(poems, 1.0)
    test = [p for p, a in halves(poems).items() if a.fold == "test"]
    of_llms, of_both = rows_of(poems, before, {p: before[p] - 5 for p in test})
    assert of_llms.place["changed"] == "LLM poems"
    assert (of_llms.facts["n_human"], of_llms.facts["n_llm"]) == (10, 10)
    assert of_llms.estimates["auroc_lost"].value > 0.5
    assert of_both.place["changed"] == "both classes"
    assert (of_both.facts["n_human"], of_both.facts["n_llm"]) == (10, 10)
    assert of_both.estimates["auroc_lost"].value == 0


def test_attacks_are_told_of_poems_of_one_temperature():
    poems = {p: poem for p, poem in pairs(20).items() if not poem.generation}
    for poem in [p for p in pairs(20).values() if p.generation]:
        for degree in (1.0, 0.7):
            made = poem.generation.model_copy(update={"temperature": degree})
            update = {"poem_id": f"{poem.poem_id}-{degree:g}", "generation": made}
            poems[update["poem_id"]] = poem.model_copy(update=update)
    test = [p for p, a in halves(poems).items() if a.fold == "test" and poems[p].label]
    (row,) = rows_of(poems, noisy(poems, 1.0), dict.fromkeys(test, 0.0))
    assert (row.facts["n_human"], row.facts["n_llm"], row.facts["n_changed"]) == (10, 10, 10)
