"""The reference implementations' own values on the two embedded models, within 1e-3 relative.

They stand in tests/cases/ for lines of our own; those of ../shared are additional. A value
that needs the 0.5B alone is checked where the 1.5B is absent.
"""

import tempfile
from functools import cache
from pathlib import Path

import pytest
from shared import OWN, SHARED, json_lines, needs_shared

from shiyan import models
from shiyan.config import load_models
from shiyan.detectors import scores
from shiyan.lm.causal import Reading
from shiyan.lm.folder import converted_folder, scoring_model
from shiyan.lm.reduce import Plan
from shiyan.lm.statistics import token_statistics
from shiyan.token_statistics import TextStatistics
from shiyan.work import WorkCache

ROOT = Path(__file__).resolve().parents[1]
SMALL, BIG = "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"
KNOWN = load_models([SMALL, BIG], ROOT / "params.yaml")
HERE = {
    name: models.found(name, model) and converted_folder(model.sha256 or "").exists()
    for name, model in KNOWN.items()
}
FAST, SAME = (SMALL, BIG), (SMALL, SMALL)
LASTDE = {"open_source_3_10n_5": (3, 10, 5), "closed_source_3_1n_15": (3, 1, 15)}
OF_ONE = {
    "log_likelihood": scores.log_likelihood,
    "rank": scores.rank,
    "log_rank": scores.log_rank,
    "lrr": scores.lrr,
    "entropy": lambda own: -scores.entropy(own),
}
NAME = "detectors_oracle.jsonl"
OWN_ROWS, SHARED_ROWS = json_lines(OWN / NAME), json_lines(SHARED / "cases" / NAME)

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(not HERE[SMALL], reason=f"{SMALL} is not here; run `shiyan models fetch`"),
]
needs_big = pytest.mark.skipif(
    not HERE[BIG], reason=f"{BIG} is not here; run `shiyan models fetch`"
)


@cache
def measured() -> dict[str, TextStatistics]:
    """Statistics of every text as it stands, by the models that are here, each loaded once."""
    here = [name for name in (BIG, SMALL) if HERE[name]]
    plan = Plan(tuple(here), tuple(pair for pair in (FAST, SAME) if set(pair) <= set(here)))
    with tempfile.TemporaryDirectory() as folder:
        loaded = {name: scoring_model(name, KNOWN[name]) for name in here}
        texts = [row["text"] for row in OWN_ROWS + SHARED_ROWS]
        return token_statistics(loaded, plan, texts, Reading(), WorkCache(Path(folder)))


def lastde(statistics, setting: str) -> float | None:
    try:
        return scores.lastde(statistics, *LASTDE[setting])
    except scores.UnscoredError:
        return None


def of_the_small_model(found: TextStatistics) -> dict[str, float | None]:
    """By our functions, in the signs of the reference implementations."""
    q, pair = found.models[SMALL], found.pairs[SAME]
    return {
        **{f"0.5b/{name}": formula(q) for name, formula in OF_ONE.items()},
        **{f"lastde_0.5b/{name}": lastde(q, name) for name in LASTDE},
        "fast_detectgpt/ref0.5b_score0.5b": scores.fast_detectgpt(q, pair),
        "binoculars_observer0.5b_performer0.5b/score": -scores.binoculars(q, pair),
        "dna_detectllm_observer0.5b_performer0.5b/score": -scores.dna_detectllm(q, pair),
    }


def of_the_big_model(found: TextStatistics) -> dict[str, float | None]:
    p, pair = found.models[BIG], found.pairs[FAST]
    return {
        **{f"1.5b/{name}": formula(p) for name, formula in OF_ONE.items()},
        **{f"lastde/{name}": lastde(p, name) for name in LASTDE},
        "fast_detectgpt/ref0.5b_score1.5b": scores.fast_detectgpt(p, pair),
        "binoculars_observer0.5b_performer1.5b/score": -scores.binoculars(p, pair),
        "dna_detectllm/score": -scores.dna_detectllm(p, pair),
    }


OWN_ONLY = (
    "lastde_0.5b",
    "binoculars_observer0.5b_performer0.5b",
    "dna_detectllm_observer0.5b_performer0.5b",
)
"""What the project's own file has for the 0.5B and the other has not."""


def check(row: dict, ours, lacking: tuple[str, ...] = ()) -> None:
    found = measured()[row["text"]]
    assert found.n_tokens == row["n_tokens"]
    if row.get("unscored"):
        assert found.models == {}
        return
    values = {k: v for k, v in ours(found).items() if k.partition("/")[0] not in lacking}
    assert len(values) >= 6
    for key, value in values.items():
        group, _, name = key.partition("/")
        expected = row[group][name]
        assert value == (None if expected is None else pytest.approx(expected, rel=1e-3)), key


def ids(row: dict) -> str:
    return row["id"]


@pytest.mark.parametrize("row", OWN_ROWS, ids=ids)
def test_own_lines_with_the_small_model(row):
    check(row, of_the_small_model)


@needs_big
@pytest.mark.parametrize("row", OWN_ROWS, ids=ids)
def test_own_lines_with_the_big_model_too(row):
    check(row, of_the_big_model)


@needs_shared
def test_the_texts_of_shared_with_the_small_model():
    assert SHARED_ROWS
    for row in SHARED_ROWS:
        check(row, of_the_small_model, OWN_ONLY)


@needs_shared
@needs_big
def test_the_texts_of_shared_with_the_big_model_too():
    for row in SHARED_ROWS:
        check(row, of_the_big_model)
