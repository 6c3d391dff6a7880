"""Small corpora whose truth is known by construction."""

import random
from collections.abc import Mapping

from shiyan.config import EvaluateParams
from shiyan.detectors.evaluation.evaluate import Evaluation, evaluate_scores
from shiyan.detectors.evaluation.evaluator import Evaluator
from shiyan.detectors.evaluation.matrix import ScoreMatrix
from shiyan.detectors.evaluation.poems import evaluated_poems, with_attacked
from shiyan.families import family_of
from shiyan.records import Assignment, DetectorScore, Generation, Poem

HUMAN_CHARACTERS = "山水云月风花雪雨江河草木"
LLM_CHARACTERS = "梦心光影星海尘烟霜露虹霞"


def human(poem_id: str, text: str = "山\n水\n云") -> Poem:
    return Poem(poem_id=poem_id, title="", text=text, genre="modern", author="甲")


def written(
    poem_id: str, seed: str, text: str = "梦\n心\n光", prompt: str = "P1", generator: str = "m"
) -> Poem:
    generation = Generation(
        generator=generator, prompt_id=prompt, seed_poem_id=seed, sample_index=0, reply_sha256="0"
    )
    return human(poem_id, text).model_copy(update={"generation": generation})


def pairs(
    n: int, prompts: tuple[str, ...] = ("P1",), generators: tuple[str, ...] = ("m",), seed: int = 0
) -> dict[str, Poem]:
    """n human poems and an imitation each by every generator and prompt.

    Half of a poem's characters come from its class's own dozen, half from both, so a
    detector of characters can tell the classes and one of layout cannot.
    """
    rng = random.Random(seed)

    def text(own: str) -> str:
        lines = ["".join(rng.choices(own, k=3) + rng.choices(own + BOTH, k=3)) for _ in range(4)]
        return "\n".join(lines)

    found = {}
    for i in range(n):
        found[f"h{i}"] = human(f"h{i}", text(HUMAN_CHARACTERS))
        for generator in generators:
            for prompt in prompts:
                poem_id = f"{generator}-{prompt}-{i}"
                found[poem_id] = written(poem_id, f"h{i}", text(LLM_CHARACTERS), prompt, generator)
    return found


BOTH = HUMAN_CHARACTERS + LLM_CHARACTERS


def halves(poems: Mapping[str, Poem]) -> dict[str, Assignment]:
    """Every other human poem and its imitations train, the rest test."""
    return {
        p.poem_id: Assignment(
            poem_id=p.poem_id,
            group_id=family_of(p),
            fold="train" if int(family_of(p)[1:]) % 2 else "test",
        )
        for p in poems.values()
    }


def scored(
    poems: Mapping[str, Poem], detector: str, values: Mapping[str, float | None]
) -> list[DetectorScore]:
    return [DetectorScore(poem_id=p, detector=detector, score=values.get(p)) for p in poems]


def noisy(poems: Mapping[str, Poem], effect: float, seed: int = 0) -> dict[str, float]:
    """A score that is `effect` higher for an LLM's poem, with normal noise."""
    rng = random.Random(seed)
    return {p.poem_id: effect * p.label + rng.gauss(0, 1) for p in poems.values()}


def evaluate_params(resamples: int = 100, seed: int = 0) -> EvaluateParams:
    return EvaluateParams(
        resamples=resamples, seed=seed, fusion_folds=5, copy_share=0.3, fewest_lines=3
    )


def matrix_of(poems, untrained=(), trained=(), folds=None, memorised=()) -> ScoreMatrix:
    """Scores of poems by detectors without and with training; attacked ones get their rows."""
    untrained, trained = list(untrained), list(trained)
    attacked = dict.fromkeys((s.poem_id, s.attack) for s in (*untrained, *trained) if s.attack)
    rows = with_attacked(evaluated_poems(poems, folds or halves(poems), memorised), attacked)
    return ScoreMatrix.of(rows, untrained, trained)


def evaluator_of(
    poems, untrained=(), trained=(), folds=None, resamples=50, seed=0, memorised=()
) -> Evaluator:
    matrix = matrix_of(poems, untrained, trained, folds, memorised)
    return Evaluator(matrix, evaluate_params(resamples, seed))


def evaluated(poems, untrained=(), trained=(), folds=None, resamples=100, seed=0) -> Evaluation:
    matrix = matrix_of(poems, untrained, trained, folds)
    return evaluate_scores(matrix, evaluate_params(resamples, seed), {})
