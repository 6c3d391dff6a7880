"""From scores to tables: subsets, thresholds from train, and every bad input a reason."""

import json
import math

import numpy as np
import pytest
from detector_fakes import (
    evaluate_params,
    evaluated,
    halves,
    human,
    matrix_of,
    noisy,
    pairs,
    scored,
    written,
)
from sklearn.metrics import accuracy_score, brier_score_loss, f1_score, roc_auc_score

from shiyan.detectors.evaluation.cells import METRICS, OWN_LABELS
from shiyan.detectors.evaluation.evaluate import evaluate_scores
from shiyan.detectors.evaluation.matrix import ScoreMatrix
from shiyan.detectors.metrics import Platt
from shiyan.errors import UserError
from shiyan.records import Assignment, DetectorScore


def cells(evaluation, detector="d"):
    """Subset -> numbers: `all`, a generator, D1 of all generators, or generator/D1."""
    found = {"all": evaluation.tables["detectors"]["all"][detector]}
    for place, of_place in evaluation.tables["in_domain"].items():
        subset, generator = place.split(" / ")
        parts = [part for part in (generator, subset) if part != "all"]
        if parts and detector in of_place and not generator.startswith("mean"):
            found["/".join(parts)] = of_place[detector]
    return found


def test_the_metrics_are_of_the_test_fold_and_the_threshold_of_the_train_fold():
    poems = pairs(20)
    values = noisy(poems, 2.0)
    found = cells(evaluated(poems, scored(poems, "d", values)))["all"]
    test = [p for p, a in halves(poems).items() if a.fold == "test"]
    labels = [poems[p].label for p in test]
    assert found["auroc"]["value"] == pytest.approx(
        roc_auc_score(labels, [values[p] for p in test])
    )
    assert (found["auroc"]["n"], found["n_human"], found["n_llm"]) == (20, 10, 10)
    assert found["threshold"]["fitted_on"] == "train:all"
    moved = {p: v + 100 * (halves(poems)[p].fold == "test") for p, v in values.items()}
    again = cells(evaluated(poems, scored(poems, "d", moved)))["all"]
    assert again["threshold"]["value"] == found["threshold"]["value"]


def test_every_subset_has_all_human_poems_and_its_own_llm_poems():
    poems = pairs(10, prompts=("P1", "P2", "P10"), generators=("a", "b"))
    found = cells(evaluated(poems, scored(poems, "d", noisy(poems, 1.0))))
    assert {name: (cell["n_human"], cell["n_llm"]) for name, cell in found.items()} == {
        "all": (5, 30),
        "a": (5, 15),
        "b": (5, 15),
        **dict.fromkeys(("D1", "D2", "D10"), (5, 10)),
        **{f"{g}/D{i}": (5, 5) for g in "ab" for i in (1, 2, 10)},
    }


def test_each_subset_is_compared_with_d1_of_the_same_generator():
    poems = pairs(12, prompts=("P1", "P2"), generators=("a", "b"))
    found = cells(evaluated(poems, scored(poems, "d", noisy(poems, 1.0))))
    difference = found["a/D2"]["auroc_minus_D1"]
    assert difference["value"] == pytest.approx(
        found["a/D2"]["auroc"]["value"] - found["a/D1"]["auroc"]["value"]
    )
    assert difference["low"] < difference["value"] < difference["high"]
    assert "auroc_minus_D1" not in found["a/D1"]
    assert "auroc_minus_D1" not in found["a"]


def test_replies_of_under_three_lines_are_shown_apart():
    poems = pairs(6)
    poems["short"] = written("short", "h0", text="梦\n心")
    scores = scored(poems, "d", noisy(poems, 1.0))
    whole, apart = (
        evaluated(poems, scores).tables["restricted"]["LLM poems of 3 lines or more"]["d"][n]
        for n in ("n_left_out", "n_llm")
    )
    assert (whole, apart) == (1, 3)
    del poems["short"]
    none = evaluated(poems, [s for s in scores if s.poem_id in poems])
    assert "LLM poems of 3 lines or more" not in none.tables["restricted"]


