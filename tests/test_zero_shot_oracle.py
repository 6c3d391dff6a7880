"""The reference implementations' own values on the two embedded models, within 1e-3 relative."""

import json
from functools import cache
from pathlib import Path

import pytest

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
ORACLE = ROOT.parent / "shared/cases/detectors_oracle.jsonl"
SMALL, BIG = "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"
KNOWN = load_models([SMALL, BIG], ROOT / "params.yaml")
FAST, SAME = (SMALL, BIG), (SMALL, SMALL)
LASTDE = {"open_source_3_10n_5": (3, 10, 5), "closed_source_3_1n_15": (3, 1, 15)}

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(not ORACLE.exists(), reason="the shared reference values are not here"),
    pytest.mark.skipif(
        not all(
            models.found(name, model) and converted_folder(model.sha256 or "").exists()
            for name, model in KNOWN.items()
        ),
        reason="the two embedded models are not here; run `shiyan models fetch`",
    ),
]


def rows() -> dict[str, dict]:
    if not ORACLE.exists():
        return {}
    lines = ORACLE.read_text(encoding="utf-8").splitlines()
    return {row["id"]: row for row in map(json.loads, lines)}


@cache
def measured() -> dict[str, TextStatistics]:
    """Statistics of every text as it stands, computed once for all tests."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        loaded = {name: scoring_model(name, model) for name, model in KNOWN.items()}
        texts = [row["text"] for row in rows().values()]
        plan = Plan((BIG, SMALL), (FAST, SAME))
        return token_statistics(loaded, plan, texts, Reading(), WorkCache(Path(folder)))


def ours(text: str) -> dict[str, float]:
    """Every value of the reference file, by our functions, in its signs."""
    found = measured()[text]
    p, q, pair = found.models[BIG], found.models[SMALL], found.pairs[FAST]
    of_one = {
        f"{size}/{name}": formula(own)
        for size, own in (("1.5b", p), ("0.5b", q))
        for name, formula in {
            "log_likelihood": scores.log_likelihood,
            "rank": scores.rank,
            "log_rank": scores.log_rank,
            "lrr": scores.lrr,
            "entropy": lambda own: -scores.entropy(own),
        }.items()
    }
    lastde = {}
    for name, (window, bins, scales) in LASTDE.items():
        try:
            lastde[f"lastde/{name}"] = scores.lastde(p, window, bins, scales)
        except scores.UnscoredError:
            lastde[f"lastde/{name}"] = None
    return {
        **of_one,
        **lastde,
        "fast_detectgpt/ref0.5b_score1.5b": scores.fast_detectgpt(p, pair),
        "fast_detectgpt/ref0.5b_score0.5b": scores.fast_detectgpt(q, found.pairs[SAME]),
        "binoculars_observer0.5b_performer1.5b/score": -scores.binoculars(p, pair),
        "dna_detectllm/score": -scores.dna_detectllm(p, pair),
    }


@pytest.mark.parametrize("name", rows())
def test_every_score_is_the_reference_implementations(name):
    row = rows()[name]
    assert measured()[row["text"]].n_tokens == row["n_tokens"]
    if row.get("unscored"):
        assert measured()[row["text"]].models == {}
        return
    values = ours(row["text"])
    wanted = {
        f"{group}/{key}": value
        for group, entry in row.items()
        if isinstance(entry, dict)
        for key, value in entry.items()
    }
    assert values.keys() <= wanted.keys()
    for key, value in values.items():
        expected = wanted[key]
        assert value == (None if expected is None else pytest.approx(expected, rel=1e-3)), key
