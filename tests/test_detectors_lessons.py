"""Detectors that learn in the lessons of the tables, and score attacked poems."""

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from detector_fakes import evaluator_of, halves, noisy, pairs, scored
from omegaconf import OmegaConf
from sections import section

from shiyan.config import AttackParams, LessonKind, TrainRobertaParams
from shiyan.detectors import surface, trained
from shiyan.detectors.attacks import attacked_poems
from shiyan.detectors.evaluation.poems import evaluated_poems
from shiyan.detectors.lessons import lessons_of, planned_trainings, train_lessons
from shiyan.detectors.protocol import EVERYBODY, Protocol
from shiyan.detectors.trained import train_detectors
from shiyan.errors import UserError
from shiyan.work import WorkCache

pytestmark = pytest.mark.training

ROOT = Path(__file__).resolve().parent.parent


KINDS = get_args(LessonKind)


def of(controls=(), networks=(), network_folds=2) -> dict:
    """`train_roberta.lessons`."""
    return {"controls": controls, "networks": networks, "network_folds": network_folds}


def params(**changes) -> TrainRobertaParams:
    values = OmegaConf.to_container(OmegaConf.load(ROOT / "params.yaml").train_roberta)
    small = {
        "encoder": {"kind": "scratch", "layers": 1, "hidden": 16, "heads": 2},
        "epochs": 1,
        "folds": 2,
        "controls": ["layout_only"],
        "lessons": of(controls=KINDS),
    }
    return TrainRobertaParams.model_validate(values | small | changes)


def learnt(poems, folder, **changes):
    return train_lessons(poems, halves(poems), params(**changes), {}, WorkCache(folder))


def lessons_beside_the_whole_fold(poems):
    lessons = Protocol.of(evaluated_poems(poems, halves(poems))).lessons
    return {name: lesson for name, lesson in lessons.items() if name != EVERYBODY}


def test_every_lessons_poems_are_scored_by_every_control(tmp_path):
    poems = pairs(8, prompts=("P1", "P2"), generators=("a", "b"))
    found = learnt(poems, tmp_path)
    lessons = lessons_beside_the_whole_fold(poems)
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
    lessons = lessons_beside_the_whole_fold(poems)
    both = zip(learnt_from["fold 1"], learnt_from["fold 2"], strict=True)
    assert {one | other for one, other in both} == {
        frozenset(lesson.train) for lesson in lessons.values()
    }


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
    first = learnt(poems, tmp_path, lessons=of(KINDS, KINDS), controls=[])
    plain = trained.classifier_factory

    def other(*arguments):
        factory = plain(*arguments)
        return lambda texts: replace(
            factory(texts), identity="another", build=lambda seed: factory(texts).build(seed + 1)
        )

    monkeypatch.setattr(trained, "classifier_factory", other)
    second = learnt(poems, tmp_path, lessons=of(KINDS, KINDS), controls=[])
    scores = [
        {s.poem_id: s.score for s in found if s.detector == "roberta_from_scratch"}
        for found in (first, second)
    ]
    assert scores[0] != scores[1]


def test_scores_of_a_lesson_are_read_where_the_stage_left_no_others(tmp_path):
    poems = pairs(8)
    found = learnt(poems, tmp_path, controls=[])
    grid = evaluator_of(poems, (), found)
    settings = [s for s in grid.protocol.of_kind("in_domain") if s.lesson != EVERYBODY]
    assert settings
    assert all(grid.cell("char_ngrams", setting) is not None for setting in settings)


def test_lessons_and_the_whole_train_fold_stand_in_one_evaluation(tmp_path):
    """Scores of the whole fold come once: it is no lesson beside itself."""
    poems = pairs(8)
    found = train_detectors(poems, halves(poems), params(), {}, WorkCache(tmp_path)).scores
    found += learnt(poems, tmp_path)
    grid = evaluator_of(poems, (), found)
    assert grid.cell("char_ngrams", grid.main) is not None


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
        evaluator_of(poems, [*scores, scores[0]])


def test_no_lessons_are_learnt_by_default(tmp_path):
    committed = OmegaConf.load(ROOT / "params.yaml").train_roberta.lessons
    assert learnt(pairs(4), tmp_path, lessons=OmegaConf.to_container(committed)) == []


def test_a_lesson_that_lacks_a_class_leaves_its_detectors_without_a_score(tmp_path):
    poems = pairs(8, prompts=("P1",))
    # P2's poems are all in the test fold.
    poems |= {p: q for p, q in pairs(8, prompts=("P2",)).items() if q.label and int(p[-1]) % 2 == 0}
    found = [s for s in learnt(poems, tmp_path) if s.setting == "D2"]
    assert {s.score for s in found} == {None}
    assert all("train fold: one class (human" in s.unscored_reason for s in found)
    grid = evaluator_of(poems, (), found)
    setting = next(s for s in grid.protocol.of_kind("in_domain") if s.lesson == "D2")
    estimate = grid.cell("char_ngrams", setting).of("auroc")
    assert (estimate.value, estimate.n, estimate.n_unscored) == (None, 0, 8)
    assert estimate.reason


