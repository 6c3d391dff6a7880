"""Zero-shot detectors by name: what each needs of the models, its formula, and why not.

A text that has no score is never dropped: its score is null, with the reason.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Literal

import numpy as np

from shiyan.config import (
    ApiModelParams,
    HubModelParams,
    LocalModelParams,
    ZeroShotScoreParams,
    load_models,
)
from shiyan.detectors import scores
from shiyan.errors import UserError
from shiyan.lm.causal import Reading
from shiyan.lm.folder import scoring_model
from shiyan.lm.reduce import Plan
from shiyan.lm.statistics import token_statistics
from shiyan.models import ScoringModel
from shiyan.poem import characters, normalised, one_line, unpunctuated
from shiyan.records import DetectorScore, Poem
from shiyan.token_statistics import ModelStatistics, Pair, PairStatistics, TextStatistics
from shiyan.work import WorkCache

PairRole = Literal["fast", "binoculars"]
"""Whose pair of models a detector looks at."""
TextPart = Literal["body", "title_and_body", "unpunctuated", "raw"]
"""What of a poem is read; raw: its text as it stands, blanks and line ends too."""

OF_ONE_MODEL: dict[str, Callable[[ModelStatistics], float]] = {
    "log_likelihood": scores.log_likelihood,
    "log_rank": scores.log_rank,
    "lrr": scores.lrr,
    "rank": scores.rank,
    "entropy": scores.entropy,
    "gltr_10": partial(scores.share_among_first, k=10),
    "gltr_100": partial(scores.share_among_first, k=100),
    "gltr_1000": partial(scores.share_among_first, k=1000),
    "lastde": scores.lastde,
}
OF_A_PAIR: dict[str, tuple[PairRole, Callable[[ModelStatistics, PairStatistics], float]]] = {
    "fast_detectgpt": ("fast", scores.fast_detectgpt),
    "binoculars": ("binoculars", scores.binoculars),
    "binoculars_aligned": ("binoculars", scores.binoculars_aligned),
    "dna_detectllm": ("binoculars", scores.dna_detectllm),
}
DETECTORS = (*OF_ONE_MODEL, *OF_A_PAIR)
DIRECTION = "higher: more likely an LLM's"


@dataclass(frozen=True)
class Roles:
    """Which model plays which role; a pair is (reference, scoring) or (observer, performer)."""

    scoring: str
    fast: Pair
    binoculars: Pair

    @classmethod
    def of(cls, params: ZeroShotScoreParams) -> "Roles":
        fast = (params.reference, params.fast_scoring or params.scoring)
        return cls(params.scoring, fast, (params.observer, params.performer))

    def scoring_of(self, name: str) -> str:
        """The model whose probabilities a detector looks at."""
        return self.scoring if name in OF_ONE_MODEL else self.pair(name)[1]

    def pair(self, name: str) -> Pair:
        """The two models of a detector out of `OF_A_PAIR`."""
        return self.fast if OF_A_PAIR[name][0] == "fast" else self.binoculars


def plan_for(detectors: Iterable[str], roles: Roles) -> Plan:
    """The statistics that these detectors need, and no others."""
    models: dict[str, None] = {}
    pairs: dict[Pair, None] = {}
    for name in detectors:
        models[roles.scoring_of(name)] = None
        if name in OF_A_PAIR:
            pairs[roles.pair(name)] = None
    return Plan(tuple(models), tuple(pairs))


def text_of(poem: Poem, what: TextPart = "body") -> str:
    """The text that detectors read; a title stands before the body with an empty line."""
    if what == "raw":
        return poem.text
    if what == "unpunctuated":
        return unpunctuated(poem.text)
    body = normalised(poem.text)
    title = one_line(poem.title)
    return f"{title}\n\n{body}" if what == "title_and_body" and title else body


# --- scores ------------------------------------------------------------------------------


@dataclass(frozen=True)
class ZeroShot:
    """A set of detectors over models in their roles.

    Attributes:
        detectors: names out of `DETECTORS`.
        models: every model that a role names, by name.
        text: what of a poem is read.
    """

    detectors: tuple[str, ...]
    roles: Roles
    reading: Reading
    models: Mapping[str, ScoringModel]
    text: TextPart = "body"

    @classmethod
    def of(cls, params: ZeroShotScoreParams) -> "ZeroShot":
        """As the params say, with the models on this machine.

        Raises:
            UserError: an unknown model, or one that cannot be had.
        """
        detectors, roles = tuple(dict.fromkeys(params.detectors)), Roles.of(params)
        names = plan_for(detectors, roles).names
        models = scoring_models(load_models(names))
        return cls(detectors, roles, reading_of(params), models, params.text)

    def measure(self, poems: Iterable[Poem], cache: WorkCache) -> dict[str, TextStatistics]:
        """Token statistics by poem; a text that stands twice is read once."""
        texts = {poem.poem_id: text_of(poem, self.text) for poem in poems}
        plan = plan_for(self.detectors, self.roles)
        measured = token_statistics(self.models, plan, texts.values(), self.reading, cache)
        return {poem_id: measured[text] for poem_id, text in texts.items()}

    def score(
        self, poems: Iterable[Poem], statistics: Mapping[str, TextStatistics]
    ) -> list[DetectorScore]:
        """Every poem's score by every detector, null with a reason where it has none."""
        return [score for poem in poems for score in self._of_poem(poem, statistics[poem.poem_id])]

    def _of_poem(self, poem: Poem, statistics: TextStatistics) -> list[DetectorScore]:
        unread = why_unread(text_of(poem, self.text), statistics, self.reading)
        found = []
        for name in self.detectors:
            score, reason = (None, unread) if unread else scored(name, statistics, self.roles)
            found.append(
                DetectorScore(
                    poem_id=poem.poem_id,
                    detector=name,
                    score=score,
                    n_tokens=statistics.n_tokens,
                    unscored_reason=reason,
                )
            )
        return found

    @property
    def made(self) -> dict[str, str | int]:
        """How the scores were made: every number's signature."""
        of_pairs = {OF_A_PAIR[name][0] for name in self.detectors if name in OF_A_PAIR}
        roles: dict[str, tuple[str, ...]] = {}
        if any(name in OF_ONE_MODEL for name in self.detectors):
            roles["scoring"] = (self.roles.scoring,)
        if "fast" in of_pairs:
            roles["fast_detectgpt_reference_scoring"] = self.roles.fast
        if "binoculars" in of_pairs:
            roles["binoculars_observer_performer"] = self.roles.binoculars
        return {
            **{
                role: ", ".join(f"{name} ({self.models[name].identity})" for name in names)
                for role, names in roles.items()
            },
            "score_direction": DIRECTION,
            "text": self.text,
            "dtype": f"{self.reading.dtype} weights, float32 logits and sums",
            "min_tokens": self.reading.min_tokens,
            "max_tokens": self.reading.max_tokens,
            "first_token": "predicted" if self.reading.bos else "not predicted",
            "libraries": ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers")),
        }


