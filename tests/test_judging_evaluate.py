"""Numbers of a judge run: by hand, by another road, and with nothing where there is nothing."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from shiyan.correlation import spearman
from shiyan.errors import UserError
from shiyan.judging.agreement import krippendorff_alpha
from shiyan.judging.evaluate import Evaluation, write_error_table
from shiyan.judging.rubric import POLLER
from shiyan.metrics import Draws, write_metrics
from shiyan.records import HumanRating, Judgment, Understanding

SETTINGS = {"resamples": 200, "seed": 0}


def reading(item, poem, reader="r", source="generated", dimension="all") -> Understanding:
    return Understanding(
        item_id=item, poem_id=poem, reader=reader, text="…", source=source, dimension=dimension
    )


def judgment(item, value, judge="j", prompt="P0", sample=0, **changes) -> Judgment:
    """`value` is one number for all dimensions, a list of eight, or None."""
    values = value if isinstance(value, list) else [value] * 8
    scores = None if value is None else dict(zip(POLLER.names, values, strict=True))
    fields = {
        "judgment_id": f"{item}/{judge}/{prompt}/{sample}", "item_id": item, "judge": judge,
        "rubric": "poller", "prompt_id": prompt, "sample_index": sample, "scores": scores,
        "unscored_reason": None if scores else "no score", "reply": "",
    }  # fmt: skip
    return Judgment.model_validate(fields | changes)


def rating(item, value, rater="a", source="human") -> HumanRating:
    values = value if isinstance(value, list) else [value] * 8
    scores = dict(zip(POLLER.names, values, strict=True))
    return HumanRating(item_id=item, rater_id=rater, rubric="poller", scores=scores, source=source)


def evaluation(judgments, readings, ratings=(), families=None) -> Evaluation:
    return Evaluation(judgments, readings, ratings, POLLER, families or {}, **SETTINGS)


THREE = [reading(f"u{n}", f"p{n}") for n in range(3)]


def test_errors_by_hand():
    """|mean - mean| lets opposite errors cancel; the mean of |differences| does not."""
    found = evaluation(
        [judgment("u0", 90), judgment("u1", 70), judgment("u2", 80)],
        THREE,
        [rating("u0", 80), rating("u1", 80), rating("u2", 80)],
    ).of_cell(("j", "P0"))["human"]
    assert found["error"]["内容"]["value"] == 0
    assert found["mean_absolute_error"]["内容"]["value"] == pytest.approx(20 / 3)
    assert found["bias"]["内容"]["value"] == 0
    assert found["error"]["内容"]["n"] == 3
    assert found["spearman"]["内容"]["reason"].endswith("one score")


@pytest.mark.parametrize("shift", [0, 5, -30])
def test_an_errors_interval_is_its_biass_without_the_sign(shift):
    """A judge whose errors cancel may have none: the interval begins at 0, not above it."""
    many = [reading(f"u{n}", f"p{n}") for n in range(12)]
    judged = [judgment(f"u{n}", 60 + shift + (n % 5) * 4 - 8) for n in range(12)]
    human = [rating(f"u{n}", 60) for n in range(12)]
    found = evaluation(judged, many, human).of_cell(("j", "P0"))["human"]
    error, bias = found["error"]["内容"], found["bias"]["内容"]
    assert error["value"] == abs(bias["value"])
    if bias["low"] <= 0 <= bias["high"]:
        assert error["low"] == 0
        assert error["high"] == max(-bias["low"], bias["high"])
    else:
        assert [error["low"], error["high"]] == sorted((abs(bias["low"]), abs(bias["high"])))
    assert (error["low"] == 0) == (shift == 0)


def test_the_average_is_the_mean_of_errors_not_the_error_of_the_mean():
    low_and_high = [60, 60, 60, 60, 100, 100, 100, 100]
    found = evaluation([judgment("u0", low_and_high)], THREE[:1], [rating("u0", 80)])
    errors = found.of_cell(("j", "P0"))["human"]["error"]
    assert errors["Avg"]["value"] == 20
    assert errors["Avg"]["low"] is None
    assert "1 group" in errors["Avg"]["reason"]


def test_an_unscored_judgment_is_left_out_and_counted():
    found = evaluation(
        [judgment("u0", 90), judgment("u1", None), judgment("u2", [None] + [70] * 7)],
        THREE,
        [rating("u0", 80), rating("u1", 80), rating("u2", 80)],
    )
    cell = found.of_cell(("j", "P0"))
    assert cell["parsed"]["value"] == pytest.approx(1 / 3)
    assert cell["generated"]["mean"]["内容"] | {"low": None, "high": None} == {
        "value": 90, "low": None, "high": None, "n": 1, "n_unscored": 2,
        "reason": "no interval from 1 group",
    }  # fmt: skip
    assert cell["human"]["error"]["内容"]["n_unscored"] == 2
    assert cell["human"]["error"]["语言"]["n"] == 2
    counts = found.counts()
    assert (counts["judgments"], counts["n_unscored"], counts["partly_scored"]) == (3, 2, 1)
    assert found.notices() == [
        "j with P0: 2 of 3 judgments have no full set of scores, most often: no score"
    ]


def test_reasons_are_counted_by_kind():
    reasons = [
        "内容、语言: a range (70-80); 节奏: no score", "意象: a range (85到90分)", None,
        "there is no persona of '乙'", "too_long: the prompt of 5,000 tokens does not fit",
        "内容: 120 is off the scale 0-100", "内容: two verdicts disagree (90, 80)",
        "no score (the reply was cut off)",
        "内容: named without a score; asked again: too_long: 节奏: 9 tokens; too many",
    ]  # fmt: skip
    judgments = [judgment(f"u{n}", None, unscored_reason=r) for n, r in enumerate(reasons)]
    found = evaluation(judgments, [reading(f"u{n}", "p0") for n in range(len(reasons))])
    assert found.unscored_kinds() == {
        "a range": 2, "no score": 2, "there is no persona": 1,
        "too_long": 1, "is off the scale": 1, "two verdicts disagree": 1,
        "named without a score": 1, "asked again: too_long": 1,
    }  # fmt: skip


def test_reduction_against_p0():
    judgments = [judgment("u0", 90), judgment("u0", 84, prompt="P3")]
    found = evaluation(judgments, THREE[:1], [rating("u0", 80)])
    changed = found.of_cell(("j", "P3"))["human"]
    assert changed["reduction_percent"]["内容"]["value"] == pytest.approx(60)
    assert changed["reduction_percent"]["Avg"]["value"] == pytest.approx(60)
    assert changed["difference_to_P0"]["内容"]["value"] == pytest.approx(-6)
    assert "reduction_percent" not in found.of_cell(("j", "P0"))["human"]
    best = found.best("human")["内容"]
    assert (best["judge"], best["prompt"], best["difference_to_P0"]["value"]) == ("j", "P3", -6)


SIX = [reading(f"u{n}", f"p{n}") for n in range(6)]
RATED = [rating(f"u{n}", 80) for n in range(6)]


def test_what_is_compared_is_compared_on_the_same_items():
    """P3 gives what P0 gives, but for one item that it does not score and P0 misses by 80."""
    judgments = [
        *(judgment(f"u{n}", 85) for n in range(5)), judgment("u5", 0),
        *(judgment(f"u{n}", 85, prompt="P3") for n in range(5)), judgment("u5", None, prompt="P3"),
    ]  # fmt: skip
    found = evaluation(judgments, SIX, RATED)
    changed = found.of_cell(("j", "P3"))["human"]
    for name in ("内容", "Avg"):
        for key in ("difference_to_P0", "reduction_percent"):
            told = changed[key][name]
            assert (told["value"], told["n"], told["n_unscored"]) == (0, 5, 1), key
    baseline = found.of_cell(("j", "P0"))["human"]["error"]["内容"]
    assert baseline["value"] == pytest.approx(abs(5 * 5 - 80) / 6), "alone, on all its own items"


def test_prompts_without_a_common_item_cannot_be_compared():
    judgments = [judgment("u0", 85), judgment("u1", None),
                 judgment("u0", None, prompt="P3"), judgment("u1", 85, prompt="P3")]  # fmt: skip
    found = evaluation(judgments, SIX[:2], RATED[:2]).of_cell(("j", "P3"))["human"]
    for key in ("difference_to_P0", "reduction_percent"):
        told = found[key]["内容"]
        assert (told["value"], told["n"], told["n_unscored"]) == (None, 0, 2)
        assert told["reason"] == "no item was scored by both"


def test_an_error_of_p0_that_is_0_cannot_shrink():
    judgments = [judgment("u0", 80), judgment("u0", 85, prompt="P3")]
    found = evaluation(judgments, SIX[:1], RATED[:1]).of_cell(("j", "P3"))["human"]
    told = found["reduction_percent"]["内容"]
    assert (told["value"], told["reason"]) == (None, "the error of P0 is 0 and cannot shrink")
    assert found["difference_to_P0"]["内容"]["value"] == 5


def test_one_item_judged_right_makes_no_best_judge():
    judgments = [
        *(judgment(f"u{n}", 82) for n in range(6)),
        judgment("u0", 80, judge="k"), *(judgment(f"u{n}", None, judge="k") for n in range(1, 6)),
        *(judgment(f"u{n}", 85, judge="l") for n in range(5)), judgment("u5", None, judge="l"),
    ]  # fmt: skip
    for name in ("内容", "Avg"):
        best = evaluation(judgments, SIX, RATED).best("human")[name]
        assert (best["judge"], best["error"]["value"], best["error"]["n"]) == ("j", 2, 6)
        assert best["left_out"] == [{"judge": "k", "prompt": "P0", "n": 1}]
        second = best["runner_up"]
        assert (second["judge"], second["difference"]["value"]) == ("l", -3)
        assert (second["difference"]["n"], second["difference"]["n_unscored"]) == (5, 1)


def test_prompts_are_compared_with_each_other():
    by_prompt = {"P0": 90, "P1": 86, "P3": 82}
    judgments = [judgment(f"u{n}", v + n, prompt=p) for p, v in by_prompt.items() for n in range(3)]
    found = evaluation(judgments, SIX, RATED).metrics({})["between_prompts"]["human"]
    assert list(found) == ["j"]
    assert list(found["j"]) == ["P3 - P1"], "P0 stands with each prompt"
    told = found["j"]["P3 - P1"]["Avg"]
    assert (told["value"], told["n"], told["n_unscored"]) == (-4, 3, 3)


def test_the_average_rests_on_no_more_items_than_its_least_dimension():
    readings, ratings = SIX[:2], RATED[:2]
    apart = [judgment("u0", [75] + [None] * 7), judgment("u1", [None] + [70] * 7)]
    cell = evaluation(apart, readings, ratings).of_cell(("j", "P0"))
    assert cell["generated"]["mean"]["Avg"]["value"] == pytest.approx((75 + 7 * 70) / 8)
    for told in (cell["generated"]["mean"]["Avg"], cell["human"]["error"]["Avg"]):
        assert (told["n"], told["n_unscored"]) == (1, 1)
    content = [judgment(f"u{n}", [80] + [60 if n == 0 else None] * 7) for n in range(6)]
    error = evaluation(content, SIX, RATED).of_cell(("j", "P0"))["human"]["error"]
    assert (error["内容"]["n"], error["语言"]["n"]) == (6, 1)
    assert (error["Avg"]["value"], error["Avg"]["n"], error["Avg"]["n_unscored"]) == (17.5, 1, 5)


def test_without_a_dimension_there_is_no_average():
    cell = evaluation([judgment("u0", [75] * 7 + [None])], SIX[:1], RATED[:1]).of_cell(("j", "P0"))
    for told in (cell["generated"]["mean"]["Avg"], cell["human"]["error"]["Avg"]):
        assert (told["value"], told["n"], told["n_unscored"]) == (None, 0, 1)
        assert told["reason"] == "nothing was scored on a dimension"


def test_raters_are_averaged_and_missing_cells_left_out():
    ratings = [rating("u0", 70), rating("u0", [None] + [90] * 7, rater="b")]
    found = evaluation([judgment("u0", 85)], THREE[:1], ratings)
    bias = found.of_cell(("j", "P0"))["human"]["bias"]
    assert bias["内容"]["value"] == 15
    assert bias["语言"]["value"] == 5


def test_the_constructed_reference_is_named_and_is_about_content_only():
    readings = [*THREE, *(reading(f"c{n}", f"p{n}", source="constructed") for n in range(3))]
    judgments = [
        *(judgment(f"u{n}", 80) for n in range(3)),
        judgment("c0", 10), judgment("c1", 30), judgment("c2", 90),
    ]  # fmt: skip
    found = evaluation(judgments, readings)
    cell = found.of_cell(("j", "P0"))
    assert cell["constructed"]["source"] == "constructed"
    assert set(cell["constructed"]["absolute_error"]) == {"内容"}
    assert cell["constructed"]["absolute_error"]["内容"]["value"] == pytest.approx(130 / 3)
    assert "human" not in cell
    gap = cell["generated_minus_constructed"]["内容"]
    assert gap["value"] == pytest.approx(80 - 130 / 3)
    assert gap["share_higher"]["value"] == pytest.approx(2 / 3)
    assert cell["generated"]["mean"]["Avg"]["value"] == 80
    assert found.error_rows() == [
        {"judge": "j", "prompt": "P0", "dimension": "内容", "source": "constructed",
         "error": pytest.approx(130 / 3), "n": 3}
    ]  # fmt: skip
    assert found._rated_sources() == []


def test_spearman_agrees_with_scipy_also_on_resamples():
    rng = np.random.default_rng(1)
    first, second = rng.integers(0, 5, 12).astype(float), rng.normal(size=12)
    poems = [f"p{n % 6}" for n in range(12)]
    draws = Draws.of(poems, 20, 0)
    columns = draws.columns(poems)
    found = spearman(first, second, columns, draws)
    assert found.value == pytest.approx(spearmanr(first, second).statistic)
    for row, value in zip(draws.resampled, found.resampled, strict=True):
        times = row[columns].astype(int)
        expected = spearmanr(np.repeat(first, times), np.repeat(second, times)).statistic
        assert value == pytest.approx(expected)


def test_krippendorffs_alpha():
    """By its definition: observed over expected squared differences, pair by pair."""
    ratings = {"a": [1.0, 2.0], "b": [3.0, 3.0, 4.0], "c": [2.0], "d": [5.0, 5.0]}
    poem_of = dict.fromkeys("abcd", "p")
    draws = Draws.of(["p"], 10, 0)
    alpha, n = krippendorff_alpha(ratings, poem_of, draws)
    values = [v for unit in ratings.values() if len(unit) > 1 for v in unit]
    pairs = [(x - y) ** 2 for i, x in enumerate(values) for j, y in enumerate(values) if i != j]
    expected = sum(pairs) / (len(values) * (len(values) - 1))
    observed = sum(
        sum((x - y) ** 2 for i, x in enumerate(u) for j, y in enumerate(u) if i != j) / (len(u) - 1)
        for u in ratings.values()
        if len(u) > 1
    ) / len(values)
    assert alpha.value == pytest.approx(1 - observed / expected)
    assert n == 3
    perfect, _ = krippendorff_alpha({"a": [1.0, 1.0], "b": [4.0, 4.0]}, {"a": "p", "b": "p"}, draws)
    assert perfect.value == 1


@pytest.mark.parametrize("value", [77.77, 79.9, 80.1, 0.1, 100.0, 0.0])
def test_raters_who_give_everything_the_same_do_not_agree_by_rounding(value):
    ratings = [rating(f"u{n}", value, rater=r) for n in range(6) for r in "abc"]
    told = evaluation([], SIX, ratings).agreement("human")["krippendorff_alpha"]["内容"]
    assert (told["value"], told["low"], told["n"]) == (None, None, 6)
    assert told["reason"].startswith("every rating is the same")


def test_an_interval_that_few_resamples_have_is_not_given_and_says_why():
    """Two of three resamples hold the reading alone to which both raters give one score."""
    ratings = {"u0": [80.0, 80.0], "u1": [60.0, 70.0]}
    rare = Draws(("p0", "p1"), np.tile(np.float32([[2, 0], [2, 0], [1, 1]]), (100, 1)))
    alpha, _ = krippendorff_alpha(ratings, {"u0": "p0", "u1": "p1"}, rare)
    told = alpha.estimate(2, 2)
    assert told.value is not None
    assert (told.low, told.reason) == (
        None,
        "no interval: in 200 of 300 resamples every rating is the same",
    )
    columns = rare.columns(["p0", "p0", "p1"])
    rho = spearman(np.array([1.0, 1.0, 2.0]), np.array([3.0, 4.0, 5.0]), columns, rare)
    assert rho.estimate(3, 2).reason == "no interval: in 200 of 300 resamples one score is constant"


def test_agreement_does_not_depend_on_where_the_scale_begins():
    """Also on resamples, of which some hold one value alone."""
    given = {f"u{n}": [v, v + 0.1, v - 0.1] for n, v in enumerate([1.0, 1.0, 1.0, 1.0, 1.0, 1.5])}
    poem_of = {item: item for item in given}
    draws = Draws.of(poem_of, 200, 0)
    low, _ = krippendorff_alpha(given, poem_of, draws)
    moved = {item: [v + 90 for v in values] for item, values in given.items()}
    high, _ = krippendorff_alpha(moved, poem_of, draws)
    assert high.value == pytest.approx(low.value)
    np.testing.assert_allclose(high.resampled, low.resampled, atol=1e-4)


def test_tokens_are_counted_of_all_that_was_judged():
    took = {"prompt_tokens": 100, "completion_tokens": 10}
    judgments = [
        judgment("u0", 80, **took),
        judgment("u0|probe|empty", 10, **took, cached_tokens=30),
        judgment("u1", None, prompt="quality", rubric="ci_quality", **took),
    ]
    found = evaluation(judgments, THREE)
    assert found.counts()["prompt_tokens"] == 300
    assert found.counts()["cached_tokens"] == 30
    assert found.tokens() == {
        kind: {"judgments": 1, "cached_tokens": 30 if kind == "probes" else 0} | took
        for kind in ("readings", "probes", "quality")
    }


def test_a_poems_quality_is_no_judgment_of_a_reading_of_its_name():
    judgments = [judgment("u0", 80), judgment("u1", 80), judgment("u0", 4, rubric="ci_quality",
                 prompt="quality")]  # fmt: skip
    found = evaluation(judgments, THREE)
    assert found.cells == [("j", "P0")]
    assert found.counts()["judgments"] == 2


def test_repeats_and_their_spread():
    judgments = [judgment("u0", 80, sample=0), judgment("u0", 90, sample=1)]
    cell = evaluation(judgments, THREE[:1]).of_cell(("j", "P0"))
    assert cell["generated"]["mean"]["内容"]["value"] == 85
    assert cell["spread_over_repeats"]["内容"]["value"] == pytest.approx(50**0.5)


def test_the_spread_of_a_dimension_is_over_what_was_asked_of_it():
    readings = [THREE[0], *(reading(f"s{n}", f"p{n}", dimension="修辞手法") for n in (0, 1))]
    alone = [
        judgment(f"s{n}", 0, sample=k).model_copy(update={"scores": {"修辞手法": 60.0 + 10 * k}})
        for n in (0, 1)
        for k in (0, 1)
    ]
    whole = [judgment("u0", 80, sample=0), judgment("u0", 90, sample=1)]
    spread = evaluation([*whole, *alone], readings).spread(("j", "P0"))
    assert (spread["内容"]["n"], spread["内容"]["n_unscored"]) == (1, 0)
    assert (spread["修辞手法"]["n"], spread["修辞手法"]["n_unscored"]) == (3, 0)


FAVOURS = [reading("u0", "p0", reader="mine"), reading("u1", "p1", reader="theirs")]
FAMILIES = {"j": "f", "mine": "f", "k": "g", "theirs": "g", "n": "h"}


def test_self_preference_is_what_neutral_judges_do_not_share():
    """j favours its own by 10; k is fair, and j's favour is no merit of k's own family."""
    judgments = [
        judgment("u0", 90), judgment("u1", 80),
        *(judgment(item, 80, judge=judge) for item in ("u0", "u1") for judge in ("k", "n")),
    ]  # fmt: skip
    found = evaluation(judgments, FAVOURS, families=FAMILIES)
    assert found.self_preference(("j", "P0"))["value"] == 10
    assert found.self_preference(("k", "P0"))["value"] == 0
    assert found.self_preference(("n", "P0")) == {}, "it has written no reading"


def test_two_families_do_not_tell_who_favours_whom():
    judgments = [judgment(i, v, judge=j) for j, v in (("j", 90), ("k", 80)) for i in ("u0", "u1")]
    found = evaluation(judgments, FAVOURS, families=FAMILIES)
    for judge in "jk":
        told = found.self_preference((judge, "P0"))
        assert (told["value"], told["n"], told["n_unscored"]) == (None, 0, 2)
        assert told["reason"].endswith("who favours whom cannot be told")
    assert evaluation(judgments[:2], FAVOURS, families=FAMILIES).self_preference(("j", "P0")) == {}


def test_a_reading_that_nobody_neutral_scored_is_unscored_in_self_preference():
    own = [reading(f"u{n}", f"p{n}", reader="mine") for n in range(2)]
    judgments = [
        judgment("u0", 90), judgment("u1", 90), judgment("u2", 70),
        judgment("u0", 80, judge="n"), judgment("u1", None, judge="n"),
        judgment("u2", 70, judge="n"),
    ]  # fmt: skip
    found = evaluation(judgments, [*own, reading("u2", "p2", reader="poet")], families=FAMILIES)
    told = found.self_preference(("j", "P0"))
    assert (told["value"], told["n"], told["n_unscored"]) == (10, 2, 1)


def test_one_dimension_at_a_time_is_paired_by_poem():
    readings = [*THREE[:2], *(reading(f"s{n}", f"p{n}", dimension="节奏") for n in (0, 2))]
    alone = [judgment(f"s{n}", 0).model_copy(update={"scores": {"节奏": 86.0}}) for n in (0, 2)]
    found = evaluation([judgment("u0", 78), judgment("u1", 10), *alone], readings)
    table = found.one_dimension(("j", "P0"))
    assert set(table) == {"节奏"}
    assert table["节奏"]["difference"]["value"] == 8
    assert table["节奏"]["difference"]["n"] == 1


def test_a_reading_of_one_dimension_without_a_score_is_counted():
    four = range(4)
    readings = [
        *(reading(f"u{n}", f"p{n}") for n in four),
        *(reading(f"s{n}", f"p{n}", dimension="节奏") for n in four),
    ]
    alone = [
        judgment(f"s{n}", 0).model_copy(update={"scores": {"节奏": 86.0} if n < 2 else None})
        for n in four
    ]
    found = evaluation([*(judgment(f"u{n}", 78 + 10 * n) for n in four), *alone], readings)
    for told in found.one_dimension(("j", "P0"))["节奏"].values():
        assert (told["n"], told["n_unscored"]) == (2, 2)
    columns = found.one_dimension(("j", "P0"))["节奏"]
    assert columns["all_dimensions"]["value"] == 83, "on the same two poems"
    assert columns["difference"]["value"] == 3


def test_ratings_that_fit_nothing_are_named():
    found = evaluation([judgment("u0", 80)], THREE[:1], [rating("u0", 80), rating("x9", 80)])
    assert found.notices() == ["1 rated items have no reading and are not used: x9"]
    with pytest.raises(UserError, match="'u0' by 'a' gives 内容 101; allowed is 0 to 100"):
        evaluation([], THREE[:1], [rating("u0", 101)])
    odd = rating("u0", 1).model_copy(update={"scores": {"情绪": 1.0}})
    with pytest.raises(UserError, match="names '情绪', which is no dimension of poller"):
        evaluation([], THREE[:1], [odd])
    english = rating("u0", 1).model_copy(update={"scores": {"Content": 60.0}})
    found = evaluation([judgment("u0", 80)], THREE[:1], [english])
    assert found.of_cell(("j", "P0"))["human"]["bias"]["内容"]["value"] == 20


@pytest.mark.parametrize("readings", [[], THREE], ids=["no readings", "nothing judged"])
def test_nothing_gives_a_file_without_numbers(readings, tmp_path):
    found = evaluation([], readings)
    write_metrics(tmp_path / "judge.json", found.metrics({"judge j": "x"}))
    metrics = json.loads((tmp_path / "judge.json").read_text(encoding="utf-8"))
    assert metrics["judges"] == {}
    assert metrics["counts"]["judgments"] == 0
    write_error_table(tmp_path / "errors.csv", found.error_rows())
    assert Path(tmp_path / "errors.csv").read_text(encoding="utf-8") == (
        "judge,prompt,dimension,source,error,n\n"
    )


def test_intervals_do_not_depend_on_the_order_of_judgments():
    rng = np.random.default_rng(0)
    readings = [reading(f"u{n}", f"p{n}") for n in range(8)]
    judgments = [judgment(f"u{n}", float(rng.integers(60, 100))) for n in range(8)]
    ratings = [rating(f"u{n}", 75) for n in range(8)]
    one = evaluation(judgments, readings, ratings).metrics({})
    other = evaluation(judgments[::-1], readings[::-1], ratings[::-1]).metrics({})
    first = one["judges"]["j"]["P0"]["human"]["error"]["Avg"]
    assert first == other["judges"]["j"]["P0"]["human"]["error"]["Avg"]
    assert first["low"] < first["value"] < first["high"]
