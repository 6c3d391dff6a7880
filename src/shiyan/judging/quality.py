"""Informativeness and Aesthetic of ci, 1-5, by source (CCiV, section 2.3 and Table 3)."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from shiyan.families import family_of
from shiyan.judging.agreement import ALL_THE_SAME, krippendorff_alpha
from shiyan.judging.rubric import CI_QUALITY
from shiyan.judging.tasks import source_of
from shiyan.metrics import Draws, Estimate, mean_estimate
from shiyan.records import Judgment, Poem

ALL_JUDGES = "all judges"

Ratings = dict[str, dict[str, float]]
"""Poem -> rater -> score."""
Items = dict[str, dict[str, float | None]]
"""Poem -> dimension -> score."""


def evaluate_quality(
    judgments: Sequence[Judgment], poems: Iterable[Poem], *, resamples: int, seed: int
) -> dict[str, Any]:
    """What judges make of ci: means by source, what was parsed, and how far they agree.

    `means` has judge (and the mean of all) -> source -> dimension. A poem's repeats are
    averaged first, then judges, and whole groups of poems are resampled; interval and n
    are over poems. `normal` beside it is the paper's interval, over all judged samples.
    """
    poem_of = {poem.poem_id: poem for poem in poems}
    rated = rated_for_quality(judgments)
    if not rated:
        return {}
    drawn = {"resamples": resamples, "seed": seed}
    by_judge: dict[str, list[Judgment]] = {}
    for judgment in rated:
        by_judge.setdefault(judgment.judge, []).append(judgment)
    if len(by_judge) > 1:
        by_judge[ALL_JUDGES] = rated
    return {
        "means": {judge: _means(own, poem_of, **drawn) for judge, own in by_judge.items()},
        "parsed": {
            judge: _parsed(own, poem_of, **drawn)
            for judge, own in by_judge.items()
            if judge != ALL_JUDGES
        },
        "agreement": _agreement(rated, poem_of, **drawn),
    }


def rated_for_quality(judgments: Iterable[Judgment]) -> list[Judgment]:
    """Those of the judgments that rate a ci and not a reading of one."""
    return [judgment for judgment in judgments if judgment.rubric == CI_QUALITY.name]


def mean_scores(judgments: Iterable[Judgment]) -> Items:
    """Each ci's score on each dimension: of a judge's repeats first, then of the judges."""
    by_judge: dict[str, dict[str, list[Judgment]]] = {}
    for judgment in judgments:
        by_judge.setdefault(judgment.item_id, {}).setdefault(judgment.judge, []).append(judgment)
    return {
        item: {
            name: _mean(
                _mean(scores.get(name) for j in repeats if (scores := j.scores))
                for repeats in judges.values()
            )
            for name in CI_QUALITY.names
        }
        for item, judges in by_judge.items()
    }


def _means(
    judgments: Sequence[Judgment], poem_of: Mapping[str, Poem], *, resamples: int, seed: int
) -> dict[str, Any]:
    by_source: dict[str, list[Judgment]] = {}
    for judgment in judgments:
        by_source.setdefault(source_of(poem_of[judgment.item_id]), []).append(judgment)
    found: dict[str, Any] = {}
    for source, own in by_source.items():
        items = mean_scores(own)
        groups = [family_of(poem_of[item]) for item in items]
        found[source] = {
            name: mean_estimate(
                [scores[name] for scores in items.values()], groups, resamples=resamples, seed=seed
            ).as_dict()
            | {"normal": _normal([j.scores.get(name) if j.scores else None for j in own]).as_dict()}
            for name in CI_QUALITY.names
        }
    return found


def _normal(scores: Sequence[float | None]) -> Estimate:
    """Mean and mean ± 1.96 standard errors over judged samples, as if they were independent."""
    known = [score for score in scores if score is not None]
    missing = len(scores) - len(known)
    if len(known) < 2:
        value = known[0] if known else None
        reason = f"no standard error from {len(known)} samples"
        return Estimate(value, None, None, len(known), missing, reason)
    mean, half = fmean(known), 1.96 * stdev(known) / math.sqrt(len(known))
    return Estimate(mean, mean - half, mean + half, len(known), missing)


def _parsed(
    judgments: Sequence[Judgment], poem_of: Mapping[str, Poem], *, resamples: int, seed: int
) -> dict[str, Any]:
    """The share of judgments with both scores, and why the others have not."""
    whole = [float(j.scores is not None and None not in j.scores.values()) for j in judgments]
    groups = [family_of(poem_of[j.item_id]) for j in judgments]
    reasons = Counter(j.unscored_reason for j in judgments if j.unscored_reason)
    share = mean_estimate(whole, groups, resamples=resamples, seed=seed, kind="share")
    return share.as_dict() | {"unscored_reasons": dict(reasons.most_common())}


def _agreement(
    judgments: Sequence[Judgment], poem_of: Mapping[str, Poem], *, resamples: int, seed: int
) -> dict[str, Any]:
    """Krippendorff's alpha between the judges, and between the repeats of each judge."""
    judges = dict.fromkeys(j.judge for j in judgments)
    draws = Draws.of((family_of(poem_of[j.item_id]) for j in judgments), resamples, seed)
    found: dict[str, Any] = {"between_judges": {}, "between_repeats": {j: {} for j in judges}}
    for name in CI_QUALITY.names:
        means: Ratings = {}
        for judge in judges:
            repeats: Ratings = {}
            for item, sample, score in _scores(judgments, judge, name):
                repeats.setdefault(item, {})[sample] = score
            for item, scores in repeats.items():
                means.setdefault(item, {})[judge] = fmean(scores.values())
            found["between_repeats"][judge][name] = alpha(repeats, poem_of, draws).as_dict()
        found["between_judges"][name] = alpha(means, poem_of, draws).as_dict()
    return found


def _scores(
    judgments: Iterable[Judgment], judge: str, name: str
) -> Iterator[tuple[str, str, float]]:
    """(poem, repeat, score) of one judge and dimension, of what was scored."""
    for judgment in judgments:
        score = judgment.scores.get(name) if judgment.scores else None
        if judgment.judge == judge and score is not None:
            yield judgment.item_id, str(judgment.sample_index), score


def alpha(ratings: Ratings, poem_of: Mapping[str, Poem], draws: Draws) -> Estimate:
    """Krippendorff's alpha for interval data; whole groups of poems are resampled."""
    paired = {item: list(scores.values()) for item, scores in ratings.items() if len(scores) > 1}
    single = len(ratings) - len(paired)
    if len(paired) < 2:
        reason = f"{len(paired)} ci were rated by two"
        return Estimate(None, None, None, len(paired), single, reason)
    group_of = {item: family_of(poem_of[item]) for item in paired}
    sampled, _ = krippendorff_alpha(paired, group_of, draws)
    if math.isnan(sampled.value):
        return Estimate(None, None, None, len(paired), single, ALL_THE_SAME)
    return sampled.estimate(len(paired), len(set(group_of.values())), single)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
