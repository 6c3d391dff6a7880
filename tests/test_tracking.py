"""Runs in a real MLflow database: nested, complete, once each, and failures with their reason."""

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from shared import BUGS

from shiyan import tracking
from shiyan.composition import flattened
from shiyan.database import look_at
from shiyan.errors import UserError
from shiyan.lockfile import locked_stages, without_track
from shiyan.metrics import Estimate, write_metrics
from shiyan.naming import legal_name, original_path
from shiyan.notes import (
    OpenNote,
    Process,
    current_experiment,
    pending_notes,
    without_secrets,
)
from shiyan.stage import with_note

pytestmark = pytest.mark.mlflow

ROOT = Path(__file__).resolve().parent.parent
LOCK = """schema: '2.0'
stages:
  judge:
    cmd: python -m stages.judge
    params:
      params.yaml:
        judge:
          temperature: {temperature}
          top_p: 3e-05
          models:
          - small
        models_of.judge:
          small:
            context: 4096
    outs:
    - path: metrics/judge.json
      hash: md5
      md5: {md5}
      size: 1
    - path: plots/judge_errors.csv
      hash: md5
      md5: 0
  track:
    cmd: python -m stages.track
    deps:
    - path: metrics/judge.json
      hash: md5
      md5: {md5}
"""
ERRORS = "judge,prompt,dimension,source,error,n\nsmall,P0,内容,constructed,12.5,3\n"


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory) -> Path:
    """A database with MLflow's schema; making it takes seconds, copying it none."""
    from mlflow.tracking import MlflowClient

    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    MlflowClient(f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture(scope="session")
def half_database(tmp_path_factory) -> Path:
    """A database of which the later half of MLflow's migrations is missing."""
    from alembic import command
    from alembic.script import ScriptDirectory
    from mlflow.store.db import utils
    from sqlalchemy import create_engine

    path = tmp_path_factory.mktemp("half") / "mlflow.db"
    config = utils._get_alembic_config(f"sqlite:///{path}")
    revisions = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    engine = create_engine(f"sqlite:///{path}")
    utils.InitialBase.metadata.create_all(engine)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revisions[len(revisions) // 2])
    engine.dispose()
    return path


def copy_of_project(folder: Path) -> Path:
    shutil.copytree(ROOT / "conf", folder / "conf")
    for name in ("params.yaml", "dvc.yaml"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture
def bare_project(tmp_path, monkeypatch) -> Path:
    """conf/, params.yaml and dvc.yaml in a folder with blanks, Chinese and a % in its name."""
    folder = copy_of_project(tmp_path / "我的 诗稿" / "50% 试")
    for name in [n for n in os.environ if n.startswith(("DVC_", "MLFLOW_"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def project(bare_project, empty_database) -> Path:
    (bare_project / "mlflow").mkdir()
    shutil.copy(empty_database, bare_project / "mlflow/mlflow.db")
    return bare_project


def pretend_a_run(temperature: float = 0.1, mae: float | None = 12.5) -> None:
    """Leave what a run of `judge` leaves: metrics, a plot, dvc.lock."""
    estimate = Estimate(mae, 3.0, 20.5, 3, 1, None if mae else "no reply could be read").as_dict()
    made = {"seed": 0, "scale": "0-100"}
    write_metrics(Path("metrics/judge.json"), {"mae": {"TPR@FPR=1%": estimate}, "made": made})
    Path("plots").mkdir(exist_ok=True)
    Path("plots/judge_errors.csv").write_text(ERRORS, encoding="utf-8")
    md5 = f"{temperature}-{mae}"
    Path("dvc.lock").write_text(LOCK.format(temperature=temperature, md5=md5), encoding="utf-8")


def client():
    from mlflow.tracking import MlflowClient

    return MlflowClient(tracking.store_uri())


def runs(name: str = "shiyan") -> list:
    experiment = client().get_experiment_by_name(name)
    return sorted(
        client().search_runs([experiment.experiment_id]), key=lambda run: run.info.start_time
    )


def stage_runs() -> list:
    return [run for run in runs() if run.data.tags["dvc.level"] == "stage"]


def parents() -> list:
    return [run for run in runs() if run.data.tags["dvc.level"] == "experiment"]


def artifacts(run, folder: str | None = None) -> list[str]:
    return [file.path for file in client().list_artifacts(run.info.run_id, folder)]


# --- a run that reached `track` ---------------------------------------------------------


def test_a_run_is_a_parent_with_a_nested_run_a_stage(project):
    pretend_a_run()
    assert tracking.track("shiyan")
    [parent], [judge] = parents(), stage_runs()
    assert judge.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert parent.info.status == judge.info.status == "FINISHED"
    assert judge.data.params["judge.temperature"] == "0.1"
    assert judge.data.params["judge.models"] == '["small"]'
    assert judge.data.metrics["mae/TPR-u40-FPR-u3d-1-u25-"] == 12.5
    assert judge.data.metrics["mae/TPR-u40-FPR-u3d-1-u25-/n_unscored"] == 1
    assert judge.data.tags["made/scale"] == "0-100"
    assert judge.data.tags["dvc.digest"] == locked_stages()["judge"].digest
    assert artifacts(judge, "metrics") == ["metrics/judge.json"]
    assert artifacts(judge, "figures") == ["figures/judge_errors.png"]
    assert artifacts(judge, "plots") == ["plots/judge_errors.csv"]
    assert "params.yaml" in artifacts(parent)
    location = client().get_experiment_by_name("shiyan").artifact_location
    assert location == (project / "mlflow/artifacts").as_uri()
    assert (project / "mlflow/artifacts" / judge.info.run_id).is_dir()


def test_a_number_as_dvc_writes_it_is_a_number(project):
    pretend_a_run()
    tracking.track("shiyan")
    [judge] = stage_runs()
    assert judge.data.params["judge.top_p"] == "3e-05"
    assert judge.data.metrics["params/judge.top_p"] == 3e-05


def test_numeric_params_sort_as_numbers(project):
    for temperature in (1e-5, 1e-6, 0.5):
        pretend_a_run(temperature)
        tracking.track("shiyan")
    experiment = client().get_experiment_by_name("shiyan").experiment_id
    found = client().search_runs(
        [experiment], "tags.`dvc.stage` = 'judge'", order_by=["metrics.`params/judge.temperature`"]
    )
    assert [run.data.params["judge.temperature"] for run in found] == ["1e-06", "1e-05", "0.5"]


def test_a_param_that_changed_makes_a_new_nested_run(project):
    pretend_a_run(0.1)
    tracking.track("shiyan")
    pretend_a_run(0.2)
    tracking.track("shiyan")
    assert len(parents()) == 1
    assert [r.data.params["judge.temperature"] for r in stage_runs()] == ["0.1", "0.2"]


def test_other_params_are_another_experiment(project):
    pretend_a_run()
    tracking.track("shiyan")
    text = Path("params.yaml").read_text(encoding="utf-8")
    changed = text.replace("test_share: 0.5", "test_share: 0.25")
    Path("params.yaml").write_text(changed, encoding="utf-8")
    tracking.track("shiyan")
    names = [run.info.run_name for run in parents()]
    assert names[0].startswith("repro: default (@ ")
    assert names[1].startswith("repro: split.test_share=0.25 (@ ")
    assert len(stage_runs()) == 2


def test_experiments_are_told_apart_by_name_and_baseline(project, monkeypatch):
    pretend_a_run()
    for name, baseline in (("one", "a" * 40), ("two", "a" * 40), ("one", "b" * 40)):
        monkeypatch.setenv("DVC_EXP_NAME", name)
        monkeypatch.setenv("DVC_EXP_BASELINE_REV", baseline)
        assert tracking.track("shiyan")
        assert not tracking.track("shiyan")
    keys = [run.data.tags["dvc.key"].rsplit("-", 1)[0] for run in parents()]
    assert keys == [f"one-{'a' * 12}", f"two-{'a' * 12}", f"one-{'b' * 12}"]


def test_a_stage_that_did_not_run_is_cached(project, monkeypatch):
    pretend_a_run()
    tracking.track("shiyan")
    monkeypatch.setenv("DVC_EXP_NAME", "again")
    OpenNote("judge").end("finished")
    tracking.track("shiyan")
    assert [run.data.tags["dvc.cached"] for run in stage_runs()] == ["true", "false"]
    assert pending_notes() == []


def test_nothing_new_costs_no_import_of_mlflow(project):
    pretend_a_run()
    tracking.track("shiyan")
    # DVC writes the entry of `track` once it has run; that is no new state.
    lock = Path("dvc.lock")
    lock.write_text(lock.read_text(encoding="utf-8") + "    - path: new\n", encoding="utf-8")
    code = (
        "import sys; from shiyan.tracking import track; assert track('shiyan') is False;"
        "heavy = {'mlflow', 'sqlalchemy', 'hydra', 'matplotlib', 'pandas', 'ruamel.yaml'};"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert len(runs()) == 2


def test_tracks_own_entry_is_cut_from_the_lock():
    text = LOCK.format(temperature=1, md5="x")
    assert without_track(text) == text[: text.index("  track:")]
    other = "  zero:\n    cmd: z\n"
    assert without_track(text + other).endswith(f"      md5: 0\n{other}")


def test_a_long_value_becomes_an_artifact_with_its_hash(project):
    pretend_a_run()
    prompt = "请读下面这首短诗，并评价它的解读。" * 400
    with tracking.open_store("shiyan") as store:
        parent = store.parent_of(current_experiment(), {}, 0.0)
        result = tracking.StageResult("judge", None, {"prompts.P0": prompt}, {})
        run_id = store.log_stage(parent, result)
    value = client().get_run(run_id).data.params["prompts.P0"]
    assert value.startswith("sha256:")
    assert "(6800 characters" in value
    path = client().download_artifacts(run_id, "params/prompts.P0.txt")
    assert Path(path).read_text(encoding="utf-8") == prompt


def test_names_of_any_kind_are_logged_and_turn_back(project):
    names = [
        "TPR@FPR=1%",
        "TPR@FPR=5%",
        "浣溪沙",
        "浣溪纱",
        "../up",
        "acc (std.)",
        "x" * 300,
        "a:b",
    ]
    more = BUGS / "54-mlflow-names-and-params/names.txt"
    if more.exists():
        names += more.read_text(encoding="utf-8").splitlines()
    document = {name: float(place) for place, name in enumerate(dict.fromkeys(names))}
    with tracking.open_store("shiyan") as store:
        parent = store.parent_of(current_experiment(), {}, 0.0)
        store.log_document(parent, "m.json", document)
    logged = client().get_run(parent).data.metrics
    path = client().download_artifacts(parent, "long_names/m.json")
    long = json.loads(Path(path).read_text(encoding="utf-8"))
    back = {original_path(name, long): value for name, value in logged.items()}
    back = {path: value for path, value in back.items() if path[0] != "params"}
    assert back == {(name,): value for name, value in document.items()}


def test_a_training_curve_has_steps(project):
    Path("curve.csv").write_text(
        "detector,fold,part,step,epoch,loss\nsmall,1,train,1,0,0.7\nsmall,1,train,2,1,\n"
        "small,2,train,2,1,0.9\nsmall,1,train,3,1,0.4\n",
        encoding="utf-8",
    )
    with tracking.open_store("shiyan") as store:
        run_id = store.parent_of(current_experiment(), {}, 0.0)
        store.log_plot(run_id, Path("curve.csv"))
    history = client().get_metric_history(run_id, "curves/small/1/train/loss")
    assert [(m.step, m.value) for m in history] == [(1, 0.7), (3, 0.4)]
    assert artifacts(client().get_run(run_id), "figures") == ["figures/curve.png"]


# --- the store ------------------------------------------------------------------------


def test_four_processes_may_use_a_missing_database_at_once(bare_project):
    pretend_a_run()
    code = "from shiyan.tracking import track; assert track('shiyan')"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env=os.environ | {"DVC_EXP_NAME": f"e{number}", "DVC_EXP_BASELINE_REV": "c" * 40},
        )
        for number in range(4)
    ]
    assert [process.wait() for process in processes] == [0, 0, 0, 0]
    assert len(parents()) == len(stage_runs()) == 4


def test_projects_may_share_one_missing_database(bare_project, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/shared/runs.db")
    code = "from shiyan.tracking import track; assert track('shiyan')"
    processes = []
    for number in range(2):
        monkeypatch.chdir(copy_of_project(tmp_path / f"clone{number}"))
        pretend_a_run()
        environment = os.environ | {"DVC_EXP_NAME": f"e{number}", "DVC_EXP_BASELINE_REV": "c" * 40}
        processes.append(subprocess.Popen([sys.executable, "-c", code], env=environment))
    assert [process.wait() for process in processes] == [0, 0]
    assert len(parents()) == len(stage_runs()) == 2


@pytest.mark.parametrize("name", ["a?b", "a%41b", "what?x=1&y=%2F"])
def test_signs_of_an_address_in_the_projects_path_are_no_address(bare_project, name, monkeypatch):
    place = bare_project.parent / "place"
    monkeypatch.chdir(copy_of_project(place / name))
    pretend_a_run()
    assert tracking.track("shiyan")
    assert len(stage_runs()) == 1
    assert artifacts(stage_runs()[0], "metrics") == ["metrics/judge.json"]
    assert look_at(Path("mlflow/mlflow.db")).state == "well"
    assert [path.name for path in place.iterdir()] == [name]
    # A workspace of DVC is another folder, in the project.
    monkeypatch.setenv("DVC_ROOT", str(place / name))
    (place / name / ".dvc/tmp/exps/tmp1").mkdir(parents=True)
    monkeypatch.chdir(place / name / ".dvc/tmp/exps/tmp1")
    assert len(stage_runs()) == 1


def test_a_store_that_cannot_be_made_is_named(project, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    pretend_a_run()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/file/runs.db")
    with pytest.raises(UserError, match=f"^{tmp_path}/file cannot be used"):
        tracking.track("shiyan")


# --- a database that is half made or damaged ---------------------------------------------

DATABASE = Path("mlflow/mlflow.db")
AT_THE_20TH_MIGRATION = """
from alembic.runtime.migration import HeadMaintainer
done, step = [], HeadMaintainer.update_to_step
def stopping(self, *arguments):
    done.append(1)
    if len(done) == 20:
        os.kill(os.getpid(), signal.{name})
    return step(self, *arguments)
HeadMaintainer.update_to_step = stopping
"""
BEFORE_THE_RENAME = """
from shiyan import database
put = database.put
def stopping(*paths):
    os.kill(os.getpid(), signal.{name})
    put(*paths)
database.put = stopping
"""
ON_A_FULL_DISK = """
import resource
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
"""


def track_with(first: str) -> "subprocess.CompletedProcess[str]":
    # What started the tests may have let SIGINT be ignored, which is inherited.
    heeded = "import os, signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{heeded}\n{first}\nfrom shiyan.tracking import track\ntrack('shiyan')"
    return subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, encoding="utf-8"
    )


def beside_the_database() -> set[str]:
    return {path.name for path in Path("mlflow").iterdir()} - {"store.lock"}


@pytest.mark.parametrize("moment", [AT_THE_20TH_MIGRATION, BEFORE_THE_RENAME])
@pytest.mark.parametrize("name", ["SIGKILL", "SIGINT"])
def test_an_interrupted_first_run_leaves_no_half_database(bare_project, moment, name):
    pretend_a_run()
    assert track_with(moment.format(name=name)).returncode == -getattr(signal, name)
    assert not DATABASE.exists()
    assert tracking.track("shiyan")
    assert len(stage_runs()) == 1
    assert beside_the_database() == {"mlflow.db", "artifacts", "receipts"}


def test_a_full_disk_leaves_no_half_database_and_is_one_sentence(bare_project):
    pretend_a_run()
    done = track_with(ON_A_FULL_DISK)
    assert re.search(r"UserError: .*mlflow\.db could not be made or migrated \(.*\)$", done.stderr)
    assert beside_the_database() == set()
    assert tracking.track("shiyan")


def damaged(whole: bytes) -> dict[str, bytes]:
    middle = len(whole) // 2
    return {
        "empty": b"",
        "cut": whole[:middle],
        "cut in its first page": whole[:200],
        "no database": b"The road not taken\n" * 500,
        "header": b"\xff" * 100 + whole[100:],
        "a page": whole[:middle] + b"\xff" * 8192 + whole[middle + 8192 :],
    }


@pytest.mark.parametrize("kind", damaged(b""))
def test_a_damaged_database_is_kept_aside_and_the_run_goes_on(
    project, empty_database, kind, capsys
):
    content = damaged(empty_database.read_bytes())[kind]
    DATABASE.write_bytes(content)
    # Played back into the new database, it would damage that one too.
    Path("mlflow/mlflow.db-journal").write_bytes(b"a killed writer's")
    pretend_a_run()
    assert tracking.track("shiyan")
    assert len(stage_runs()) == 1
    assert Path("mlflow/mlflow.db.damaged").read_bytes() == content
    assert not Path("mlflow/mlflow.db-journal").exists()
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "it is kept as mlflow.db.damaged, and the runs go to a new one" in told


def test_every_damaged_database_is_kept(project, empty_database):
    for content in (b"one", b"two", b"three"):
        DATABASE.write_bytes(content * 100)
        with tracking.locked_store():
            pass
    kept = ["mlflow.db.damaged", "mlflow.db.damaged.2", "mlflow.db.damaged.3"]
    assert [Path("mlflow", name).read_bytes()[:3] for name in kept] == [b"one", b"two", b"thr"]


def test_a_half_made_database_without_a_run_is_made_again(project, half_database, capsys):
    shutil.copy(half_database, DATABASE)
    pretend_a_run()
    assert tracking.track("shiyan")
    assert len(stage_runs()) == 1
    assert "was left half made, without a run in it" in capsys.readouterr().err
    assert Path("mlflow/mlflow.db.damaged").exists()


def test_what_a_lost_database_had_is_logged_to_the_new_one(project):
    # In processes of their own: MLflow keeps an open database for as long as its process lives.
    pretend_a_run()
    assert track_with("").returncode == 0
    DATABASE.unlink()
    assert track_with("").returncode == 0
    assert names_of_runs()
    assert not tracking.track("shiyan")
    DATABASE.write_bytes(b"damaged" * 100)
    with tracking.locked_store():
        pass
    assert tracking.track("shiyan")
    assert len(stage_runs()) == 1


def with_a_run(database: Path, more: str = "") -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.executescript(
            "INSERT INTO experiments (experiment_id, name, lifecycle_stage, artifact_location)"
            " VALUES (1, 'shiyan', 'active', 'artifacts');"
            "INSERT INTO runs (run_uuid, name, experiment_id, status, lifecycle_stage,"
            " artifact_uri, user_id, source_type, start_time, end_time)"
            " VALUES ('r', 'old', 1, 'FAILED', 'active', 'artifacts/r', 'me', 'LOCAL', 1, 2);"
            + more
        )


def names_of_runs() -> list[str]:
    with closing(sqlite3.connect(DATABASE)) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM runs")]


def test_an_older_mlflows_database_with_runs_is_migrated(project, half_database):
    shutil.copy(half_database, DATABASE)
    with_a_run(DATABASE)
    assert look_at(DATABASE).state == "old"
    pretend_a_run()
    assert tracking.track("shiyan")
    assert len(names_of_runs()) == 3
    assert beside_the_database() == {"mlflow.db", "receipts"}


def test_a_migration_that_was_killed_leaves_the_older_database(project, half_database):
    shutil.copy(half_database, DATABASE)
    with_a_run(DATABASE)
    before = DATABASE.read_bytes()
    pretend_a_run()
    killed = track_with(AT_THE_20TH_MIGRATION.format(name="SIGKILL"))
    assert killed.returncode == -signal.SIGKILL
    assert DATABASE.read_bytes() == before
    assert tracking.track("shiyan")
    assert "old" in names_of_runs()


def test_runs_that_cannot_be_migrated_are_never_given_up(project, half_database):
    shutil.copy(half_database, DATABASE)
    # What an interrupted migration in place leaves: a table that a later one makes.
    with_a_run(DATABASE, "CREATE TABLE secrets (x INTEGER)")
    before = DATABASE.read_bytes()
    pretend_a_run()
    with pytest.raises(UserError, match=r"left as it was.*mlflow db upgrade sqlite:") as raised:
        tracking.track("shiyan")
    assert "next run" not in str(raised.value)
    assert DATABASE.read_bytes() == before
    assert beside_the_database() == {"mlflow.db"}


def test_a_file_that_only_the_environment_names_is_left_alone(project, tmp_path, monkeypatch):
    mine = tmp_path / "thesis.txt"
    mine.write_text("no database\n" * 100, encoding="utf-8")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{mine}")
    pretend_a_run()
    with pytest.raises(UserError, match=r"thesis\.txt .*is damaged .*move it away"):
        tracking.track("shiyan")
    assert mine.read_text(encoding="utf-8").startswith("no database")


def test_a_store_that_cannot_be_reached_is_one_sentence(project, monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    pretend_a_run()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://me:secret@127.0.0.1:{port}")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with pytest.raises(UserError, match=r"could not be logged.*metrics/ are complete") as raised:
        tracking.track("shiyan")
    assert "secret" not in str(raised.value)
    assert "\n" not in str(raised.value)
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert tracking.track("shiyan")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, "127.0.0.1,localhost,::1"),
        ("localhost", "localhost,127.0.0.1,localhost,::1"),
        ("*", "*"),
        ("127.0.0.1,x.org", "127.0.0.1,x.org"),
    ],
)
def test_loopback_is_never_asked_through_a_proxy(before, after, monkeypatch):
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        if before is not None:
            monkeypatch.setenv(name, before)
    tracking.ask_loopback_directly()
    assert os.environ["no_proxy"] == os.environ["NO_PROXY"] == after


def test_a_lock_that_is_no_yaml_is_one_sentence(project):
    Path("dvc.lock").write_text("stages: [", encoding="utf-8")
    with pytest.raises(UserError, match=r"dvc\.lock could not be read .* restore it from git"):
        tracking.track("shiyan")


# --- failed, killed and partial runs ------------------------------------------------------


def divide_by_zero() -> None:
    1 / 0  # noqa: B018


def run_a_stage(main, stage: str = "judge") -> None:
    with_note(main, stage)()


def test_a_failed_stage_becomes_a_failed_run_with_its_reason(project):
    def fails() -> None:
        raise UserError("the server at http://me:secret@127.0.0.1 said no")

    with pytest.raises(UserError):
        run_a_stage(fails)
    assert tracking.import_notes("shiyan") == 1
    [parent], [judge] = parents(), stage_runs()
    assert parent.info.status == judge.info.status == "FAILED"
    assert judge.data.tags["dvc.reason"] == "the server at http://***@127.0.0.1 said no"
    assert parent.data.tags["dvc.reason"].startswith("judge: the server")
    assert judge.data.params["judge.temperature"] == "0.1"
    assert judge.data.params["models_of.judge.qwen2.5-coder-0.5b.family"] == "qwen"
    assert not any(name.startswith(("models_of.generate", "servers")) for name in judge.data.params)
    assert tracking.import_notes("shiyan") == 0


def test_a_fault_of_ours_is_named_with_its_kind(project):
    with pytest.raises(ZeroDivisionError):
        run_a_stage(divide_by_zero)
    tracking.import_notes("shiyan")
    assert stage_runs()[0].data.tags["dvc.reason"] == "ZeroDivisionError: division by zero"


def test_a_stage_that_the_user_stopped_is_killed(project):
    def stopped() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_a_stage(stopped)
    tracking.import_notes("shiyan")
    assert stage_runs()[0].info.status == "KILLED"


def test_a_stage_that_was_killed_becomes_a_failed_run(project):
    code = (
        "import os, signal; from shiyan.notes import OpenNote; OpenNote('judge');"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -signal.SIGKILL
    tracking.import_notes("shiyan")
    [judge] = stage_runs()
    assert judge.info.status == "FAILED"
    assert judge.data.tags["dvc.reason"].startswith("killed")


def test_a_running_stage_is_left_alone(project):
    OpenNote("judge")
    assert tracking.import_notes("shiyan") == 0
    assert len(pending_notes()) == 1


def test_a_stage_whose_pipeline_still_runs_is_left_to_its_track(project):
    note = OpenNote("judge")
    here = Process.current()
    note.note = note.note.model_copy(update={"pipeline": here})
    note.end("finished")
    assert tracking.import_notes("shiyan") == 0
    gone = Process(pid=here.pid, started=here.started - 1)
    note.note = note.note.model_copy(update={"pipeline": gone})
    note.end("finished")
    assert tracking.import_notes("shiyan") == 1


def test_a_partial_run_appears_with_its_numbers_also_when_they_were_overwritten(project):
    run_a_stage(lambda: pretend_a_run(mae=7.25))
    pretend_a_run(mae=99.0)
    tracking.import_notes("shiyan")
    [judge] = stage_runs()
    assert judge.info.status == parents()[0].info.status == "FINISHED"
    assert judge.data.metrics["mae/TPR-u40-FPR-u3d-1-u25-"] == 7.25
    assert "plots" not in artifacts(judge)


def test_a_failure_and_the_success_after_it_stand_in_one_experiment(project):
    with pytest.raises(ZeroDivisionError):
        run_a_stage(divide_by_zero)
    run_a_stage(pretend_a_run)
    tracking.track("shiyan")
    [parent] = parents()
    assert [run.info.status for run in stage_runs()] == ["FAILED", "FINISHED"]
    assert parent.info.status == "FINISHED"


def test_a_run_whose_writer_was_killed_is_ended(project):
    code = (
        "import os, signal; from shiyan import tracking\n"
        "with tracking.open_store('shiyan') as store:\n"
        "    store.start('half', {'dvc.level': 'stage'}, 0.0)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    with tracking.open_store("shiyan") as store:
        mine = store.start("mine", {"dvc.level": "stage"}, 0.0)
        assert [run.info.run_name for run in store.dead_runs()] == ["half"]
        store.end_dead_runs()
    assert {r.info.run_name: r.info.status for r in runs()} == {"half": "FAILED", "mine": "RUNNING"}
    assert client().get_run(mine).info.status == "RUNNING"


def test_a_note_never_stops_a_stage(project, monkeypatch, capsys):
    shutil.rmtree("mlflow")
    Path("mlflow").write_text("a file where the folder should be", encoding="utf-8")
    done = []
    run_a_stage(lambda: done.append(1))
    assert done == [1]
    assert "MLflow will not learn of this stage" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("http://u:p@h:1/x failed", "http://***@h:1/x failed"),
        ("socks5h://token@h", "socks5h://***@h"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("key sk-abcdefghijklmnop refused", "key sk-*** refused"),
        ("https://h/v1?v=2&api-key=a.b&x=1", "https://h/v1?v=2&api-key=***&x=1"),
        ("诗 a@b 与 1/2", "诗 a@b 与 1/2"),
        ("a name with \udcff", "a name with \\udcff"),
    ],
)
def test_secrets_are_left_out(text, told):
    assert without_secrets(text) == told


# --- values -------------------------------------------------------------------------------


def test_every_number_of_a_metrics_file_is_found():
    document = {
        "auroc": {"value": 0.9, "low": 0.8, "high": None, "n": 5, "n_unscored": 1},
        "rows": [{"n": 2}, {"n": 3}],
        "said": "text",
        "yes": True,
        "made": {"seed": 7, "rule": "youden"},
        "value": 4,
    }
    assert dict(tracking.numbers(document)) == {
        ("auroc",): 0.9,
        ("auroc", "low"): 0.8,
        ("auroc", "n"): 5,
        ("auroc", "n_unscored"): 1,
        ("rows", "0", "n"): 2,
        ("rows", "1", "n"): 3,
        ("made", "seed"): 7,
        ("value",): 4,
    }
    assert tracking.signature(document) == {"made/seed": "7", "made/rule": "youden"}


def test_an_unscored_value_is_no_metric():
    unscored = Estimate(None, None, None, 0, 3, "one class only").as_dict()
    assert dict(tracking.numbers({"auroc": unscored})) == {
        ("auroc", "n"): 0,
        ("auroc", "n_unscored"): 3,
    }


def test_a_runs_name_tells_the_first_changes_only():
    assert tracking.described({}) == ""
    assert tracking.described({"models.a.kind": "api", "judge.models": ["a"]}) == (
        'judge.models=["a"]'
    )
    many = {f"k{i}": "字" * (41 if i == 0 else 1) for i in range(6)}
    assert tracking.described(many) == f"k0={'字' * 40}…, k1=字, k2=字, k3=字, and 2 more"


def test_a_params_name_is_legal_for_mlflow():
    assert flattened({"judge": {"models": ["a"]}}) == {"judge.models": ["a"]}
    assert legal_name("params", "models.a.x") == "params/models.a.x"
