"""Quality of ci, 1-5: means, both intervals, agreement, what was parsed."""

import math

import numpy as np
import pytest

from shiyan.families import family_of
from shiyan.judging.quality import ALL_JUDGES, alpha, evaluate_quality, mean_scores
from shiyan.judging.rubric import CI_QUALITY
from shiyan.metrics import Draws
from shiyan.records import Generation, Judgment, Poem

INFORMATIVE, AESTHETIC = CI_QUALITY.names


def ci(poem_id: str, prompt_id: str = "form_aware") -> Poem:
    generation = Generation(
        generator="g", prompt_id=prompt_id, seed_poem_id=None, sample_index=0, reply_sha256="0"
    )
    return Poem(
        poem_id=poem_id,
        title="如梦令",
        text="小楼听雨。",
        genre="ci",
        author="g",
        cipai=f"词{poem_id}",
        generation=generation,
    )


POEMS = [ci(f"p{n}") for n in range(4)]


def rating(item: str, judge: str, scores: tuple[float | None, float | None] | None, sample=0):
    return Judgment(
        judgment_id=f"{item}/{judge}/{sample}",
        item_id=item,
        judge=judge,
        rubric="ci_quality",
        prompt_id="quality",
        sample_index=sample,
        scores=dict(zip(CI_QUALITY.names, scores, strict=True)) if scores else None,
        unscored_reason=None if scores and None not in scores else "no score was found",
        reply="",
    )


RATED = [
    *(rating(f"p{n}", "甲", (n + 1.0, 3.0)) for n in range(4)),
    *(rating(f"p{n}", "甲", (n + 1.0, 4.0), sample=1) for n in range(4)),
    *(rating(f"p{n}", "乙", (n + 2.0, 2.0)) for n in range(3)),
    rating("p3", "乙", (None, 2.0)),
]


def test_repeats_are_averaged_first_and_then_judges():
    assert mean_scores(RATED)["p0"] == {INFORMATIVE: 1.5, AESTHETIC: 2.75}
    assert mean_scores(RATED)["p3"] == {INFORMATIVE: 4, AESTHETIC: 2.75}
    found = evaluate_quality(RATED, POEMS, resamples=200, seed=0)["means"]
    assert found["甲"]["g form_aware"][INFORMATIVE]["value"] == 2.5
    assert found["乙"]["g form_aware"][INFORMATIVE]["value"] == 3
    assert found["乙"]["g form_aware"][INFORMATIVE]["n_unscored"] == 1
    assert found[ALL_JUDGES]["g form_aware"][AESTHETIC]["value"] == 2.75


def test_the_papers_interval_is_over_all_judged_samples():
    """1, 2, 3, 4, each twice: mean 2.5, s² = 10 / 7, n = 8."""
    found = evaluate_quality(RATED, POEMS, resamples=200, seed=0)["means"]["甲"]
    normal = found["g form_aware"][INFORMATIVE]["normal"]
    half = 1.96 * math.sqrt(10 / 7 / 8)
    assert (normal["value"], normal["n"]) == (2.5, 8)
    assert (normal["low"], normal["high"]) == pytest.approx((2.5 - half, 2.5 + half))


def test_what_was_not_parsed_is_told_with_its_reason():
    parsed = evaluate_quality(RATED, POEMS, resamples=200, seed=0)["parsed"]
    assert parsed["甲"]["value"] == 1
    assert (parsed["乙"]["value"], parsed["乙"]["n"]) == (0.75, 4)
    assert parsed["乙"]["unscored_reasons"] == {"no score was found": 1}


def test_agreement_is_between_judges_and_between_repeats():
    found = evaluate_quality(RATED, POEMS, resamples=200, seed=0)["agreement"]
    between = found["between_judges"][INFORMATIVE]
    assert (between["n"], between["n_unscored"]) == (3, 1)
    assert found["between_repeats"]["甲"][INFORMATIVE]["value"] == 1
    assert "rated by two" in found["between_repeats"]["乙"][INFORMATIVE]["reason"]


def test_alpha_by_hand():
    """Pairs (1, 2) and (4, 4): observed (2 + 0) / 4, expected 60 / 12 of all pairs."""
    ratings = {"p0": {"a": 1.0, "b": 2.0}, "p1": {"a": 4.0, "b": 4.0}, "p2": {"a": 1.0}}
    poem_of = {poem.poem_id: poem for poem in POEMS}
    draws = Draws.of((family_of(poem) for poem in POEMS), 50, 0)
    found = alpha(ratings, poem_of, draws)
    values = [1, 2, 4, 4]
    expected = sum((x - y) ** 2 for x in values for y in values) / 12
    assert found.value == pytest.approx(1 - 0.5 / expected)
    assert (found.n, found.n_unscored) == (2, 1)


def test_alpha_of_krippendorffs_own_example():
    """Computing Krippendorff's Alpha-Reliability (2011): 0.849 for interval data."""
    observers = {"A": "123321412...", "B": "1233224125.3", "C": ".3332342251.", "D": "12332441251."}
    poems = [ci(f"p{unit}") for unit in range(12)]
    ratings = {
        poem.poem_id: {
            name: float(row[unit]) for name, row in observers.items() if row[unit] != "."
        }
        for unit, poem in enumerate(poems)
    }
    draws = Draws.of((family_of(poem) for poem in poems), 50, 0)
    found = alpha(ratings, {poem.poem_id: poem for poem in poems}, draws)
    assert round(found.value or 0, 3) == 0.849
    assert (found.n, found.n_unscored) == (11, 1)


def alpha_by_definition(units: list[list[float]]) -> float:
    """1 - observed / expected, over ordered pairs within units and of all values."""

    def squares(values: list[float]) -> float:
        return sum((x - y) ** 2 for x in values for y in values)

    rated = [value for unit in units for value in unit]
    observed = sum(squares(unit) / (len(unit) - 1) for unit in units) / len(rated)
    return 1 - observed / (squares(rated) / (len(rated) * (len(rated) - 1)))


@pytest.mark.parametrize("seed", range(20))
def test_alpha_is_its_definition_on_random_scores(seed):
    rng = np.random.default_rng(seed)
    units = [rng.integers(1, 6, rng.integers(2, 6)) + rng.random() for _ in range(10)]
    poems = [ci(f"p{n}") for n in range(10)]
    ratings = {
        poem.poem_id: {str(rater): float(score) for rater, score in enumerate(unit)}
        for poem, unit in zip(poems, units, strict=True)
    }
    draws = Draws.of((family_of(poem) for poem in poems), 10, 0)
    found = alpha(ratings, {poem.poem_id: poem for poem in poems}, draws)
    expected = alpha_by_definition([unit.tolist() for unit in units])
    assert found.value == pytest.approx(expected, rel=0, abs=1e-12)


def test_alpha_of_equal_scores_is_none():
    same = {f"p{n}": {"a": 3.0, "b": 3.0} for n in range(3)}
    draws = Draws.of((family_of(poem) for poem in POEMS), 50, 0)
    found = alpha(same, {poem.poem_id: poem for poem in POEMS}, draws)
    assert found.value is None
    assert "every rating is the same" in (found.reason or "")


def test_nothing_rated_is_nothing_told():
    assert evaluate_quality([], POEMS, resamples=50, seed=0) == {}