def test_memorised_poems_are_left_out_of_training_too():
    """One human poem that a model recites lies above every LLM's."""
    poems = pairs(80)
    values = noisy(poems, 4.0) | {"h0": 99.0, "h1": 99.0}
    matrix = matrix_of(poems, scored(poems, "d", values), memorised={"h0", "h1"})
    found = evaluate_scores(matrix, evaluate_params(), {}).tables
    without = found["restricted"]["no memorised human poem"]["d"]
    assert (without["n_human"], without["n_left_out"]) == (39, 1)
    assert found["detectors"]["all"]["d"]["tpr_at_fpr_5"]["value"] != 0
    assert without["auroc"]["value"] > found["detectors"]["all"]["d"]["auroc"]["value"]
    assert without["auroc_change"]["value"] > 0


def test_every_value_is_scikit_learns():
    poems = pairs(30, prompts=("P1", "P2"))
    values = noisy(poems, 1.0)
    found = cells(evaluated(poems, scored(poems, "d", values)))["all"]
    test = [p for p, a in halves(poems).items() if a.fold == "test"]
    labels = [poems[p].label for p in test]
    called = [values[p] >= found["threshold"]["value"] for p in test]
    assert found["accuracy"]["value"] == pytest.approx(accuracy_score(labels, called), abs=1e-12)
    assert found["macro_f1_unweighted"]["value"] == pytest.approx(
        f1_score(labels, called, average="macro"), abs=1e-12
    )
    weights = [1 if label else 2 for label in labels]
    assert found["macro_f1"]["value"] == pytest.approx(
        f1_score(labels, called, average="macro", sample_weight=weights), abs=1e-12
    )
    train = [p for p, a in halves(poems).items() if a.fold == "train"]
    platt = Platt.fit([poems[p].label for p in train], [values[p] for p in train], "train")
    brier = brier_score_loss(
        labels, platt.probability([values[p] for p in test]), sample_weight=weights
    )
    assert found["brier"]["value"] == pytest.approx(brier, abs=1e-12)


def test_two_detectors_are_compared_on_the_poems_that_both_scored():
    poems = pairs(80)
    good, poor = noisy(poems, 3.0), noisy(poems, 0.0, seed=1)
    del poor["h0"], poor["h1"]
    scores = scored(poems, "good", good) + scored(poems, "poor", poor)
    found = evaluated(poems, scores, resamples=300).tables["differences"]["poor"]["good"]["auroc"]
    assert found["low"] > 0
    assert (found["n"], found["n_unscored"]) == (79, 1)


def test_a_reason_of_one_difference_is_not_told_of_another():
    poems = pairs(20)
    flat = dict.fromkeys(poems, 1.0)
    scores = [
        score
        for name, values in (("a", noisy(poems, 1.0)), ("b", flat), ("c", noisy(poems, 1.0, 1)))
        for score in scored(poems, name, values)
    ]
    found = evaluated(poems, scores).tables["differences"]
    assert found["b"]["a"]["auroc"]["value"] is None
    assert "scores are equal" in found["b"]["a"]["auroc"]["reason"]
    assert "reason" not in found["c"]["a"]["auroc"]


def test_a_flat_calibration_has_no_error_and_says_why():
    poems = pairs(20)
    found = cells(evaluated(poems, scored(poems, "d", noisy(poems, -2.0))))["all"]
    for metric in ("brier", "ece"):
        assert found[metric]["value"] is None
        assert "the calibration is flat" in found[metric]["reason"]
    assert found["threshold"]["inverted"]


def test_the_distributions_are_of_the_poems_of_the_tables():
    hot = pairs(8)
    others = {
        f"{p}-cool": q.model_copy(
            update={
                "poem_id": f"{p}-cool",
                "generation": q.generation.model_copy(update={"temperature": 0.7}),
            }
        )
        for p, q in hot.items()
        if q.generation
    }
    hot = {
        p: q.model_copy(update={"generation": q.generation.model_copy(update={"temperature": 1.0})})
        if q.generation
        else q
        for p, q in hot.items()
    }
    poems = hot | others
    found = evaluated(poems, scored(poems, "d", noisy(poems, 1.0)))
    assert {row["poem_id"] for row in found.distribution_rows} == hot.keys()


def test_unscored_poems_are_counted_and_a_nan_is_one_of_them():
    poems = pairs(10)
    values: dict[str, float | None] = noisy(poems, 1.0)
    values |= {"h0": None, "h2": math.nan, "h4": math.inf}
    found = cells(evaluated(poems, scored(poems, "d", values)))["all"]
    assert (found["auroc"]["n"], found["auroc"]["n_unscored"], found["n_human"]) == (7, 3, 2)
    json.dumps(found, allow_nan=False)


