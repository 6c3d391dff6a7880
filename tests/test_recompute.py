"""Published numbers computed again from scores without texts."""

import json
from pathlib import Path

import pytest
from detector_fakes import evaluate_params, matrix_of, noisy, pairs, scored

from shiyan.cli import dispatch
from shiyan.detectors.evaluation.evaluate import evaluate_scores
from shiyan.errors import UserError
from shiyan.metrics import write_metrics

RESULTS = Path(__file__).resolve().parent.parent / "results"


@pytest.fixture
def published(tmp_path) -> Path:
    poems = pairs(12, prompts=("P1", "P2"))
    zero = scored(poems, "lrr", noisy(poems, 1.0)) + scored(poems, "rank", noisy(poems, 0.5, 1))
    matrix = matrix_of(poems, zero, scored(poems, "net", noisy(poems, 2.0, 2)))
    made = {"zero_shot": {"scorer_is_generator": {"lrr": {"m": "same weights"}}}}
    evaluation = evaluate_scores(matrix, evaluate_params(20), made)
    matrix.write(tmp_path / "matrix.jsonl")
    write_metrics(tmp_path / "detection.json", evaluation.as_metrics(), levels=4)
    write_metrics(tmp_path / "detection_cells.json", evaluation.as_cells(), levels=4)
    return tmp_path


def test_the_same_scores_give_the_same_numbers(published, capsys):
    assert dispatch(["recompute", str(published)]) == 0
    told = capsys.readouterr().out
    assert "numbers are equal, 0 differ (detection.json and detection_cells.json of" in told
    (published / "detection_cells.json").unlink()
    assert dispatch(["recompute", str(published)]) == 0
    assert "0 differ (detection.json of" in capsys.readouterr().out


def test_a_changed_score_or_number_is_named(published, capsys):
    path = published / "detection.json"
    document = json.loads(path.read_text("utf-8"))
    document["detectors"]["lrr"]["all"]["auroc"]["value"] += 0.001
    write_metrics(path, document)
    assert dispatch(["recompute", str(published)]) == 1
    told = capsys.readouterr().out
    assert "detection.json: detectors/lrr/all/auroc/value is" in told
    assert " 1 differ" in told


def test_a_folder_without_results_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match="is not there"):
        dispatch(["recompute", str(tmp_path)])
    write_metrics(tmp_path / "detection.json", {"made": {"seed": 0}})
    with pytest.raises(UserError, match="'resamples' is None"):
        dispatch(["recompute", str(tmp_path)])


@pytest.mark.parametrize(
    "folder", sorted(p.parent for p in RESULTS.glob("*/matrix.jsonl")), ids=str
)
def test_the_committed_results_are_what_their_scores_give(folder):
    assert dispatch(["recompute", str(folder)]) == 0


def test_the_readme_quotes_what_the_results_say():
    found = json.loads((RESULTS / "detection_embedded/detection.json").read_text("utf-8"))
    readme = (RESULTS.parent / "README.md").read_text("utf-8")
    lines = [line.strip("| ").split(" | ") for line in readme.splitlines() if line.startswith("| ")]
    quoted = {cells[0]: cells[1:] for cells in lines if cells[0] in found["detectors"]}
    assert len(quoted) == 8
    for detector, cells in quoted.items():
        whole = found["detectors"][detector]["all"]
        metrics = ("auroc", "macro_f1", "macro_f1_of_own_labels")
        assert cells == [shown(whole[m]) for m in metrics if whole[m]["value"] is not None]
        assert (whole["n_human"], whole["n_llm"]) == (15, 136)


def shown(estimate) -> str:
    value, low, high = (f"{100 * estimate[part]:.1f}" for part in ("value", "low", "high"))
    return f"{value} [{low}, {high}]"
