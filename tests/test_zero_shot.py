"""Detectors by name: roles, plans, reasons, and the stage over two tiny models."""

import json
import math
from importlib import import_module
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from detector_fakes import halves, human, pairs
from lm_fakes import tiny_model
from omegaconf import OmegaConf
from sections import name_models, section

from shiyan.config import (
    ApiModelParams,
    AttackParams,
    LocalModelParams,
    ZeroShotDetector,
    ZeroShotScoreParams,
)
from shiyan.detectors import zero_shot
from shiyan.detectors.attacks import attacked_poems
from shiyan.detectors.zero_shot import (
    DETECTORS,
    OF_ONE_MODEL,
    Roles,
    ZeroShot,
    plan_for,
    text_of,
)
from shiyan.errors import UserError
from shiyan.jsonl import read_records, write_records
from shiyan.lm.causal import Reading
from shiyan.lm.reduce import Plan
from shiyan.models import ScoringModel
from shiyan.records import DetectorScore, GeneratorIdentity, Memorisation
from shiyan.token_statistics import (
    ModelStatistics,
    PairStatistics,
    TextStatistics,
    read_statistics,
    unpacked,
)

ROOT = Path(__file__).resolve().parents[1]
ROLES = Roles("3b", ("3b", "7b"), ("7b", "7b-instruct"))
A_POEM = human("a", "渡口的石阶\n数着来往的鞋")


def params(**changes) -> ZeroShotScoreParams:
    return ZeroShotScoreParams.model_validate(
        {
            "scoring": "big",
            "reference": "small",
            "fast_scoring": None,
            "observer": "small",
            "performer": "big",
            "detectors": DETECTORS,
            "text": "body",
            "max_tokens": 400,
            "min_tokens": 8,
            "batch_tokens": 300,
            "bos": False,
            "dtype": "float32",
            "device": "cpu",
            "asked": None,
        }
        | changes
    )


def detectors_over(names=DETECTORS, roles=ROLES, reading=None) -> ZeroShot:
    """Over models that are only names."""
    models = {
        name: ScoringModel(name, zero_shot.__file__, f"x@{name}")
        for name in ("3b", "7b", "7b-instruct")
    }
    return ZeroShot(tuple(names), roles, reading or Reading(min_tokens=8), models)


def statistics_of(n: int, seed: int = 0, value: float | None = None) -> TextStatistics:
    rng = np.random.default_rng(seed)

    def model() -> ModelStatistics:
        rows = -rng.exponential(2.0, (5, n))
        rows[1:3] = rng.integers(1, 50, (2, n))
        if value is not None:
            rows[0, 2] = value
        return unpacked(ModelStatistics, rows.astype(np.float32))

    def pair() -> PairStatistics:
        rows = np.stack([-rng.exponential(3.0, n), rng.exponential(1.0, n)])
        return unpacked(PairStatistics, rows.astype(np.float32))

    models = {name: model() for name in ("3b", "7b", "7b-instruct")}
    return TextStatistics(n, models, {ROLES.fast: pair(), ROLES.binoculars: pair()})


def test_the_papers_roles_need_three_models_and_two_pairs():
    plan = plan_for(DETECTORS, ROLES)
    assert plan == Plan(("3b", "7b", "7b-instruct"), (("3b", "7b"), ("7b", "7b-instruct")))


@pytest.mark.parametrize(
    ("detectors", "expected"),
    [
        (("log_rank", "lrr"), Plan(("3b",), ())),
        (("fast_detectgpt",), Plan(("7b",), (("3b", "7b"),))),
        (("binoculars", "dna_detectllm"), Plan(("7b-instruct",), (("7b", "7b-instruct"),))),
    ],
)
def test_no_model_is_read_that_no_detector_needs(detectors, expected):
    assert plan_for(detectors, ROLES) == expected


def test_fast_detectgpt_scores_with_the_scoring_model_unless_another_is_named():
    assert Roles.of(params()).fast == ("small", "big")
    assert Roles.of(params(fast_scoring="other")).fast == ("small", "other")


