"""The stage train_roberta, on a corpus of a dozen pairs."""

import csv
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from detector_fakes import halves, human, pairs
from omegaconf import OmegaConf

from shiyan.config import PathsParams
from shiyan.jsonl import read_records, write_records
from shiyan.records import DetectorScore

pytestmark = pytest.mark.training

ROOT = Path(__file__).resolve().parent.parent
PARAMS = OmegaConf.load(ROOT / "params.yaml")


def refused(constant: str) -> float:
    raise AssertionError(f"{constant} is no JSON")


def test_all_outs_are_written_and_every_score_is_accounted_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    params = OmegaConf.merge(
        PARAMS,
        {
            "train_roberta": {
                "epochs": 1,
                "encoder": {"layers": 1, "hidden": 16, "heads": 2},
                "folds": 2,
            }
        },
    )
    OmegaConf.save(params, "params.yaml")
    paths = PathsParams.model_validate(OmegaConf.to_container(params.paths))
    poems = pairs(12)
    poems["h12"] = human("h12", "……")
    write_records(paths.poems, [p for p in poems.values() if not p.generation])
    write_records(paths.generated, [p for p in poems.values() if p.generation])
    write_records(paths.splits, halves(poems).values())
    write_records(paths.attacked, [])
    write_records(paths.generators, [])

    environment = {k: v for k, v in os.environ.items() if not k.startswith("DVC")}
    done = subprocess.run(
        [sys.executable, "-m", "stages.train_roberta"],
        env={**environment, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr

    scores = list(read_records(paths.trained_scores, DetectorScore))
    detectors = {score.detector for score in scores}
    assert {"char_ngrams", "roberta_from_scratch", "layout_only", "length_only"} <= detectors
    assert len(scores) == len(detectors) * len(poems)
    assert {s.poem_id for s in scores if s.score is None} == {"h12"}
    text = paths.trained_metrics.read_text(encoding="utf-8")
    metrics = json.loads(text, parse_constant=refused)
    auroc = metrics["detectors"]["char_ngrams"]["all"]["auroc"]
    assert (auroc["n"], auroc["n_unscored"]) == (12, 1)
    assert metrics["made"]["networks"]["roberta_from_scratch"]["optimizer_steps"] == {
        "fold_1": 1,
        "fold_2": 1,
    }
    with paths.training_curves.open(encoding="utf-8", newline="") as file:
        points = list(csv.DictReader(file))
    assert {(p["fold"], p["part"]) for p in points} == {
        ("fold 1", "train"),
        ("fold 1", "held_out"),
        ("fold 2", "train"),
        ("fold 2", "held_out"),
    }
    assert all(math.isfinite(float(p["loss"])) for p in points)
    assert paths.trained_roc.exists()
    assert paths.trained_distributions.exists()
    assert (paths.trained_models / "roberta_from_scratch/fold_2/model.safetensors").exists()
    # Nothing is left to resume.
    assert not [p for p in (tmp_path / ".work/training").rglob("*") if p.is_file()]
