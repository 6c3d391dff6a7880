"""Detectors that learn in the lessons of the tables, and score attacked poems."""

from dataclasses import replace
from pathlib import Path

import pytest
from detector_fakes import halves, noisy, pairs, scored
from omegaconf import OmegaConf
from sections import section
from shiyan.detectors.grid import Grid, Stored

from shiyan.config import AttackParams, TrainRobertaParams
from shiyan.detectors import surface, trained
from shiyan.detectors.attacks import attacked_poems
from shiyan.detectors.protocol import Protocol
from shiyan.detectors.trained import train_detectors, train_lessons
from shiyan.errors import UserError
from shiyan.work import WorkCache

pytestmark = pytest.mark.training

ROOT = Path(__file__).resolve().parent.parent


def params(**changes) -> TrainRobertaParams:
    values = OmegaConf.to_container(OmegaConf.load(ROOT / "params.yaml").train_roberta)
    small = {
        "encoder": {"kind": "scratch", "layers": 1, "hidden": 16, "heads": 2},
        "epochs": 1,
        "threshold_folds": 2,
        "controls": ["layout_only"],
        "lessons": "controls",
    }
    return TrainRobertaParams.model_validate(values | small | changes)


def learnt(poems, folder, **changes):
    return train_lessons(poems, halves(poems), params(**changes), {}, WorkCache(folder))


def test_every_lessons_poems_are_scored_by_every_control(tmp_path):
    poems = pairs(8, prompts=("P1", "P2"), generators=("a", "b"))
    found = learnt(poems, tmp_path)
    lessons = Protocol.of(poems, halves(poems)).lessons
    assert {s.setting for s in found} == lessons.keys()
    for name, lesson in lessons.items():
        of_lesson = [s for s in found if s.setting == name]
        assert {s.detector for s in of_lesson} == {"char_ngrams", "layout_only"}
        scored_ids = [s.poem_id for s in of_lesson if s.detector == "char_ngrams"]
        assert sorted(scored_ids) == sorted({*lesson.train, *lesson.test})


def test_a_lesson_is_learnt_from_its_own_poems_alone(tmp_path, monkeypatch):
    poems = pairs(8, prompts=("P1", "P2"), generators=("a", "b"))
    learnt_from: dict[str, list[frozenset[str]]] = {}
    plain = surface.learner

    def watched(name, corpus, *more):
        inner = plain(name, corpus, *more)

        def learn(rows, fold):
            learnt_from.setdefault(fold, []).append(frozenset(corpus.poem_ids[r] for r in rows))
            return inner(rows, fold)

        return learn

    monkeypatch.setattr(surface, "learner", watched)
    learnt(poems, tmp_path, controls=[])
    lessons = Protocol.of(poems, halves(poems)).lessons
    assert set(learnt_from["all"]) == {frozenset(lesson.train) for lesson in lessons.values()}


def test_a_finished_lesson_is_not_learnt_again(tmp_path, monkeypatch):
    poems = pairs(8, generators=("a", "b"))
    first = learnt(poems, tmp_path)
    monkeypatch.setattr(surface, "pipeline", None)
    assert learnt(poems, tmp_path) == first
    with pytest.raises(TypeError):
        learnt(poems, tmp_path, seed=1)


def test_scores_of_another_model_of_the_same_name_are_not_taken_for_its_own(tmp_path, monkeypatch):
    """A revision in conf/model, or other files in the same folder, leave the params as they are."""
    poems = pairs(6)
    first = learnt(poems, tmp_path, lessons="all", controls=[])
    plain = trained.classifier_factory

    def other(*arguments):
        factory = plain(*arguments)
        return lambda texts: replace(
            factory(texts), identity="another", build=lambda seed: factory(texts).build(seed + 1)
        )

    monkeypatch.setattr(trained, "classifier_factory", other)
    second = learnt(poems, tmp_path, lessons="all", controls=[])
    scores = [
        {s.poem_id: s.score for s in found if s.detector == "roberta_from_scratch"}
        for found in (first, second)
    ]
    assert scores[0] != scores[1]


def test_scores_of_a_lesson_are_read_where_the_stage_left_no_others(tmp_path):
    poems = pairs(8)
    found = learnt(poems, tmp_path, controls=[])
    grid = Grid(poems, halves(poems), Stored((), (), found), resamples=20, seed=0)
    settings = grid.protocol.of_kind("in_domain")
    assert all(grid.cell("char_ngrams", setting) is not None for setting in settings)


