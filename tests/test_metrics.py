"""Metrics against scikit-learn, the paper's own digits, and simulated truth.

The digits are in tests/cases/ and in the package; the copies in ../shared are additional.
"""

import csv
import json
import math
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared import SHARED, needs_shared, own_and_shared
from sklearn.metrics import f1_score, roc_auc_score, roc_curve

from shiyan.detectors.metrics import Cell, Platt, Threshold, auroc, macro_f1, roc
from shiyan.metrics import Draws, Estimate, interval, mean_estimate, write_metrics


def cell(labels, scores, groups=None, resamples=50, seed=0) -> Cell:
    """Poems as a cell; each its own group unless told."""
    names = [str(g) for g in (groups if groups is not None else range(len(labels)))]
    draws = Draws.of(names, resamples, seed)
    return Cell(np.asarray(labels), np.asarray(scores, float), draws.columns(names), draws)


def of_counts(n_human: int, n_llm: int, tp: int, fp: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels and 0/1 scores with these counts at a threshold of one half."""
    labels = np.repeat([0, 1], [n_human, n_llm])
    called = np.concatenate([np.arange(n_human) < fp, np.arange(n_llm) < tp])
    return labels, called.astype(float)


labelled = st.lists(
    st.tuples(st.integers(0, 1), st.integers(-4, 4).map(lambda x: x / 2)), min_size=2, max_size=40
).filter(lambda rows: len({label for label, _ in rows}) == 2)


# --- agreement with scikit-learn ------------------------------------------------------


@given(labelled)
@settings(max_examples=60, deadline=None)
def test_auroc_is_scikit_learns_with_ties(rows):
    labels, scores = map(np.array, zip(*rows, strict=True))
    assert auroc(labels, scores) == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)


@given(labelled)
@settings(max_examples=60, deadline=None)
def test_macro_f1_is_scikit_learns(rows):
    labels, scores = map(np.array, zip(*rows, strict=True))
    threshold = Threshold(0.25, "youden", "train")
    found = cell(labels, scores).at_threshold(threshold)
    called = threshold.predict(scores)
    expected = f1_score(labels, called, average="macro", labels=[0, 1], zero_division=0)
    assert found["macro_f1_unweighted"].value == pytest.approx(expected, abs=1e-12)
    share = {y: (labels == y).sum() for y in (0, 1)}
    weights = [1 / share[y] for y in labels]
    balanced = f1_score(
        labels, called, average="macro", labels=[0, 1], sample_weight=weights, zero_division=0
    )
    assert found["macro_f1"].value == pytest.approx(balanced, abs=1e-12)
    assert found["auroc_from_labels"].value == pytest.approx(roc_auc_score(labels, called))


@given(labelled, st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_every_resample_is_the_metric_of_the_resampled_poems(rows, seed):
    labels, scores = map(np.array, zip(*rows, strict=True))
    groups = np.arange(len(labels)) // 2
    one = cell(labels, scores, groups, resamples=10, seed=seed)
    threshold = Threshold(0.25, "youden", "train")
    at_threshold = one.at_threshold(threshold)
    for b in range(10):
        weights = one.draws.resampled[b][one.columns]
        if min(weights[labels == y].sum() for y in (0, 1)) == 0:
            assert np.isnan(one.auroc().resampled[b])
            continue
        assert one.auroc().resampled[b] == pytest.approx(
            roc_auc_score(labels, scores, sample_weight=weights)
        )
        assert at_threshold["macro_f1_unweighted"].resampled[b] == pytest.approx(
            f1_score(
                labels,
                threshold.predict(scores),
                average="macro",
                labels=[0, 1],
                sample_weight=weights,
                zero_division=0,
            )
        )


@given(labelled, st.sampled_from([0.05, 0.2, 0.5]))
@settings(max_examples=60, deadline=None)
def test_tpr_at_fpr_is_the_best_point_of_the_roc_curve(rows, limit):
    """Of those whose cut must be expected to accuse no more of others: (a + 1) / (n + 1)."""
    labels, scores = map(np.array, zip(*rows, strict=True))
    n = int((labels == 0).sum())
    found = cell(labels, scores).tpr_at_fpr(limit)
    if n < 1 / limit:
        assert math.isnan(found.value)
        assert f"{round(1 / limit)} are needed" in found.estimate(len(labels), n).reason
        return
    false, true, _ = roc_curve(labels, scores, drop_intermediate=False)
    expected = (np.round(false * n) + 1) / (n + 1)
    assert found.value == pytest.approx(true[expected <= limit + 1e-9].max())


@given(labelled)
@settings(max_examples=30, deadline=None)
def test_the_roc_curve_is_scikit_learns(rows):
    labels, scores = map(np.array, zip(*rows, strict=True))
    ours, theirs = roc(labels, scores), roc_curve(labels, scores, drop_intermediate=False)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b)


def test_the_evaluate_module_is_scikit_learns():
    from shiyan.detectors.hf_metrics import detection_metrics, held_out_metrics

    rng = np.random.default_rng(0)
    for n in (3, 10, 101):
        labels = np.append(rng.integers(0, 2, n), [0, 1])
        scores = np.round(rng.normal(size=n + 2), 1)
        called = (scores >= 0).astype(int)
        found = detection_metrics(labels, scores, called, None)
        f1 = f1_score(labels, called, average="macro")
        assert abs(found["macro_f1_unweighted"] - f1) < 1e-12
        assert abs(found["auroc"] - roc_auc_score(labels, scores)) < 1e-12

    assert held_out_metrics(np.array([1, 1]), np.array([0.0, 1.0])) == dict.fromkeys(
        ("macro_f1", "auroc")
    )


# --- the paper's digits, and thresholds -----------------------------------------------


@pytest.mark.parametrize("path", own_and_shared("metrics_cases.json"))
def test_the_published_confusion_tables(path):
    for case in json.loads(path.read_text(encoding="utf-8"))["confusion"]:
        labels, scores = of_counts(*(case[k] for k in ("n_human", "n_llm", "tp", "fp")))
        found = cell(labels, scores).at_threshold(Threshold(0.5, "youden", "train"))
        for name in ("macro_f1", "macro_f1_unweighted"):
            assert 100 * found[name].value == pytest.approx(case["macro_f1"], abs=1e-4)
        assert 100 * found["auroc_from_labels"].value == case["auroc_from_hard_labels"]


@pytest.mark.parametrize("path", own_and_shared("metrics_cases.json"))
def test_the_reference_thresholds(path):
    for case in json.loads(path.read_text(encoding="utf-8"))["thresholds"]:
        labels, scores, expect = case["train_labels"], case["train_scores"], case["expect"]
        if "error" in expect:
            with pytest.raises(ValueError, match=r"train:D1.*LLM, n=3.*no human"):
                Threshold.youden(labels, scores, "train:D1")
            continue
        threshold = Threshold.youden(labels, scores, "train")
        assert threshold.inverted == expect["inverted"]
        if "threshold" in expect:
            assert threshold.value == pytest.approx(expect["threshold"])
        if "prediction_on_any_finite_score" in expect:
            assert not threshold.predict([-1e300, 0, 1e300]).any()


def test_calling_every_poem_a_persons_is_the_papers_33_33():
    """Table 3 holds it for inverted scores: macro-F1 of one class (research on its digits)."""
    labels, scores = of_counts(400, 400, 0, 0)
    inverted = Threshold.youden([0, 0, 1, 1], [0.9, 0.8, 0.2, 0.1], "train")
    assert inverted.as_dict() == {
        "value": None,
        "rule": "youden",
        "fitted_on": "train",
        "inverted": True,
    }
    assert cell(labels, scores).at_threshold(inverted)["macro_f1"].value == pytest.approx(1 / 3)


@given(labelled)
@settings(max_examples=40, deadline=None)
def test_a_threshold_is_as_good_on_its_own_scores_as_any(rows):
    labels, scores = map(np.array, zip(*rows, strict=True))
    false, true, _ = roc_curve(labels, scores)
    called = Threshold.youden(labels, scores, "train").predict(scores)
    best = called[labels == 1].mean() - called[labels == 0].mean()
    assert best == pytest.approx((true - false).max())


def test_a_score_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match="unscored"):
        Threshold.youden([0, 1], [0.1, math.nan], "train")


def test_human_poems_that_score_higher_are_named_inverted_also_where_one_llm_poem_is_on_top():
    scores = [5.0, 6.0, 7.0, 8.0, 0.0, 1.0, 2.0, 3.0, 9.0]
    threshold = Threshold.youden([0] * 4 + [1] * 5, scores, "train")
    assert threshold.inverted
    assert threshold.value == 8.5
    assert not Threshold.youden([0, 0, 1, 1], [0.1, 0.2, 0.8, 0.9], "train").inverted


@pytest.mark.parametrize("low", [0.1, 1e-320, -1.7e308, 1.0 - 2**-53, 5e-324])
def test_two_neighbouring_scores_are_parted(low):
    high = math.nextafter(low, math.inf)
    threshold = Threshold.youden([0, 1], [low, high], "train")
    assert threshold.predict([low, high]).tolist() == [0, 1]


def test_the_largest_scores_are_parted_midway():
    assert Threshold.youden([0, 1], [-1.7e308, 1.7e308], "train").value == 0
    assert math.isfinite(Threshold.youden([0, 1], [1.6e308, 1.7e308], "train").value)


# --- calibration -----------------------------------------------------------------------


def test_calibration_finds_the_logistic_curve_that_made_the_labels():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=20_000)
    labels = (rng.random(20_000) < 1 / (1 + np.exp(-2 * scores))).astype(int)
    platt = Platt.fit(labels, scores, "train")
    assert platt.slope == pytest.approx(2, abs=0.1)
    assert platt.intercept == pytest.approx(0, abs=0.1)
    found = cell(labels, scores, np.arange(20_000) % 10).calibration(platt)
    assert found["ece"].value < 0.01


def test_calibration_agrees_with_scikit_learn():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(1)
    labels = np.repeat([0, 1], [300, 100])
    scores = rng.normal(size=400) + labels
    platt = Platt.fit(labels, scores, "train")
    model = LogisticRegression(C=1e9, class_weight="balanced").fit(scores[:, None], labels)
    # Platt's targets are smoothed by 1 / (n + 2), so the curves are close, not equal.
    assert platt.slope == pytest.approx(model.coef_[0, 0], abs=0.1)
    assert platt.intercept == pytest.approx(model.intercept_[0], abs=0.1)


def test_calibration_is_finite_on_separable_scores_and_never_turns_a_detector():
    platt = Platt.fit([0, 0, 1, 1], [0.0, 0.1, 0.9, 1.0], "train")
    assert 0 < platt.slope < 1e3
    assert platt.probability([0.0]) < 0.5 < platt.probability([1.0])
    inverted = Platt.fit([1, 1, 0, 0], [0.0, 0.1, 0.9, 1.0], "train")
    assert inverted.probability([0.0, 1.0]).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("factor", [1e-300, 1e-30, 1e30, 1e305])
def test_calibration_does_not_mind_how_large_scores_are(factor):
    labels, scores = [0, 1, 0, 1, 0, 1], np.array([0.1, 0.9, 0.4, 0.6, 0.55, 0.5])
    plain = Platt.fit(labels, scores, "train").probability(scores)
    found = Platt.fit(labels, scores * factor, "train").probability(scores * factor)
    np.testing.assert_allclose(found, plain, rtol=1e-6)


def test_the_calibration_error_has_no_interval_and_says_why():
    """Resampling only adds to the size of each bin's error: the truth would lie below."""
    rng = np.random.default_rng(0)
    labels = np.tile([0, 1], 100)
    found = cell(labels, rng.normal(size=200) + labels).calibration(Platt(1.0, -0.5, "train"))
    ece, brier = (found[name].estimate(200, 100) for name in ("ece", "brier"))
    assert (ece.low, ece.high) == (None, None)
    assert "every bin's error" in ece.reason
    assert brier.low < brier.value < brier.high


def test_brier_by_hand():
    """At a probability of a half every poem's squared error is a quarter."""
    flat = Platt(0.0, 0.0, "train")
    found = cell([0, 0, 0, 1], [0.0, 0.1, 0.2, 0.3]).calibration(flat)
    assert found["brier"].value == 0.25
    assert found["ece"].value == pytest.approx(0)  # half of each class's weight is LLM


# --- intervals --------------------------------------------------------------------------


def test_a_groups_poems_come_and_go_together():
    """With one human and one LLM poem a group, every resample has as many of both."""
    labels, groups = np.tile([0, 1], 20), np.repeat(np.arange(20), 2)
    human, llm = cell(labels, np.zeros(40), groups).weight
    np.testing.assert_array_equal(human, [20.0] * 51 + [19.0] * 20)
    np.testing.assert_array_equal(llm, [20.0] * 51 + [19.0] * 20)


def test_draws_do_not_depend_on_the_order_of_the_poems():
    a, b = Draws.of(["x", "y", "z"], 20, 3), Draws.of(["z", "x", "y", "x"], 20, 3)
    assert a.groups == b.groups
    np.testing.assert_array_equal(a.weights, b.weights)


def test_the_difference_of_a_detector_and_itself_is_nothing():
    rng = np.random.default_rng(0)
    one = cell(np.tile([0, 1], 30), rng.normal(size=60)).auroc()
    assert not one.minus(one).resampled.any()


def test_a_paired_interval_is_narrower_than_the_parts_suggest():
    rng = np.random.default_rng(0)
    labels = np.tile([0, 1], 60)
    shared = rng.normal(size=120) + labels
    better = shared + 0.3 * labels
    a, b = (cell(labels, s, resamples=500).auroc() for s in (better, shared))
    low, high, _ = interval(a.minus(b), 120)
    own_low, own_high, _ = interval(a, 120)
    assert 0 < low < high
    assert high - low < (own_high - own_low) / 2


def coverage(n_groups: int, effect: float, rounds: int, metric: str, truth: float) -> float:
    """How often the interval holds the truth, poems of a group sharing half their noise."""
    rng = np.random.default_rng(7)
    labels = np.tile([0, 1, 1], n_groups)
    groups = np.repeat(np.arange(n_groups), 3)
    held = 0
    for _ in range(rounds):
        noise = np.repeat(rng.normal(size=n_groups), 3) + rng.normal(size=3 * n_groups)
        one = cell(
            labels, effect * labels + noise, groups, resamples=400, seed=int(rng.integers(1e9))
        )
        sampled = {
            "auroc": lambda c: c.auroc(),
            "macro_f1": lambda c: c.at_threshold(Threshold(effect / 2, "youden", "train"))[
                "macro_f1"
            ],
        }[metric](one)
        low, high, _ = interval(sampled, n_groups)
        held += low <= truth <= high
    return held / rounds


@pytest.mark.parametrize("n_groups", [30, 100])
@pytest.mark.parametrize("metric", ["auroc", "macro_f1"])
def test_an_interval_holds_the_truth_95_times_in_100(n_groups, metric):
    """Normal scores of variance 2, an LLM's higher by 2: both metrics are known exactly.

    AUROC = P(N(2, 2) > N(0, 2)) = Phi(1); at the midway threshold each class is right
    with probability Phi(1 / sqrt 2), and so is macro-F1. With 400 rounds the count's
    own deviation is 1.1 %, hence 93-97 give or take it.
    """
    phi = {x: 0.5 * (1 + math.erf(x / math.sqrt(2))) for x in (1, 1 / math.sqrt(2))}
    truth = phi[1] if metric == "auroc" else phi[1 / math.sqrt(2)]
    assert 0.92 <= coverage(n_groups, 2.0, 400, metric, truth) <= 0.98


@pytest.mark.parametrize(("n_human", "allowed"), [(20, 0), (40, 1), (60, 2)])
def test_a_rate_at_few_false_positives_has_no_interval(n_human, allowed):
    """With under two human poems to accuse the interval leaves the truth out too often."""
    rng = np.random.default_rng(0)
    labels = np.tile([0, 1], n_human)
    sampled = cell(labels, rng.normal(size=2 * n_human) + labels).tpr_at_fpr(0.05)
    found = sampled.estimate(2 * n_human, n_human)
    assert found.value is not None
    if allowed < 2:
        assert found.low is None
        assert f"{allowed} of {n_human} human poems may be accused" in found.reason
    else:
        assert found.low <= found.value <= found.high


def test_an_interval_is_as_wide_as_the_class_of_fewer_groups_makes_it():
    labels = np.array([0] * 20 + [1] * 20)
    groups = [*range(20), *([0, 1, 2, 3] * 5)]
    assert cell(labels, np.arange(40), groups).n_groups == 4


# --- what has no value says why -----------------------------------------------------------


def test_one_group_gives_a_value_without_an_interval():
    one = cell([0, 1], [0.2, 0.7], ["g", "g"]).auroc().estimate(2, 1)
    assert (one.value, one.low, one.high) == (1.0, None, None)
    assert "1 group" in one.reason


@pytest.mark.parametrize("value", [0.1, 0.7, 1e9 / 3, -1e-9])
def test_equal_values_have_a_mean_without_an_interval(value):
    found = mean_estimate([value] * 7, list("abcdefg"), resamples=100, seed=0)
    assert found.value == pytest.approx(value, rel=1e-12)
    assert (found.low, found.high) == (None, None)
    assert "same value" in found.reason


def test_a_mean_counts_what_has_no_value():
    found = mean_estimate([4.0, None, 5.0, math.nan], ["a", "a", "b", "c"], resamples=50, seed=0)
    assert (found.value, found.n, found.n_unscored) == (4.5, 2, 2)
    nothing = mean_estimate([None, None], ["a", "b"], resamples=50, seed=0)
    assert (nothing.value, nothing.n_unscored) == (None, 2)
    assert nothing.reason


def test_an_estimate_is_never_nan_in_json(tmp_path):
    written = Estimate(math.nan, -math.inf, math.inf, 0, 3, "nothing was scored").as_dict()
    write_metrics(tmp_path / "m.json", {"auroc": written})
    found = json.loads((tmp_path / "m.json").read_text(encoding="utf-8"))["auroc"]
    assert found == {
        "value": None,
        "low": None,
        "high": None,
        "n": 0,
        "n_unscored": 3,
        "reason": "nothing was scored",
    }
    with pytest.raises(ValueError, match="JSON"):
        write_metrics(tmp_path / "m.json", {"auroc": math.nan})


def test_macro_f1_of_a_missing_resample_stays_missing():
    assert np.isnan(macro_f1(math.nan, 0.1, math.nan, 0.9))


def own_reading() -> tuple[list[float], list[float]]:
    """F1 of RoBERTa in Tables 2 and 3, and what Table 2 calls its AUROC, without means."""
    file = files("shiyan") / "data/published/aigenpoetry_detection.tsv"
    rows = [
        row
        for row in csv.DictReader(file.read_text(encoding="utf-8").splitlines(), delimiter="\t")
        if row["detector"] == "roberta" and row["table"] in "23" and row["generator"] != "mean"
    ]

    def percents(metric: str) -> list[float]:
        return [float(row["percent"]) for row in rows if row["metric"] == metric]

    return percents("macro_f1"), percents("auroc_from_labels")


def shared_reading() -> tuple[list[float], list[float]]:
    """The same as another read them."""
    path = SHARED / "cases/aigenpoetry_published.json"
    tables = json.loads(path.read_text(encoding="utf-8"))
    second = {k: v for k, v in tables["table2"]["RoBERTa"].items() if not k.startswith("Avg")}
    cells = [v for k, v in second.items() if k.endswith(".f1")]
    for subset in tables["table3"].values():
        cells += [v for k, v in subset["RoBERTa"].items() if not k.startswith("Avg")]
    return cells, [v for k, v in second.items() if k.endswith(".auroc")]


@pytest.mark.parametrize(
    "reading",
    [
        pytest.param(own_reading, id="own"),
        pytest.param(shared_reading, id="shared", marks=needs_shared),
    ],
)
def test_the_papers_roberta_cells_are_macro_f1_of_400_and_400_poems(reading):
    """Every F1 of Tables 2 and 3 is reached by some counts; AUROC lies on the 1/800 grid."""
    cells, areas = reading()
    assert (len(cells), len(areas)) == (52, 4)
    tp, fp = np.meshgrid(np.arange(401), np.arange(401))
    reachable = set(np.round(100 * macro_f1(tp, fp, 400 - tp, 400 - fp), 2).ravel().tolist())
    assert [cell for cell in cells if cell not in reachable] == []
    for value in areas:
        assert min(abs(8 * value - k) for k in range(801)) < 0.05