def test_params_know_every_detector_and_refuse_any_other():
    assert set(get_args(ZeroShotDetector)) == set(DETECTORS)
    with pytest.raises(ValueError, match="'log_likelihood', 'log_rank'"):
        params(detectors=("lrr", "ghostbuster"))


def test_every_detector_scores_an_ordinary_text():
    found = detectors_over().score([A_POEM], {"a": statistics_of(40)})
    assert [score.detector for score in found] == list(DETECTORS)
    assert all(score.score is not None and math.isfinite(score.score) for score in found)
    assert {score.n_tokens for score in found} == {40}


@pytest.mark.parametrize(
    ("text", "n", "reason"),
    [
        ("", 0, "empty text"),
        ("\n　\n", 0, "empty text"),
        ("……！", 2, "no Chinese character"),
        ("🙂 ok", 3, "no Chinese character"),
        ("雨", 1, "too short: 1 tokens, at least 8 are needed"),
        ("钟" * 600, 1500, "too long: 1500 tokens, at most 1024 are read"),
        ("钟" * 300, 600, "too long for the model: 600 tokens, at most 512 are read"),
    ],
)
def test_a_text_that_is_not_read_is_null_with_the_reason(text, n, reason):
    found = detectors_over().score([human("a", text)], {"a": TextStatistics(n, longest=512)})
    assert len(found) == len(DETECTORS)
    assert {(score.score, score.unscored_reason) for score in found} == {(None, reason)}


def test_one_token_has_nothing_to_predict():
    found = detectors_over(reading=Reading(min_tokens=1)).score(
        [human("a", "春")], {"a": TextStatistics(1, longest=512)}
    )
    assert {score.unscored_reason for score in found} == {
        "no token to predict: the first has none before it"
    }


@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_logits_that_are_not_finite_give_no_score_not_even_a_rank(value):
    found = detectors_over().score([A_POEM], {"a": statistics_of(40, value=value)})
    reasons = {(score.score, score.unscored_reason) for score in found}
    assert reasons == {
        (None, f"the logits of {m} are not finite") for m in ("3b", "7b", "7b-instruct")
    }


def test_one_detector_may_fail_where_others_score():
    found = detectors_over().score([A_POEM], {"a": statistics_of(8)})
    without = [score.detector for score in found if score.score is None]
    assert without == ["lastde"]
    assert next(s for s in found if s.detector == "lastde").unscored_reason.startswith("fewer than")


def test_detectors_read_the_body_and_title_and_body_is_a_named_variant():
    poem = human("a", "\ufeff  一行\r\n\r\n二行 \n").model_copy(update={"title": "题"})
    assert text_of(poem) == "一行\n\n二行"
    assert text_of(poem, "title_and_body") == "题\n\n一行\n\n二行"
    assert text_of(poem.model_copy(update={"title": ""}), "title_and_body") == "一行\n\n二行"
    assert text_of(poem, "raw") == poem.text


def test_the_signature_names_models_and_what_decides_a_score():
    made = detectors_over().made
    assert made["scoring"] == "3b (x@3b)"
    assert made["fast_detectgpt_reference_scoring"] == "3b (x@3b), 7b (x@7b)"
    assert made["binoculars_observer_performer"] == "7b (x@7b), 7b-instruct (x@7b-instruct)"
    assert made["score_direction"].startswith("higher")
    assert {"text", "dtype", "min_tokens", "max_tokens", "first_token", "libraries"} < made.keys()
    assert "binoculars_observer_performer" not in detectors_over(["fast_detectgpt"]).made
    assert "fast_detectgpt_reference_scoring" not in detectors_over(tuple(OF_ONE_MODEL)).made


