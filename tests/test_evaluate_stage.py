"""The stage evaluate: from what the scorers left to metrics files, plots and a score matrix."""

import json
import shutil
from pathlib import Path

import pytest
from detector_fakes import halves, noisy, pairs, scored

from shiyan.cli import dispatch
from shiyan.config import PathsParams, load_params
from shiyan.detectors.counts import fingerprint, score_counts
from shiyan.errors import UserError
from shiyan.jsonl import read_records, write_records
from shiyan.metrics import write_metrics
from shiyan.records import AttackedPoem, DetectorScore, Memorisation
from shiyan.report.documents import flat_tables
from stages import evaluate

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def paths(tmp_path, monkeypatch) -> PathsParams:
    """A project whose scorers have run: 40 human poems, two prompts, one poem known by heart."""
    shutil.copy(ROOT / "params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    found = load_params("paths", PathsParams)
    poems = pairs(40, prompts=("P1", "P2"))
    folds = halves(poems)
    write_records(found.poems, [p for p in poems.values() if not p.generation])
    write_records(found.generated, [p for p in poems.values() if p.generation])
    write_records(found.splits, folds.values())
    attacked = [p for p, a in folds.items() if a.fold == "test" and poems[p].label]
    write_records(
        found.attacked,
        [
            AttackedPoem(attack="a", of=p, of_human=False, poem=None, reason="no reason")
            for p in attacked
        ],
    )
    zero = scored(poems, "lrr", noisy(poems, 1.0)) + scored(poems, "log_rank", noisy(poems, 1.0, 1))
    write_records(found.zero_shot_scores, zero)
    write_records(
        found.zero_shot_attacked,
        [DetectorScore(poem_id=p, detector="lrr", score=0.0, attack="a") for p in attacked],
    )
    write_records(
        found.memorisation,
        [Memorisation(poem_id=p, model="m", flagged=p == "h0") for p in poems],
    )
    write_records(found.trained_scores, scored(poems, "net", noisy(poems, 3.0, 2)))
    write_records(found.trained_lessons, [])
    write_records(found.trained_attacked, [])
    made = {"split_sha256": fingerprint(folds)}
    relations = {"scorer_is_generator": {"lrr": {"m": "same weights"}}}
    net = read_records(found.trained_scores, DetectorScore)
    write_metrics(found.zero_shot_metrics, {"scores": score_counts(zero), "made": made | relations})
    write_metrics(found.trained_metrics, {"scores": score_counts(net), "made": made})
    return found


def read(path: Path):
    return json.loads(path.read_text(encoding="utf-8"))


def test_every_cell_is_in_a_file_and_its_headline_in_another(paths, capsys):
    evaluate.main()
    short, cells = read(paths.detection_metrics), read(paths.detection_cells)
    assert list(short["detectors"]) == ["lrr", "log_rank", "fusion", "net"]
    whole = short["detectors"]["lrr"]["all"]
    assert whole == cells["tables"]["detectors"]["all"]["lrr"]
    assert whole["scorer_is_generator"] == "same weights"
    assert short["detectors"]["net"]["all"]["scorer_is_generator"] is None
    without = short["detectors"]["lrr"]["no memorised human poem"]
    assert (without["n_left_out"], without["n_human"]) == (1, 19)
    assert cells["tables"]["attacks"]["a / LLM poems"]["lrr"]["n_changed"] == 40
    lost = cells["tables"]["attacks"]["a / LLM poems"]["net"]["auroc_lost"]
    assert (lost["value"], lost["n_unscored"]) == (None, 40)
    assert short["made"]["resamples"] == 1000
    for place in cells["tables"]["in_domain"].values():
        assert {cell["accuracy"]["n"] for cell in place.values()} <= {40, 60}
    assert paths.detection_roc.exists()
    assert paths.detection_distributions.exists()


def test_the_matrix_alone_gives_the_numbers_again(paths, tmp_path):
    evaluate.main()
    folder = tmp_path / "published"
    folder.mkdir()
    for path in (paths.score_matrix, paths.detection_metrics, paths.detection_cells):
        shutil.copy(path, folder / path.name)
    assert dispatch(["recompute", str(folder)]) == 0


@pytest.mark.parametrize("stage", ["zero_shot_score", "train_roberta"])
def test_scores_of_another_split_are_refused(paths, stage):
    by_stage = {
        "zero_shot_score": paths.zero_shot_metrics,
        "train_roberta": paths.trained_metrics,
    }
    document = read(by_stage[stage])
    document["made"]["split_sha256"] = "0" * 64
    write_metrics(by_stage[stage], document)
    with pytest.raises(UserError, match=f"another split.*`dvc repro {stage}`"):
        evaluate.main()
    assert not paths.detection_metrics.exists()


def without_first(path: Path) -> None:
    path.write_text("".join(path.read_text("utf-8").splitlines(keepends=True)[1:]), "utf-8")


def without_scores(path: Path) -> None:
    path.write_text("", "utf-8")


def with_a_null(path: Path) -> None:
    first, *rest = read_records(path, DetectorScore)
    write_records(path, [first.model_copy(update={"score": None}), *rest])


@pytest.mark.parametrize("spoil", [without_first, without_scores, with_a_null])
def test_a_score_fewer_than_the_scorer_left_is_refused(paths, spoil):
    spoil(paths.trained_scores)
    with pytest.raises(UserError, match="by net, and train_roberta left 120 scores and 0 unscored"):
        evaluate.main()


@pytest.mark.parametrize("text", [None, "", "{}", '{"made": {}}', "[]"])
def test_a_scorers_spoilt_metrics_are_one_sentence(paths, text):
    if text is None:
        paths.zero_shot_metrics.unlink()
    else:
        paths.zero_shot_metrics.write_text(text, "utf-8")
    with pytest.raises(UserError, match=r"zero_shot_score\.json .*`dvc repro zero_shot_score`"):
        evaluate.main()


def test_scores_of_poems_that_are_not_there_are_refused(paths):
    strange = [DetectorScore(poem_id="gone", detector="net", score=1.0)]
    write_records(paths.trained_lessons, strange)
    with pytest.raises(UserError, match="'gone', which is not among the poems"):
        evaluate.main()


def test_tables_are_flat_for_mlflow(paths):
    evaluate.main()
    tables = flat_tables(read(paths.detection_cells))
    columns = tables["in_domain"]
    assert len({len(values) for values in columns.values()}) == 1
    assert {"detector", "subset", "generator", "auroc", "auroc low", "auroc n"} <= columns.keys()
    assert flat_tables(read(paths.detection_metrics)) == {}
