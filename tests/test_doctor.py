"""What the doctor finds, and what --mend does about it."""

import json
import os
import shutil
import subprocess
import sys
from hashlib import md5
from pathlib import Path

import pytest
from omegaconf import OmegaConf
from sections import name_models

from shiyan import composition
from shiyan.commands import doctor
from shiyan.config import ApiModelParams
from shiyan.notes import OpenNote, Process
from shiyan.work import WorkCache

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    text = composition.text_of(composition.composed((), ROOT / "conf"))
    (tmp_path / "params.yaml").write_text(text, encoding="utf-8")
    for name in [n for n in os.environ if n.startswith(("DVC_", "MLFLOW_", "SHIYAN_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SHIYAN_MODELS", str(tmp_path / "models"))
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def changed(project: Path, old: str, new: str) -> None:
    path = project / "params.yaml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_params_that_conf_composes_to_are_well(project):
    [finding] = doctor.params()
    assert finding.is_well


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("test_share: 0.5", "test_share: 0.25", "differs from conf/ in split.test_share"),
        ("test_share: 0.5", "test_share: ???", "split.test_share is still ???"),
        ("test_share: 0.5", "test_shear: 0.5", "split.test_sh"),
    ],
)
def test_params_out_of_step_incomplete_or_wrong_are_told(project, old, new, says):
    changed(project, old, new)
    [finding] = doctor.params()
    assert not finding.is_well
    assert says in finding.says


LOCK = "schema: '2.0'\nstages:\n  collect:\n    cmd: python -m stages.collect\n"


@pytest.fixture
def committed(project) -> Path:
    """The project as a git repository whose last commit has a dvc.lock."""
    (project / ".git").rmdir()
    (project / "dvc.lock").write_text(LOCK, encoding="utf-8")
    user = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["init", "-q"], ["add", "dvc.lock"], [*user, "commit", "-qm", "x"]):
        subprocess.run(["git", *command], check=True)
    return project


def test_what_dvc_can_read_is_well(committed):
    (committed / ".dvc/tmp").mkdir(parents=True)
    (committed / ".dvc/tmp/rwlock").write_text('{"out": {}}', encoding="utf-8")
    assert list(doctor.dvc_files()) == []


@pytest.mark.parametrize("left", ["", "schema: '2.0'\nsta", "stages: [", "\0\0\0"])
def test_a_lock_that_a_kill_left_half_is_that_of_the_last_commit_again(committed, left):
    (committed / "dvc.lock").write_text(left, encoding="utf-8")
    [finding] = doctor.dvc_files()
    assert not finding.is_well
    assert doctor.is_mended(finding)
    assert (committed / "dvc.lock").read_text(encoding="utf-8") == LOCK
    assert list(doctor.dvc_files()) == []


def test_a_lock_that_was_never_committed_is_told_only(project):
    (project / "dvc.lock").write_text("", encoding="utf-8")
    [finding] = doctor.dvc_files()
    assert "remove it" in str(finding.remedy)
    assert not doctor.is_mended(finding)


@pytest.mark.parametrize("left", ["", "{", "[]"])
def test_a_record_of_running_commands_that_cannot_be_read_is_emptied(project, left):
    path = project / ".dvc/tmp/rwlock"
    path.parent.mkdir(parents=True)
    path.write_text(left, encoding="utf-8")
    [finding] = doctor.dvc_files()
    assert doctor.is_mended(finding)
    assert path.read_text(encoding="utf-8") == "{}"


def test_a_workspace_of_no_process_is_removed_with_dvcs_record_of_it(project):
    exps = project / ".dvc/tmp/exps"
    stale, used = exps / "standalone/tmpabc", exps / "tmpdef"
    for workspace in (stale, used):
        workspace.mkdir(parents=True)
        record = exps / "run" / workspace.name / f"{workspace.name}.run"
        record.parent.mkdir(parents=True)
        record.write_text(json.dumps({"root_dir": str(workspace)}), encoding="utf-8")
    code = "import sys; sys.stdout.write('up'); sys.stdout.flush(); sys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=used, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    process.stdout.read(2)
    try:
        [finding] = doctor.workspaces()
        assert str(stale) in finding.says
        finding.mend()
    finally:
        process.communicate()
    assert not stale.exists()
    assert not (exps / "run/tmpabc").exists()
    assert used.exists()
    assert (exps / "run/tmpdef/tmpdef.run").exists()