# --- the stage ---------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with collected poems, a split and params that name two tiny models."""
    poems = pairs(6)
    poems["h90"] = human("h90", "雨")
    for name, seed in (("big", 1), ("small", 2)):
        tiny_model(tmp_path, name, seed)
    values = OmegaConf.load(ROOT / "params.yaml")
    values.zero_shot_score = params().model_dump(mode="json")
    tiny = {
        name: LocalModelParams(kind="local", file=name, path=str(tmp_path / name), family="f")
        for name in ("big", "small")
    }
    name_models(values, tiny, "zero_shot_score")
    OmegaConf.save(values, tmp_path / "params.yaml")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    monkeypatch.setenv("SHIYAN_MODELS", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    paths = values["paths"]
    by_people = [poem for poem in poems.values() if poem.label == 0]
    write_records(tmp_path / paths["poems"], by_people)
    write_records(tmp_path / paths["generated"], [p for p in poems.values() if p.label])
    write_records(tmp_path / paths["splits"], halves(poems).values())
    chosen = section(AttackParams, "attacks", names=["line_breaks_removed"], poems=1)
    write_records(tmp_path / paths["attacked"], attacked_poems(poems, halves(poems), chosen, {}))
    write_records(
        tmp_path / paths["generators"],
        [GeneratorIdentity(generator="m", identity="sha256:0", family="f")],
    )
    return tmp_path


def paths_of(name: str) -> str:
    return str(OmegaConf.load(ROOT / "conf/paths/default.yaml")[name])


def run_stage() -> None:
    import_module("stages.zero_shot_score").main()


def test_the_stage_writes_scores_statistics_and_metrics(project):
    run_stage()
    scores = list(read_records(project / "data/scores/zero_shot/scores.jsonl", DetectorScore))
    assert len(scores) == 13 * len(DETECTORS)
    reasons = {s.detector: s.unscored_reason for s in scores if s.poem_id == "h90"}
    assert set(reasons.values()) == {"too short: 3 tokens, at least 8 are needed"}
    assert all(s.score is not None for s in scores if s.poem_id != "h90")
    statistics = read_statistics(project / "data/scores/zero_shot/statistics.parquet")
    assert len(statistics) == 13
    assert set(statistics["h0"].pairs) == {("small", "big")}
    metrics = json.loads((project / paths_of("zero_shot_metrics")).read_text("utf-8"))
    assert set(metrics["scores"]) == set(DETECTORS)
    assert (metrics["scores"]["lrr"]["n_scored"], metrics["scores"]["lrr"]["n_unscored"]) == (12, 1)
    attacked = list(read_records(project / "data/scores/zero_shot/attacked.jsonl", DetectorScore))
    assert {s.attack for s in attacked} == {"line_breaks_removed"}
    assert {s.detector for s in attacked} == set(DETECTORS)
    assert len({s.poem_id for s in attacked}) == 2, "an LLM's poem and the human one of its group"
    assert all(s.score is not None for s in attacked)
    assert metrics["made"]["scoring"].startswith("big (sha256:")
    assert metrics["made"]["scorer_is_generator"]["lrr"] == {"m": "same family"}
    memorised = list(read_records(project / paths_of("memorisation"), Memorisation))
    assert len(memorised) == 13
    assert {record.poem_id for record in memorised if record.unscored_reason} == {"h90"}
    assert metrics["memorisation"]["big"]["n_human"] == 7


def test_a_second_run_of_the_stage_loads_no_model_and_gives_the_same(project, monkeypatch):
    run_stage()
    path = project / "data/scores/zero_shot/scores.jsonl"
    first = path.read_bytes()
    path.unlink()
    monkeypatch.setattr("shiyan.lm.statistics.CausalLM", None)
    run_stage()
    assert path.read_bytes() == first


def test_a_model_behind_an_api_cannot_score(project):
    values = OmegaConf.load(project / "params.yaml")
    url = "http://127.0.0.1:9/v1"
    api = ApiModelParams(kind="api", base_url=url, model="m", key_variable=None, family="f")
    name_models(values, {"big": api}, "zero_shot_score")
    OmegaConf.save(values, project / "params.yaml")
    with pytest.raises(UserError, match="big is asked over HTTP and shows no token's probability"):
        run_stage()
