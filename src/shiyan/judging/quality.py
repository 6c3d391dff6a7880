"""Informativeness and Aesthetic of ci, 1-5, by source (CCiV, section 2.3 and Table 3)."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from shiyan.judging.judge import source_of
from shiyan.judging.rubric import CI_QUALITY
from shiyan.metrics import mean_estimate
from shiyan.records import Judgment, Poem

ALL_JUDGES = "all judges"


def evaluate_quality(
    judgments: Sequence[Judgment], poems: Iterable[Poem], *, resamples: int, seed: int
) -> dict[str, Any]:
    """Judge (and the mean of all) -> source -> dimension -> mean score.

    The paper reports means over three judges and three samples; here a poem's repeats
    are averaged first, then judges, and whole groups of poems are resampled. Interval
    and n are over poems.
    """
    poem_of = {poem.poem_id: poem for poem in poems}
    rated = [j for j in judgments if j.rubric == CI_QUALITY.name]
    judges = list(dict.fromkeys(j.judge for j in rated))
    found = {judge: _by_source([j for j in rated if j.judge == judge], poem_of) for judge in judges}
    if len(judges) > 1:
        found[ALL_JUDGES] = _mean_of_judges(found)
    return {
        judge: {
            source: {
                name: mean_estimate(
                    [scores[name] for scores in items.values()],
                    [poem_of[item].group_id for item in items],
                    resamples=resamples,
                    seed=seed,
                ).as_dict()
                for name in CI_QUALITY.names
            }
            for source, items in sources.items()
        }
        for judge, sources in found.items()
    }


Items = dict[str, dict[str, float | None]]
"""Poem -> dimension -> score."""


def _by_source(judgments: Sequence[Judgment], poem_of: Mapping[str, Poem]) -> dict[str, Items]:
    found: dict[str, dict[str, list[Judgment]]] = {}
    for judgment in judgments:
        source = source_of(poem_of[judgment.item_id])
        found.setdefault(source, {}).setdefault(judgment.item_id, []).append(judgment)
    return {
        source: {
            item: {
                name: _mean(j.scores[name] for j in repeats if j.scores)
                for name in CI_QUALITY.names
            }
            for item, repeats in items.items()
        }
        for source, items in found.items()
    }


def _mean_of_judges(judges: Mapping[str, dict[str, Items]]) -> dict[str, Items]:
    """Of the poems as the judges who scored them see them."""
    sources = next(iter(judges.values()))
    return {
        source: {
            item: {
                name: _mean(of_judge[source][item][name] for of_judge in judges.values())
                for name in CI_QUALITY.names
            }
            for item in items
        }
        for source, items in sources.items()
    }


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
