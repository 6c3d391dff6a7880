"""Fused scores: what they are fitted on, and what becomes of a score that is not there."""

import numpy as np
import pytest
from detector_fakes import halves, noisy, pairs, scored

from shiyan.detectors.crossfit import Corpus
from shiyan.detectors.fusion import NAME, fused
from shiyan.detectors.metrics import auroc


def fusion_of(poems, **columns):
    corpus = Corpus.of(poems, halves(poems))
    table = {
        name: np.array([values[poem_id] for poem_id in corpus.poem_ids], np.float64)
        for name, values in columns.items()
    }
    return fused(table, corpus, folds=4, seed=0)


def auroc_of(poems, scores):
    test = {s.poem_id: s.score for s in scores if halves(poems)[s.poem_id].fold == "test"}
    labels = np.array([poems[p].label for p in test])
    return auroc(labels, np.array(list(test.values())))


def test_two_weak_scores_are_better_together_than_either():
    poems = pairs(120)
    a, b = noisy(poems, 1.0, seed=1), noisy(poems, 1.0, seed=2)
    both = auroc_of(poems, fusion_of(poems, a=a, b=b).scores)
    assert both > max(auroc_of(poems, scored(poems, "", values)) for values in (a, b))


def test_an_inverted_score_gets_a_negative_weight():
    poems = pairs(60)
    found = fusion_of(
        poems, up=noisy(poems, 2.0), down={p: -v for p, v in noisy(poems, 2.0, seed=3).items()}
    )
    assert found.weights["up"] > 0 > found.weights["down"]
    assert "down -" in found.made[NAME]


def test_the_test_fold_decides_nothing():
    poems = pairs(30)
    a, b = noisy(poems, 1.0, seed=1), noisy(poems, 1.0, seed=2)
    before = fusion_of(poems, a=a, b=b)
    folds = halves(poems)
    moved = {p: v + 9.0 * (folds[p].fold == "test") for p, v in a.items()}
    after = fusion_of(poems, a=moved, b=b)
    assert after.weights == before.weights
    train = [p for p in poems if folds[p].fold == "train"]
    by_id = [{s.poem_id: s.score for s in found.scores} for found in (before, after)]
    assert [by_id[0][p] for p in train] == [by_id[1][p] for p in train]


def test_labels_drawn_by_lot_leave_train_scores_at_chance():
    """A fusion that scored the poems it learnt from would look skilled on them."""
    poems = pairs(100)
    columns = {f"d{i}": noisy(poems, 0.0, seed=i) for i in range(8)}
    found = fusion_of(poems, **columns)
    folds = halves(poems)
    train = {s.poem_id: s.score for s in found.scores if folds[s.poem_id].fold == "train"}
    labels = np.array([poems[p].label for p in train])
    assert auroc(labels, np.array(list(train.values()))) < 0.62


def test_a_poem_that_a_part_did_not_score_is_unscored_with_the_part_named():
    poems = pairs(20)
    a: dict[str, float | None] = noisy(poems, 1.0, seed=1)
    a["h0"] = None
    a["h1"] = None
    found = fusion_of(poems, a=a, b=noisy(poems, 1.0, seed=2))
    by_id = {s.poem_id: s for s in found.scores}
    assert len(by_id) == len(poems)
    for poem_id in ("h0", "h1"):
        assert by_id[poem_id].score is None
        assert by_id[poem_id].unscored_reason == "no score by a"
    assert sum(s.score is None for s in found.scores) == 2


def test_a_silent_and_a_constant_detector_are_left_out_and_named():
    poems = pairs(20)
    silent = dict.fromkeys(poems)
    found = fusion_of(
        poems,
        a=noisy(poems, 1.0, seed=1),
        b=noisy(poems, 1.0, seed=2),
        silent=silent,
        flat=dict.fromkeys(poems, 0.5),
    )
    assert found.parts == ("a", "b")
    assert found.left_out["silent"] == "0 of 20 train poems are scored"
    assert "equal" in found.left_out["flat"]
    assert all(s.score is not None for s in found.scores)


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({}, "0 detectors to fuse, 2 are needed"),
        ({"a": 1.0}, "1 detectors to fuse"),
        ({"a": 1.0, "b": None}, "b: 0 of 20 train poems are scored"),
    ],
)
def test_what_cannot_be_fused_says_why(columns, reason):
    poems = pairs(20)
    values = {
        name: noisy(poems, effect) if effect is not None else dict.fromkeys(poems)
        for name, effect in columns.items()
    }
    found = fusion_of(poems, **values)
    assert reason in found.reason
    assert reason in found.made[NAME]
    assert {s.score for s in found.scores} == {None}
    assert all(s.unscored_reason == found.reason for s in found.scores)


def test_without_a_train_poem_that_can_be_read_nothing_is_fused():
    poems = {
        p: q if halves({p: q})[p].fold == "test" else q.model_copy(update={"text": "..."})
        for p, q in pairs(8).items()
    }
    found = fusion_of(poems, a=noisy(poems, 1.0), b=noisy(poems, 2.0))
    assert found.reason
    assert {s.score for s in found.scores} == {None}


def test_one_class_in_the_train_fold_is_no_fusion():
    poems = {p: poem for p, poem in pairs(20).items() if poem.label or int(p[1:]) % 2 == 0}
    found = fusion_of(poems, a=noisy(poems, 1.0, seed=1), b=noisy(poems, 1.0, seed=2))
    assert found.reason == "train fold: one class (LLM, n=10), no human poem"
