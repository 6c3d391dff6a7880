"""All detectors that need no training, as the stage zero_shot_score runs them.

The zero-shot scores, and LLMs that are asked. What all of them learn from the train fold is
a threshold, which the evaluation chooses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shiyan.config import AnyModelParams, ZeroShotScoreParams
from shiyan.detectors.asked import ask, detector_name
from shiyan.detectors.attacked import attack_records, with_attacked
from shiyan.detectors.identity import ByRole, Weights
from shiyan.detectors.memorisation import memorised
from shiyan.detectors.zero_shot import OF_A_PAIR, Roles, ZeroShot, text_of
from shiyan.records import Assignment, AttackedPoem, DetectorScore, Memorisation, Poem
from shiyan.token_statistics import TextStatistics
from shiyan.work import WorkCache

PAIR_ROLES = {"fast": ("reference", "scoring"), "binoculars": ("observer", "performer")}
"""What the two models of a pair are called."""


@dataclass
class Untrained:
    """What scoring left.

    Attributes:
        scores: of every poem by every detector.
        attacked: of every attacked poem, under the id of the poem that was attacked.
        statistics: token statistics of every poem as it is.
        memorised: what each scoring model would recite of each poem.
        made: how the scores were made.
    """

    scores: list[DetectorScore] = field(default_factory=list)
    attacked: list[DetectorScore] = field(default_factory=list)
    statistics: dict[str, TextStatistics] = field(default_factory=dict)
    memorised: list[Memorisation] = field(default_factory=list)
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
        asked_of = dict(everything)
        if params.text == "unpunctuated":
            asked_of = {
                p: poem.model_copy(update={"text": text_of(poem, params.text)})
                for p, poem in everything.items()
            }
        own = {p: asked_of[p] for p in poems}
        changed = {p: poem for p, poem in asked_of.items() if p not in poems}
        asked = ask(own, changed, assignments, params.asked, models, texts, cache)
        scores += asked.scores
        made |= asked.made
    plain = [score for score in scores if score.poem_id in poems]
    after = [score for score in scores if score.poem_id not in poems]
    return Untrained(
        plain,
        attack_records(after, attacked, (score.detector for score in plain)),
        {poem_id: statistics[poem_id] for poem_id in poems},
        memorised(zero_shot, poems.values(), statistics),
        made,
    )


def named(params: ZeroShotScoreParams) -> list[str]:
    """Every model that a detector of these params uses, each once."""
    asked = params.asked.models if params.asked else ()
    zero_shot = (name for roles in _by_role(params).values() for name in roles.values())
    return list(dict.fromkeys([*zero_shot, *asked]))


def weights_of(
    params: ZeroShotScoreParams, models: Mapping[str, AnyModelParams]
) -> dict[str, ByRole]:
    """The models of every zero-shot detector, of their fusion, and of the LLMs that are asked.

    Args:
        models: those of `named`, at least.
    """
    weights = {name: Weights.of(name, models[name]) for name in named(params)}
    found: dict[str, ByRole] = {
        detector: {role: weights[name] for role, name in roles.items()}
        for detector, roles in _by_role(params).items()
    }
    # The evaluation fuses their scores.
    found["fusion"] = {
        f"{role} of {detector}": model
        for detector, roles in found.items()
        for role, model in roles.items()
    }
    if params.asked is not None:
        found |= {
            detector_name(name, shots): {"asked": weights[name]}
            for name in params.asked.models
            for shots in params.asked.shots
        }
    return found


def _by_role(params: ZeroShotScoreParams) -> dict[str, dict[str, str]]:
    """Zero-shot detector -> role -> name of the model in it."""
    roles = Roles.of(params)
    return {
        name: dict(zip(PAIR_ROLES[OF_A_PAIR[name][0]], roles.pair(name), strict=True))
        if name in OF_A_PAIR
        else {"scoring": roles.scoring}
        for name in dict.fromkeys(params.detectors)
    }