def test_networks_learn_in_lessons_only_where_asked_and_end_with_no_checkpoint(tmp_path):
    poems = pairs(6)
    found = learnt(poems, tmp_path, lessons=of(KINDS, KINDS), controls=[])
    assert {s.detector for s in found} == {"char_ngrams", "roberta_from_scratch"}
    assert all(s.score is not None for s in found)
    assert [path for path in tmp_path.rglob("training/*/*") if path.is_file()] == []
    assert learnt(poems, tmp_path, lessons=of(KINDS, KINDS), controls=[]) == found


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
    grid = evaluator_of(poems, [*equal, *silent, *nan, *good])
    for setting in grid.protocol.settings:
        for detector, reason in (("equal", "equal"), ("silent", "no scored"), ("nan", "no scored")):
            found = grid.cell(detector, setting).of("auroc")
            assert found.value is None
            assert reason in found.reason
        assert grid.cell("good", setting).of("auroc").value is not None


def test_controls_and_networks_learn_in_the_kinds_of_lessons_that_are_named(tmp_path):
    poems = pairs(6, prompts=("P1", "P2"), generators=("a", "b"))
    chosen = of(["generator"], ["in_domain"], 1)
    found = learnt(poems, tmp_path, lessons=chosen, controls=[])
    lessons: dict[str, set[str]] = {}
    for score in found:
        lessons.setdefault(score.detector, set()).add(score.setting)
    protocol = Protocol.of(evaluated_poems(poems, halves(poems)))
    assert lessons["char_ngrams"] == lessons_of(protocol, ["generator"]).keys() == {"a", "b"}
    in_domain = {setting.lesson for setting in protocol.of_kind("in_domain")}
    assert lessons["roberta_from_scratch"] == in_domain - {EVERYBODY} > {"D1", "D2", "a"}
    of_network = [s for s in found if s.detector == "roberta_from_scratch"]
    train = {s.setting: s for s in of_network if s.score is None}
    assert all(s.unscored_reason.startswith("folds: 1") for s in train.values())
    assert {s.own_label for s in of_network if s.score is not None} <= {0, 1}


def paper(**changes) -> TrainRobertaParams:
    values = OmegaConf.to_container(
        OmegaConf.load(ROOT / "conf/train_roberta/chinese_roberta.yaml")
    )
    return TrainRobertaParams.model_validate(values | {"text": "body"} | changes)


def test_the_papers_tables_take_one_training_a_cell(tmp_path):
    """52 of one prompt of one LLM (Tables 2 and 3) and 3 of merged prompts (Table 4)."""
    prompts = tuple(f"P{i}" for i in range(1, 14))
    poems = pairs(8, prompts, generators=("a", "b", "c", "d"))
    (network,) = planned_trainings(poems, halves(poems), paper(), WorkCache(tmp_path))
    assert network.trainings == paper().folds + 55
    lessons = lessons_of(
        Protocol.of(evaluated_poems(poems, halves(poems))), paper().lessons.networks
    )
    assert {"a/D1", "d/D13", "D2+4+5", "D6-8", "D10-13"} < lessons.keys()
    assert not lessons.keys() & {"all", "a", "D1", "a/D6-8"}
    # Up-sampled: 4 human poems count as 4 LLM poems of a cell, 16, 12 or 12 of a merge's LLMs.
    of_whole = 2 * 4 * 13 * 4 * (paper().folds - 1)
    assert network.passes == paper().epochs * (of_whole + 52 * 8 + 2 * 4 * 4 * (3 + 3 + 4))


def test_of_one_generator_single_prompts_are_those_of_all():
    poems = pairs(4, ("P1", "P2"))
    lessons = lessons_of(Protocol.of(evaluated_poems(poems, halves(poems))), ["single_prompt"])
    assert set(lessons) == {"D1", "D2"}


def test_a_plan_counts_the_poems_of_every_epoch(tmp_path):
    poems = pairs(8)
    chosen = paper(balance="class_weights", folds=4, epochs=3, lessons=of())
    (network,) = planned_trainings(poems, halves(poems), chosen, WorkCache(tmp_path))
    assert (network.trainings, network.passes) == (4, 3 * 3 * 8)
    once = paper(balance="class_weights", folds=1, epochs=3, lessons=of())
    (network,) = planned_trainings(poems, halves(poems), once, WorkCache(tmp_path))
    assert (network.trainings, network.passes) == (1, 3 * 8)


def test_a_training_leaves_its_speed_for_the_next_plan(tmp_path):
    poems = pairs(6)
    small = params(controls=[], lessons=of())
    (before,) = planned_trainings(poems, halves(poems), small, WorkCache(tmp_path))
    assert before.minutes is None
    train_detectors(poems, halves(poems), small, {}, WorkCache(tmp_path))
    (after,) = planned_trainings(poems, halves(poems), small, WorkCache(tmp_path))
    assert after.minutes > 0
