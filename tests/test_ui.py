"""The MLflow pages: a busy port is one sentence, and the server shows the runs and ends."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path

import pytest

from shiyan.cli import dispatch
from shiyan.commands import ui
from shiyan.errors import UserError

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    shutil.copy(ROOT / "params.yaml", tmp_path)
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    for name in [n for n in os.environ if n.startswith(("DVC_", "MLFLOW_"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def test_a_port_in_use_is_one_sentence_and_nothing_is_started(project):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(UserError, match=rf"port {port} of 127\.0\.0\.1 cannot be used") as e:
            dispatch(["ui", "--port", str(port)])
    assert e.value.exit_code == 2
    assert not (project / "mlflow").exists()


@pytest.mark.parametrize("port", ["0", "70000", "http", "-1"])
def test_what_is_no_port_is_refused(port, capsys):
    with pytest.raises(SystemExit) as stopped:
        dispatch(["ui", f"--port={port}"])
    assert stopped.value.code == 2
    assert "is not a port" in capsys.readouterr().err


def test_a_remote_store_is_named_without_its_password(project, monkeypatch, capsys):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://me:secret@runs.example.org")
    assert dispatch(["ui"]) == 0
    told = capsys.readouterr().out
    assert "https://***@runs.example.org" in told
    assert "secret" not in told


def test_broken_params_do_not_keep_the_pages_shut(project, capsys):
    (project / "params.yaml").write_text("track: [", encoding="utf-8")
    ui.learn_of_notes()
    assert "not valid YAML" in capsys.readouterr().err


@pytest.mark.mlflow
def test_a_damaged_database_does_not_keep_the_pages_shut(project, monkeypatch, capsys):
    (project / "mlflow").mkdir()
    (project / "mlflow/mlflow.db").write_bytes(b"no database" * 100)
    served = []
    monkeypatch.setattr(ui, "serve", lambda host, port, uri: served.append(uri) or 0)
    assert dispatch(["ui", "--port", str(free_port())]) == 0
    assert served == [f"sqlite:///{project}/mlflow/mlflow.db"]
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "kept as mlflow.db.damaged" in told


@pytest.mark.mlflow
def test_the_pages_show_a_failed_run_and_the_server_ends_with_the_command(project):
    failed = (
        "from shiyan.notes import OpenNote; OpenNote('judge').end('failed', 'the server said no')"
    )
    subprocess.run([sys.executable, "-c", failed], check=True)
    port = free_port()
    command = [sys.executable, "-c", "from shiyan.cli import main; main()", "ui"]
    environment = os.environ | {"http_proxy": "http://127.0.0.1:9", "PYTHONUNBUFFERED": "1"}
    shown = subprocess.Popen(
        [*command, "--port", str(port)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
    )
    try:
        told = f"http://127.0.0.1:{port}/#/experiments/1/runs shows the runs"
        assert told in shown.stdout.readline()
        asked = HTTPConnection("127.0.0.1", port, timeout=30)
        body = json.dumps({"experiment_ids": ["1"]})
        asked.request(
            "POST", "/api/2.0/mlflow/runs/search", body, {"Content-Type": "application/json"}
        )
        runs = json.loads(asked.getresponse().read())["runs"]
        assert {run["info"]["status"] for run in runs} == {"FAILED"}
    finally:
        shown.send_signal(signal.SIGTERM)
        shown.communicate()
    with socket.create_server(("127.0.0.1", port)):
        pass