def test_a_poem_that_no_record_names_is_unscored_too():
    poems = pairs(10)
    scores = [s for s in scored(poems, "d", noisy(poems, 1.0)) if s.poem_id != "h0"]
    assert cells(evaluated(poems, scores))["all"]["auroc"]["n_unscored"] == 1


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (lambda p: None, "no scored poem"),
        (lambda p: 0.5, "scores are equal"),
        (lambda p: None if p.label else 0.1 * int(p.poem_id[1:]), "one class (human, n=5)"),
        (
            lambda p: float(len(p.text) + int(p.poem_id[-1])) if p.label else None,
            "one class (LLM, n=5)",
        ),
    ],
)
def test_what_cannot_be_known_is_null_with_a_reason(values, reason):
    poems = pairs(10)
    scores = scored(poems, "d", {p.poem_id: values(p) for p in poems.values()})
    evaluation = evaluated(poems, scores)
    found = cells(evaluation)["all"]
    for metric in METRICS:
        assert found[metric]["value"] is found[metric]["low"] is None
        assert reason in found[metric]["reason"]
    assert found["threshold"]["value"] is None
    assert reason in found["threshold"]["reason"] or "no scored poem" in reason
    assert any("d: no threshold, train:all: " in notice for notice in evaluation.notices)
    assert evaluation.roc_rows == []
    json.dumps(evaluation.as_cells(), allow_nan=False)


def test_a_trained_detectors_own_labels_need_no_threshold():
    poems = pairs(10)
    right = {p: 1.0 if poem.label else -1.0 for p, poem in poems.items()}
    for called, f1 in ((lambda poem: poem.label, 1.0), (lambda poem: 1, 1 / 3)):
        scores = [
            score.model_copy(update={"own_label": called(poems[score.poem_id])})
            for score in scored(poems, "net", right)
        ]
        found = cells(evaluated(poems, (), scores), "net")["all"]
        assert found["auroc"]["value"] == 1
        assert found[OWN_LABELS]["value"] == pytest.approx(f1)
    without = cells(evaluated(poems, scored(poems, "d", right)))["all"][OWN_LABELS]
    assert without["value"] is None
    assert "no labels of its own" in without["reason"]


def test_one_human_and_one_llm_poem_have_a_value_without_an_interval():
    poems = pairs(2)
    found = cells(evaluated(poems, scored(poems, "d", {p: float("h" not in p) for p in poems})))
    auroc = found["all"]["auroc"]
    assert (auroc["value"], auroc["low"], auroc["n"]) == (1.0, None, 2)


def test_a_prompt_that_one_fold_lacks_has_no_threshold_but_an_auroc():
    poems = pairs(10)
    poems |= {f"x{i}": written(f"x{i}", f"h{i}", prompt="P2") for i in range(0, 10, 2)}
    values = noisy(poems, 1.0)
    found = cells(evaluated(poems, scored(poems, "d", values)))["D2"]
    assert found["auroc"]["value"] is not None
    assert found["macro_f1"]["value"] is None
    assert "train:D2: one class (human" in found["macro_f1"]["reason"]


def test_an_inverted_detector_is_named_and_not_turned_round():
    poems = pairs(20)
    values = {p.poem_id: -p.label + 0.01 * i for i, p in enumerate(poems.values())}
    evaluation = evaluated(poems, scored(poems, "d", values))
    found = cells(evaluation)["all"]
    assert found["auroc"]["value"] < 0.5
    assert found["threshold"]["inverted"]
    assert found["threshold"]["value"] is None
    assert found["macro_f1"]["value"] == pytest.approx(1 / 3)
    assert any("AUROC under 50" in notice for notice in evaluation.notices)
    assert any("every poem is called a person's" in notice for notice in evaluation.notices)


def test_too_few_human_poems_for_a_rate_are_said_to_be():
    poems = pairs(10)
    found = cells(evaluated(poems, scored(poems, "d", noisy(poems, 1.0))))["all"]
    assert found["tpr_at_fpr_1"]["value"] is None
    assert "100 are needed" in found["tpr_at_fpr_1"]["reason"]


def test_a_poem_and_its_imitation_in_two_folds_are_a_leak():
    poems = pairs(10)
    assignments = halves(poems)
    parted = assignments["m-P1-3"].model_copy(update={"fold": "test", "group_id": "elsewhere"})
    with pytest.raises(UserError, match=r"leaks.*family h3.*m-P1-3.*run the stage split again"):
        evaluated(poems, folds={**assignments, "m-P1-3": parted})