def reading_of(params: ZeroShotScoreParams) -> Reading:
    """How the params say that texts are read."""
    return Reading(
        dtype=params.dtype,
        device=params.device,
        min_tokens=params.min_tokens,
        max_tokens=params.max_tokens,
        batch_tokens=params.batch_tokens,
        bos=params.bos,
    )


def scoring_models(
    models: Mapping[str, LocalModelParams | HubModelParams | ApiModelParams],
) -> dict[str, ScoringModel]:
    """The models on this machine, ready to be loaded.

    Raises:
        UserError: one is an API's, or cannot be had.
    """
    found = {}
    for name, model in models.items():
        if isinstance(model, ApiModelParams):
            raise UserError(
                f"{name} is asked over HTTP and shows no token's probability; a zero-shot detector "
                "needs a model of kind local or hub",
                2,
            )
        found[name] = scoring_model(name, model)
    return found


def why_unread(text: str, statistics: TextStatistics, reading: Reading) -> str | None:
    """Why no model read this text, or None."""
    n = statistics.n_tokens
    if not text.strip():
        return "empty text"
    if not characters(text):
        return "no Chinese character"
    if n < reading.min_tokens:
        return f"too short: {n} tokens, at least {reading.min_tokens} are needed"
    if n > reading.max_tokens:
        return f"too long: {n} tokens, at most {reading.max_tokens} are read"
    if not statistics.models and not statistics.pairs:
        if n == 1 and not reading.bos:
            return "no token to predict: the first has none before it"
        return f"too long for the model: {n} tokens, at most {statistics.longest} are read"
    return None


def scored(name: str, statistics: TextStatistics, roles: Roles) -> tuple[float | None, str | None]:
    """(score, None) or (None, why there is none)."""
    scoring = roles.scoring_of(name)
    p = statistics.models[scoring]
    # A rank counts likelier tokens, and would be finite where the logits are not.
    if not np.isfinite(p.log_prob).all():
        return None, not_finite(scoring)
    try:
        if name in OF_ONE_MODEL:
            score = OF_ONE_MODEL[name](p)
        else:
            score = OF_A_PAIR[name][1](p, statistics.pairs[roles.pair(name)])
    except scores.UnscoredError as error:
        return None, str(error)
    if math.isfinite(score):
        return score, None
    return None, not_finite(*(roles.pair(name) if name in OF_A_PAIR else (scoring,)))


def not_finite(*models: str) -> str:
    """The reason that is kept where a model's logits overflow."""
    return f"the logits of {' or '.join(dict.fromkeys(models))} are not finite"
