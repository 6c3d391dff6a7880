"""The short table at the end of a run, and the headline numbers that MLflow shows."""

import json
import shutil
from pathlib import Path

import pytest

from shiyan.cli import dispatch
from shiyan.commands.results import shown
from shiyan.errors import UserError
from shiyan.metrics import Estimate, write_metrics
from shiyan.report.headlines import headlines

ROOT = Path(__file__).resolve().parent.parent


def estimate(value: float | None, n: int = 60, n_unscored: int = 0) -> dict:
    ends = (None, None) if value is None else (value - 0.1, value + 0.1)
    reason = None if value is not None else "one class only"
    return Estimate(value, *ends, n, n_unscored, reason).as_dict()


DETECTION = {
    "detectors": {
        "lrr": {
            "all": {
                "learnt_from": "threshold",
                "auroc": estimate(0.75, 58, 2),
                "macro_f1": estimate(0.5, 58, 2),
            },
            "small": {"auroc": estimate(0.6)},
        },
        "ngrams": {
            "all": {"learnt_from": "all", "auroc": estimate(None), "macro_f1": estimate(0.25)}
        },
    },
    "made": {"seed": 0},
}
CI = {
    "human": {"structure_standard": estimate(0.9), "structure_any": estimate(0.95)},
    "generated": {"small": {"direct": {"structure_any": estimate(0.25, 29, 1)}}},
}
OPTIONAL = {"structure_any_optional": estimate(0.99), "tonal_any_optional": estimate(0.98)}
JUDGE = {
    "judges": {
        "small": {
            "P0": {
                "parsed": estimate(0.5, 6),
                "constructed": {"absolute_error": {"内容": estimate(62.5, 2, 1)}},
            },
            "P3": {"human": {"error": {"内容": estimate(9.0), "Avg": estimate(12.5)}}},
        }
    }
}


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    shutil.copy(ROOT / "params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_headlines_have_short_names_and_leave_out_what_has_no_value():
    found = {
        "/".join(path): value for doc in (DETECTION, CI, JUDGE) for path, value in headlines(doc)
    }
    assert found == {
        "lrr/auroc": 0.75,
        "lrr/macro_f1": 0.5,
        "ngrams/macro_f1": 0.25,
        "ci/human/structure_standard": 0.9,
        "ci/human/structure_any": 0.95,
        "ci/small/direct/structure_any": 0.25,
        "judge/small/P0/constructed_absolute_error": 62.5,
        "judge/small/P0/parsed": 0.5,
        "judge/small/P3/human_error": 12.5,
    }
    assert list(headlines({"n_poems": 3})) == []


def test_the_table_shows_every_number_with_interval_and_counts(project, capsys):
    write_metrics(Path("metrics/detection.json"), DETECTION)
    write_metrics(Path("metrics/ci.json"), CI)
    write_metrics(Path("metrics/judge.json"), JUDGE)
    assert dispatch(["results"]) == 0
    out, err = capsys.readouterr()
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "lrr zero-shot 0.750 [0.650, 0.850] 0.500 [0.400, 0.600] 58 2" in lines
    assert "ngrams trained — 0.250 [0.150, 0.350] 60 0" in lines
    assert "human 0.900 [0.800, 1.000] 0.950 [0.850, 1.050] — 60 0" in lines
    assert "small · P0 62.5 [62.4, 62.6] — 0.50 [0.40, 0.60] 2 1" in lines
    assert "small · P3 — 12.5 [12.4, 12.6] — 60 0" in lines
    assert "error of 内容 (constructed)" in out
    assert "make ui" in out
    assert "metrics/generate.json is not there yet; `dvc repro generate` writes it" in err
    assert "metrics/detection.json" not in err
    assert max(map(len, out.splitlines())) <= 118


def test_ci_are_shown_in_the_papers_reading_of_du_alone(project, capsys):
    strict = {"structure_any": estimate(0.5), "tonal_any": estimate(0.25)}
    write_metrics(Path("metrics/ci.json"), {"human": strict | OPTIONAL, "generated": {}})
    dispatch(["results"])
    out, err = capsys.readouterr()
    assert "metrics/detection.json is not there yet; `dvc repro evaluate` writes it" in err
    out = " ".join(out.split())
    assert "strictly: 读 is a line break" in out
    assert "human — 0.500 [0.400, 0.600] 0.250 [0.150, 0.350] 60 0" in out


def test_json_is_one_number_a_line_with_its_reason(project, capsys):
    write_metrics(Path("metrics/detection.json"), DETECTION)
    assert dispatch(["results", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["stage"] for line in lines} == {"evaluate"}
    unscored = next(line for line in lines if line["name"] == "ngrams/auroc")
    assert unscored["value"] is None
    assert unscored["reason"] == "one class only"


def test_without_results_the_command_says_how_to_get_them(project):
    with pytest.raises(UserError, match="`make run` runs the pipeline"):
        dispatch(["results"])


def test_a_spoilt_metrics_file_is_one_sentence(project):
    Path("metrics").mkdir()
    Path("metrics/ci.json").write_text("{", encoding="utf-8")
    with pytest.raises(UserError, match=r"metrics/ci\.json is not valid JSON"):
        dispatch(["results"])


def test_a_value_without_an_interval_says_so():
    assert shown(Estimate(0.5, None, None, 2).as_dict()) == "0.500 [—]"
    assert shown(None) == "—"
