"""Whose weights score, and whose wrote."""

from pathlib import Path

import pytest
from detector_fakes import human, written

from shiyan.composition import composed
from shiyan.config import (
    ApiModelParams,
    AskedParams,
    LocalModelParams,
    LoraParams,
    TrainRobertaParams,
    ZeroShotScoreParams,
)
from shiyan.detectors.identity import Weights, described, of_trained, relation
from shiyan.detectors.untrained import named, weights_of
from shiyan.generation.identities import identities
from shiyan.records import GeneratorIdentity, Reply

BIG, SMALL = "a" * 64, "b" * 64


def local(sha256: str | None, family: str = "f") -> LocalModelParams:
    return LocalModelParams(kind="local", file="x.gguf", sha256=sha256, family=family)


def api(model: str, **changes) -> ApiModelParams:
    fields = {"base_url": "http://127.0.0.1:9/v1/", "key_variable": None, "family": "g"}
    return ApiModelParams.model_validate({"kind": "api", "model": model, **fields, **changes})


def generator(identity=None, family=None, names=()) -> GeneratorIdentity:
    return GeneratorIdentity(generator="w", identity=identity, family=family, names=names)


OWN = Weights("s", f"sha256:{BIG}", "f")
HUB = Weights("h", "o/r@c0ffee", "f", frozenset(["o/r"]))


@pytest.mark.parametrize(
    ("weights", "other", "expected"),
    [
        (OWN, generator(f"sha256:{BIG}", "f"), "same weights"),
        (OWN, generator(f"sha256:{BIG}", "another"), "same weights"),
        (OWN, generator(f"sha256:{SMALL}", "f"), "same family"),
        (OWN, generator(f"sha256:{SMALL}", "g"), "no"),
        (OWN, generator(None, "f"), "same family"),
        (OWN, generator(), "unknown"),
        (OWN, None, "unknown"),
        (HUB, generator("http://x o/r", "g", names=("o/r",)), "same weights"),
        (HUB, generator("http://x m", "g", names=("m", "o/r")), "same weights"),
    ],
)
def test_weights_are_compared_by_what_decides_their_output(weights, other, expected):
    assert relation(weights, other) == expected


def zero_shot(**changes) -> ZeroShotScoreParams:
    asked = AskedParams.model_construct(models=("asked",), shots=(0, 1))
    return ZeroShotScoreParams.model_validate(
        {
            "scoring": "small",
            "reference": "small",
            "fast_scoring": None,
            "observer": "small",
            "performer": "big",
            "detectors": ["log_likelihood", "fast_detectgpt", "binoculars"],
            "text": "body",
            "max_tokens": 9,
            "min_tokens": 8,
            "batch_tokens": 9,
            "bos": False,
            "dtype": "float32",
            "device": "cpu",
            "asked": asked,
        }
        | changes
    )


MODELS = {"small": local(SMALL), "big": local(BIG), "asked": api("m")}
POEMS = {"h": human("h")} | {name: written(name, "h", generator=name) for name in "wv"}


def test_every_detector_tells_its_models_by_role_and_the_nearest_counts():
    params = zero_shot()
    assert named(params) == ["small", "big", "asked"]
    known = [generator(f"sha256:{BIG}", "f")]
    made = described(weights_of(params, MODELS), POEMS, known)
    assert made["weights"]["binoculars"] == {
        "observer": f"small (sha256:{SMALL}, f)",
        "performer": f"big (sha256:{BIG}, f)",
    }
    assert made["weights"]["log_likelihood"] == {"scoring": f"small (sha256:{SMALL}, f)"}
    assert made["scorer_is_generator"] == {
        "log_likelihood": {"v": "unknown", "w": "same family"},
        "fast_detectgpt": {"v": "unknown", "w": "same family"},
        "binoculars": {"v": "unknown", "w": "same weights"},
        "fusion": {"v": "unknown", "w": "same weights"},
        "asked_asked": {"v": "unknown", "w": "no"},
        "asked_asked_1_shots": {"v": "unknown", "w": "no"},
    }


def test_a_role_that_no_detector_plays_is_not_told():
    params = zero_shot(detectors=["lrr"], asked=None)
    assert named(params) == ["small"]
    assert list(weights_of(params, MODELS)) == ["lrr", "fusion"]


def train_params(lora_model: str | None) -> TrainRobertaParams:
    lora = LoraParams.model_construct(name="adapter", model=lora_model)
    return TrainRobertaParams.model_construct(lora=lora)


def test_an_adapter_counts_as_the_model_under_it():
    made = described(
        of_trained(train_params("big"), MODELS), POEMS, [generator(f"sha256:{BIG}", "f")]
    )
    assert made["scorer_is_generator"] == {"adapter": {"v": "unknown", "w": "same weights"}}
    assert of_trained(train_params(None), MODELS) == {}


def reply(name: str, served: str | None = None) -> Reply:
    return Reply(
        reply_id=name,
        kind="poem",
        generator=name,
        prompt_id="P1",
        seed_poem_id=None,
        text="",
        served_model=served,
        outcome="kept",
    )


def test_generate_leaves_what_stands_behind_each_name():
    poems = [written(name, "h", generator=name) for name in ("big", "asked", "stranger", "bare")]
    models = MODELS | {"bare": local(None)}
    replies = [reply("asked", "m-2026"), reply("asked", "m-2026"), reply("big", "x.gguf")]
    assert identities([*poems, human("h")], replies, models, ["big"]) == [
        GeneratorIdentity(
            generator="asked",
            identity="http://127.0.0.1:9/v1 m",
            names=("m", "m-2026"),
            family="g",
        ),
        GeneratorIdentity(generator="bare", identity=None, family="f"),
        GeneratorIdentity(generator="big", identity=f"sha256:{BIG}", family="f"),
        GeneratorIdentity(generator="stranger", identity=None, family=None),
    ]


def test_a_price_is_no_part_of_an_identity():
    poems = [written("w", "h", generator="asked")]
    dear = {"asked": api("m", price_per_million_prompt=9.0, requests_at_once=2)}
    assert identities(poems, [], dear, []) == identities(poems, [], MODELS, [])


def test_by_default_nobody_scores_by_the_probabilities_that_he_wrote_from():
    config = composed([], Path(__file__).parents[1] / "conf")
    score = config.zero_shot_score
    scorers = {score.scoring, score.reference, score.fast_scoring, score.performer}
    assert scorers.isdisjoint(config.generate.models)