def test_the_whole_train_fold_is_learnt_from_at_one_temperature(tmp_path):
    poems = {}
    for p, q in pairs(8).items():
        poems[p] = q
        if q.generation:
            for degree in (1.0, 0.7):
                made = q.generation.model_copy(update={"temperature": degree})
                changes = {"poem_id": f"{p}@{degree}", "generation": made}
                poems[f"{p}@{degree}"] = q.model_copy(update=changes)
            del poems[p]
    found = train_detectors(poems, halves(poems), params(), {}, WorkCache(tmp_path))
    assert (found.made["n_train_human"], found.made["n_train_LLM"]) == (4, 4)
    unscored = {s.poem_id: s.unscored_reason for s in found.scores if s.score is None}
    assert all("another temperature" in reason for reason in unscored.values())
    assert unscored.keys() == {
        p for p in poems if p.endswith("@0.7") and halves(poems)[p].fold == "train"
    }


def test_a_score_that_stands_twice_is_refused():
    poems = pairs(4)
    scores = scored(poems, "d", noisy(poems, 1.0))
    with pytest.raises(UserError, match="twice"):
        Grid(poems, halves(poems), Stored([*scores, scores[0]], ()), resamples=20, seed=0)


def test_no_lessons_are_learnt_by_default(tmp_path):
    committed = OmegaConf.load(ROOT / "params.yaml").train_roberta.lessons
    assert learnt(pairs(4), tmp_path, lessons=committed) == []


def test_a_lesson_that_lacks_a_class_leaves_its_detectors_without_a_score(tmp_path):
    poems = pairs(8, prompts=("P1",))
    # P2's poems are all in the test fold.
    poems |= {p: q for p, q in pairs(8, prompts=("P2",)).items() if q.label and int(p[-1]) % 2 == 0}
    found = [s for s in learnt(poems, tmp_path) if s.setting == "D2"]
    assert {s.score for s in found} == {None}
    assert all("train fold: one class (human" in s.unscored_reason for s in found)
    grid = Grid(poems, halves(poems), Stored((), (), found), resamples=20, seed=0)
    setting = next(s for s in grid.protocol.of_kind("in_domain") if s.lesson == "D2")
    estimate = grid.cell("char_ngrams", setting).of("auroc")
    assert (estimate.value, estimate.n, estimate.n_unscored) == (None, 0, 8)
    assert estimate.reason


def test_networks_learn_in_lessons_only_where_asked_and_end_with_no_checkpoint(tmp_path):
    poems = pairs(6)
    found = learnt(poems, tmp_path, lessons="all", controls=[])
    assert {s.detector for s in found} == {"char_ngrams", "roberta_from_scratch"}
    assert all(s.score is not None for s in found)
    assert [path for path in tmp_path.rglob("training/*/*") if path.is_file()] == []
    assert learnt(poems, tmp_path, lessons="all", controls=[]) == found


def test_attacked_poems_are_scored_beside_the_others_and_change_no_other_score(tmp_path):
    poems = pairs(8)
    chosen = section(AttackParams, "attacks", names=["line_breaks_removed"])
    attacked = attacked_poems(poems, halves(poems), chosen, {})
    plain, found = (
        train_detectors(poems, halves(poems), params(), {}, WorkCache(tmp_path), items)
        for items in ((), attacked)
    )
    assert found.scores == plain.scores
    assert found.reading == plain.reading
    assert plain.attacked == []
    assert len(found.attacked) == 3 * 2 * 4, "both classes"
    layout = [s for s in found.attacked if s.detector == "layout_only"]
    assert layout
    assert {s.detector for s in found.attacked} == {
        "char_ngrams",
        "layout_only",
        "roberta_from_scratch",
    }


def test_all_scores_equal_and_all_unscored_are_reasons_in_every_setting():
    poems = pairs(8, prompts=("P1", "P2"), generators=("a", "b"))
    equal = scored(poems, "equal", dict.fromkeys(poems, 1.0))
    silent = scored(poems, "silent", dict.fromkeys(poems))
    nan = scored(poems, "nan", dict.fromkeys(poems, float("nan")))
    good = scored(poems, "good", noisy(poems, 2.0))
    stored = Stored([*equal, *silent, *nan, *good], ())
    grid = Grid(poems, halves(poems), stored, resamples=20, seed=0)
    for setting in grid.protocol.settings:
        for detector, reason in (("equal", "equal"), ("silent", "no scored"), ("nan", "no scored")):
            found = grid.cell(detector, setting).of("auroc")
            assert found.value is None
            assert reason in found.reason
        assert grid.cell("good", setting).of("auroc").value is not None