def test_a_group_in_two_folds_is_a_leak_also_where_no_family_is():
    poems = {"h0": human("h0"), "h1": human("h1")}
    assignments = {
        p: Assignment(poem_id=p, group_id="twins", fold=fold)
        for p, fold in zip(poems, ("train", "test"), strict=True)
    }
    with pytest.raises(UserError, match="group twins"):
        evaluated(poems, folds=assignments)


def test_a_test_fold_without_human_poems_has_reasons_and_no_numbers():
    poems = pairs(4)
    nothing_held_out = {p: a.model_copy(update={"fold": "train"}) for p, a in halves(poems).items()}
    found = evaluated(poems, scored(poems, "d", noisy(poems, 1.0)), folds=nothing_held_out)
    auroc = found.tables["detectors"]["all"]["d"]["auroc"]
    assert (auroc["value"], auroc["reason"]) == (None, "no scored poem")


def test_scores_that_do_not_belong_are_refused():
    poems = pairs(4)
    scores = scored(poems, "d", noisy(poems, 1.0))
    with pytest.raises(UserError, match="'gone'"):
        evaluated(poems, [*scores, DetectorScore(poem_id="gone", detector="d", score=1.0)])
    with pytest.raises(UserError, match="'h0' twice"):
        evaluated(poems, [*scores, scores[0]])
    with pytest.raises(UserError, match="has no fold"):
        evaluated(poems, scores, folds={"h0": halves(poems)["h0"]})


def test_the_plots_have_one_row_a_point():
    poems = pairs(10)
    values: dict[str, float | None] = noisy(poems, 1.0)
    values["h0"] = None
    evaluation = evaluated(poems, scored(poems, "d", values))
    rates = np.array(
        [[r["false_positive_rate"], r["true_positive_rate"]] for r in evaluation.roc_rows]
    )
    assert rates[0].tolist() == [0, 0]
    assert rates[-1].tolist() == [1, 1]
    assert (np.diff(rates, axis=0) >= 0).all()
    labels = {r["poem_id"]: (r["label"], r["fold"]) for r in evaluation.distribution_rows}
    assert labels["m-P1-0"] == ("LLM", "test")
    assert "h0" not in labels


def test_a_matrix_without_texts_gives_the_same_numbers(tmp_path):
    poems = pairs(12, prompts=("P1", "P2"))
    net = [
        score.model_copy(update={"own_label": poems[score.poem_id].label, "setting": setting})
        for setting in (None, "D2")
        for score in scored(poems, "net", noisy(poems, 2.0))
    ]
    zero = scored(poems, "lrr", noisy(poems, 1.0)) + scored(poems, "rank", noisy(poems, 0.5, 1))
    matrix = matrix_of(poems, zero, net)
    matrix.write(tmp_path / "matrix.jsonl")
    again = ScoreMatrix.read(tmp_path / "matrix.jsonl")
    params = evaluate_params(20)
    assert evaluate_scores(again, params, {}).as_cells() == (
        evaluate_scores(matrix, params, {}).as_cells()
    )
    assert poems["h0"].text.splitlines()[0] not in (tmp_path / "matrix.jsonl").read_text("utf-8")


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda lines: [], "matrix.jsonl:1 is no line"),
        (lambda lines: ["{}", *lines[1:]], "matrix.jsonl:1"),
        (lambda lines: [*lines, lines[-1]], "again"),
        (lambda lines: [*lines[:-1], lines[-1][:-9]], "matrix.jsonl:9"),
        (
            lambda lines: [lines[0], lines[1].replace('"scores": [', '"scores": [1, ')],
            ":2 .*columns",
        ),
        (lambda lines: [lines[0], lines[1].replace('"scores": [', '"scores": [true, ')], ":2 "),
        (
            lambda lines: [
                line.replace('"fold": "test"', '"fold": "train"', 1) if i == 1 else line
                for i, line in enumerate(lines)
            ],
            "leaks",
        ),
    ],
)
def test_a_spoilt_matrix_is_one_sentence(tmp_path, spoil, says):
    poems = pairs(4)
    path = tmp_path / "matrix.jsonl"
    matrix_of(poems, scored(poems, "d", noisy(poems, 1.0))).write(path)
    path.write_text("\n".join(spoil(path.read_text("utf-8").splitlines())), "utf-8")
    with pytest.raises(UserError, match=says):
        ScoreMatrix.read(path)
