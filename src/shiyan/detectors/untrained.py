"""All detectors that need no training, as the stage zero_shot_score runs them.

The zero-shot scores, and LLMs that are asked. What all of them learn from the train fold is
a threshold, which the evaluation chooses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shiyan.chat import AnyModelParams
from shiyan.config import ZeroShotScoreParams
from shiyan.detectors.asked import ask
from shiyan.detectors.attacked import attack_records, with_attacked
from shiyan.detectors.zero_shot import ZeroShot
from shiyan.records import Assignment, AttackedPoem, DetectorScore, Poem
from shiyan.token_statistics import TextStatistics
from shiyan.work import WorkCache


@dataclass
class Untrained:
    """What scoring left.

    Attributes:
        scores: of every poem by every detector.
        attacked: of every attacked poem, under the id of the poem that was attacked.
        statistics: token statistics of every poem as it is.
        made: how the scores were made.
    """

    scores: list[DetectorScore] = field(default_factory=list)
    attacked: list[DetectorScore] = field(default_factory=list)
    statistics: dict[str, TextStatistics] = field(default_factory=dict)
    made: dict[str, Any] = field(default_factory=dict)


def score_untrained(
    poems: Mapping[str, Poem],
    assignments: Mapping[str, Assignment],
    params: ZeroShotScoreParams,
    models: Mapping[str, AnyModelParams],
    texts: Mapping[str, str],
    cache: WorkCache,
    attacked: Sequence[AttackedPoem] = (),
) -> Untrained:
    """Score every poem, and every attacked one.

    Args:
        models: those that `params.asked` names.
        texts: prompts.detection.
        attacked: poems of the test fold after attacks.

    Raises:
        UserError: a model that cannot be had or asked.
    """
    everything, _ = with_attacked(poems, assignments, attacked)
    zero_shot = ZeroShot.of(params)
    statistics = zero_shot.measure(everything.values(), cache)
    scores = zero_shot.score(everything.values(), statistics)
    made: dict[str, Any] = dict(zero_shot.made)
    if params.asked is not None:
        changed = {p: poem for p, poem in everything.items() if p not in poems}
        asked = ask(poems, changed, assignments, params.asked, models, texts, cache)
        scores += asked.scores
        made |= asked.made
    own = [score for score in scores if score.poem_id in poems]
    after = [score for score in scores if score.poem_id not in poems]
    return Untrained(
        own,
        attack_records(after, attacked, (score.detector for score in own)),
        {poem_id: statistics[poem_id] for poem_id in poems},
        made,
    )