def test_a_damaged_cache_object_is_told_and_mended(project):
    folder = project / ".dvc/cache/files/md5"
    for content in (b"one", b"two", b"three"):
        name = md5(content).hexdigest()
        (folder / name[:2]).mkdir(parents=True, exist_ok=True)
        (folder / name[:2] / name[2:]).write_bytes(content)
    listing = md5(b"[]").hexdigest()
    (folder / listing[:2]).mkdir(exist_ok=True)
    (folder / listing[:2] / f"{listing[2:]}.dir").write_bytes(b"[]")
    assert next(f.says for f in doctor.cache()) == "all 4 files are what their names say"
    damaged = folder / md5(b"two").hexdigest()[:2] / md5(b"two").hexdigest()[2:]
    # Bit rot: the same size and date, which DVC itself never looks behind.
    stat = damaged.stat()
    damaged.write_bytes(b"twX")
    os.utime(damaged, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    [finding] = [finding for finding in doctor.cache() if not finding.is_well]
    assert str(damaged) in finding.says
    finding.mend()
    assert all(f.is_well for f in doctor.cache())


def test_a_result_that_is_not_what_the_lock_says_is_told(project):
    (project / "data").mkdir()
    (project / "data/a.jsonl").write_bytes(b"flipped")
    sums = {"data/a.jsonl": md5(b"written").hexdigest(), "data/gone.jsonl": md5(b"1").hexdigest()}
    outs = "".join(f"    - path: {path}\n      md5: {told}\n" for path, told in sums.items())
    (project / "dvc.lock").write_text(
        f"schema: '2.0'\nstages:\n  collect:\n    outs:\n{outs}", encoding="utf-8"
    )
    [finding] = [finding for finding in doctor.cache() if not finding.is_well]
    assert finding.says.startswith("data/a.jsonl is not what dvc.lock says")


def test_a_damaged_entry_of_the_work_cache_is_told_and_set_aside(project):
    kept = WorkCache()
    kept.put_json("chat", {"n": 1}, "花")
    path = kept.path("chat", {"n": 1})
    path.write_bytes(path.read_bytes().replace("花".encode(), "月".encode()))
    [finding] = [finding for finding in doctor.cache() if not finding.is_well]
    assert str(path) in finding.says
    finding.mend()
    assert not path.exists()
    assert all(f.is_well for f in doctor.cache())


def test_models_that_are_missing_are_told_with_the_command(project):
    missing = {f.about: f.remedy for f in doctor.models()}
    assert missing["model qwen2.5-coder-1.5b"] == "`shiyan models fetch qwen2.5-coder-1.5b`"


def test_an_address_with_a_key_in_it_is_told_without_the_key(project):
    params = OmegaConf.load("params.yaml")
    name = "qwen2.5-coder-0.5b"
    url = "https://api.example.org/v1?api-key=hush-hush"
    name_models(
        params,
        {name: ApiModelParams(kind="api", base_url=url, model="m", key_variable=None, family="f")},
        *(section for section in params.models_of if name in params.models_of[section]),
    )
    OmegaConf.save(params, "params.yaml")
    says = [finding.says for finding in doctor.models() if not finding.is_well]
    assert any("holds credentials in api-key" in told for told in says)
    OpenNote("generate").end("failed", " ".join(says))
    (note,) = (project / "mlflow" / "pending").iterdir()
    assert "hush" not in "".join(says) + note.read_text(encoding="utf-8")


def test_npm_is_missed_only_where_it_is_needed(project, monkeypatch):
    monkeypatch.setenv("PATH", "")
    [finding] = doctor.corpus()
    assert "npm is not installed" in f"{finding.about} {finding.says}"
    monkeypatch.undo()
    composed = composition.composed(
        ["corpus=files", "corpus.path=a.jsonl", "corpus.genre=ci"], ROOT / "conf"
    )
    (project / "params.yaml").write_text(composition.text_of(composed), encoding="utf-8")
    monkeypatch.chdir(project)
    monkeypatch.setenv("PATH", "")
    assert list(doctor.corpus()) == []


def test_a_folder_that_is_no_git_repository_is_told(project):
    assert [finding.about for finding in doctor.place()] == ["folder"]
    (project / ".git").rmdir()
    folder, git = doctor.place()
    assert folder.is_well
    assert "no git repository" in git.says


def test_a_stage_that_outlived_its_pipeline_is_told(project):
    note = OpenNote("generate")
    gone = Process(pid=note.note.process.pid, started=0.0)
    note.note = note.note.model_copy(update={"pipeline": gone})
    note.end("running")
    [finding] = doctor.orphans()
    assert f"process {os.getpid()} runs on" in finding.says


def test_a_full_disk_is_told(project, monkeypatch):
    usage = shutil.disk_usage(project)._replace(free=2**30)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    assert [f.is_well for f in doctor.disk()] == [False, False]


def test_no_database_is_made_only_to_look(project):
    assert [f.is_well for f in doctor.runs()] == [True]
    assert not (project / "mlflow/mlflow.db").exists()


@pytest.mark.mlflow
def test_a_damaged_database_is_told_and_mended(project, capsys):
    database = project / "mlflow/mlflow.db"
    database.parent.mkdir()
    database.write_bytes(b"no database" * 100)
    [finding] = doctor.runs()
    assert f"{database} is damaged (file is not a database)" in finding.says
    assert "--mend" in finding.remedy
    assert [path.name for path in database.parent.iterdir()] == ["mlflow.db"]
    found = []
    for finding in doctor.runs():
        found.append(doctor.is_mended(finding))
    assert found == [True, False]
    assert (database.parent / "mlflow.db.damaged").read_bytes() == b"no database" * 100
    assert "kept as mlflow.db.damaged" in capsys.readouterr().err
    assert [finding.says for finding in doctor.runs()] == ["every run has ended or is being logged"]


@pytest.mark.mlflow
def test_a_damaged_file_that_the_environment_names_is_told_only(project, monkeypatch):
    mine = project / "thesis.txt"
    mine.write_bytes(b"no database" * 100)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{mine}")
    [finding] = doctor.runs()
    assert str(mine) in finding.says
    assert finding.mend is None


def test_what_cannot_be_mended_is_said_and_stays_wrong(capsys):
    from shiyan.errors import UserError

    def fails():
        raise UserError("the disk is full")

    assert not doctor.is_mended(doctor.Finding("x", "is wrong", "mend it", fails))
    assert capsys.readouterr().err == "note: the disk is full\n"


def test_a_look_that_cannot_be_taken_is_itself_a_finding():
    from shiyan.errors import UserError

    def blind():
        raise UserError("the store is broken")
        yield

    [finding] = doctor.told(blind)
    assert finding.about == "blind"
    assert not finding.is_well


def test_the_command_prints_a_line_each_and_its_exit_code_tells(project, capsys, monkeypatch):
    from shiyan.cli import dispatch

    monkeypatch.setattr(doctor, "models", lambda: iter(()))
    monkeypatch.setattr(doctor, "corpus", lambda: iter(()))
    monkeypatch.setattr(doctor, "disk", lambda: iter(()))
    assert dispatch(["doctor", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["state"] for line in lines} == {"well"}
    (project / ".dvc/tmp/exps/tmpabc").mkdir(parents=True)
    assert dispatch(["doctor"]) == 1
    assert "wrong   workspace" in capsys.readouterr().out
    assert dispatch(["doctor", "--mend"]) == 0
    assert "mended  workspace" in capsys.readouterr().out
