"""Notes of the stages that ran, for MLflow to learn of later.

A stage leaves one small file in `$DVC_ROOT/mlflow/pending/`: when it began, how
it ended and why, with the params and metrics of that moment. Importing MLflow
would cost each stage seconds; a note costs milliseconds. `track` and `shiyan ui`
turn the notes of failed and partial runs into MLflow runs. A note without an
end whose process is gone tells of a stage that was killed.
"""

import hashlib
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from shiyan.config import PARAMS_FILE, project_root, read_params
from shiyan.errors import UserError
from shiyan.hiding import SECRET_NAME
from shiyan.jsonl import replacing
from shiyan.records import Record

Outcome = Literal["running", "finished", "failed", "stopped"]
KILLED = "killed before it ended (kill -9, out of memory, or the machine went down)"


class Process(Record):
    """A process of this machine, told from a later one of the same number by its start."""

    pid: int
    started: float
    """Seconds since the epoch."""

    @property
    def is_alive(self) -> bool:
        return started_at(self.pid) == self.started

    @classmethod
    def current(cls) -> "Process":
        return cls(pid=os.getpid(), started=started_at(os.getpid()) or time.time())

    @classmethod
    def pipeline(cls) -> "Process | None":
        """The nearest ancestor that runs DVC."""
        import psutil

        try:
            for parent in psutil.Process().parents():
                if any(Path(word).name.split(".")[0] == "dvc" for word in parent.cmdline()):
                    return cls(pid=parent.pid, started=parent.create_time())
        except psutil.Error:
            pass
        return None


def started_at(pid: int) -> float | None:
    """When the process began, in seconds since the epoch; None if there is none."""
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.Error:
        return None


class StageNote(Record):
    """One attempt at one stage."""

    stage: str
    experiment: str
    """Key of the experiment that it belongs to, see `Experiment.key`."""
    experiment_name: str | None
    baseline: str
    params: str
    """Text of params.yaml as the stage read it."""
    host: str
    process: Process
    pipeline: Process | None
    """The DVC run that the stage is part of."""
    started: float
    ended: float | None = None
    outcome: Outcome = "running"
    reason: str | None = None
    metrics: dict[str, str] = Field(default_factory=dict)
    """Metrics files that the stage wrote: path -> text."""

    @property
    def is_running(self) -> bool:
        return self.outcome == "running" and self.process.is_alive

    @property
    def is_settled(self) -> bool:
        """Nothing more will come of it: a failure, or an end that no `track` will follow.

        A process on another machine is believed to live.
        """
        if self.host != socket.gethostname():
            return self.outcome != "running"
        if self.outcome == "running":
            return not self.process.is_alive
        return self.outcome != "finished" or not (self.pipeline and self.pipeline.is_alive)


@dataclass(frozen=True)
class Experiment:
    """What makes two runs of the pipeline one experiment: name, baseline, params.

    Attributes:
        name: DVC's name for it; None under plain `dvc repro`.
        baseline: the commit it started from; "no-git" where there is none.
        params: text of params.yaml.
    """

    name: str | None
    baseline: str
    params: str

    @property
    def params_sha256(self) -> str:
        return hashlib.sha256(self.params.encode()).hexdigest()

    @property
    def key(self) -> str:
        """MLflow params are written once, so another params.yaml is another experiment."""
        return f"{self.name or 'repro'}-{self.baseline[:12]}-{self.params_sha256[:12]}"


def current_experiment() -> Experiment:
    """The experiment of this process, from what DVC tells a stage and from git."""
    name = os.environ.get("DVC_EXP_NAME") or None
    baseline = os.environ.get("DVC_EXP_BASELINE_REV") if name else None
    params = ""
    if PARAMS_FILE.exists():
        # A stage that refuses an address with a key in it is noted as well.
        params = without_secrets(PARAMS_FILE.read_text(encoding="utf-8", errors="replace"))
    return Experiment(name, baseline or _head(), params)


def _head() -> str:
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, encoding="utf-8", check=False
        )
    except OSError:
        return "no-git"
    return done.stdout.strip() if done.returncode == 0 else "no-git"


def pending_folder() -> Path:
    return project_root() / "mlflow" / "pending"


class OpenNote:
    """The note of a running stage; `end` completes it. Neither ever stops the stage."""

    def __init__(self, stage: str) -> None:
        experiment = current_experiment()
        self.note = StageNote(
            stage=stage,
            experiment=experiment.key,
            experiment_name=experiment.name,
            baseline=experiment.baseline,
            params=experiment.params,
            host=socket.gethostname(),
            process=Process.current(),
            pipeline=Process.pipeline(),
            started=time.time(),
        )
        self.path = pending_folder() / f"{time.time_ns()}-{stage.replace('/', '_')}-{os.getpid()}"
        self._write()

    def end(self, outcome: Outcome, reason: str | None = None) -> None:
        self.note = self.note.model_copy(
            update={
                "ended": time.time(),
                "outcome": outcome,
                "reason": without_secrets(reason) if reason else None,
                "metrics": dict(self._metrics_written()),
            }
        )
        self._write()

    def _metrics_written(self) -> Iterator[tuple[str, str]]:
        """A later run overwrites the files, so the note keeps what this one wrote."""
        try:
            paths = read_params()["paths"]
        except (UserError, KeyError):
            return
        for key, name in paths.items():
            path = Path(name)
            if key.endswith("_metrics") and _is_newer(path, self.note.started):
                yield name, path.read_text(encoding="utf-8")

    def _write(self) -> None:
        try:
            with replacing(self.path) as file:
                file.write(self.note.model_dump_json())
        except UserError as error:
            sys.stderr.write(f"note: MLflow will not learn of this stage: {error}\n")


def _is_newer(path: Path, than: float) -> bool:
    # Some file systems keep whole seconds only.
    return path.exists() and path.stat().st_mtime >= int(than)


def pending_notes() -> list[tuple[Path, StageNote]]:
    """Every note, oldest first; a file that is no note (of an older version) is passed over."""
    found = []
    for path in sorted(pending_folder().glob("[0-9]*")):
        try:
            found.append((path, StageNote.model_validate_json(path.read_bytes())))
        except (ValidationError, OSError):
            continue
    return found


def without_secrets(text: str) -> str:
    """The text without user:password of an address and without anything like an API key.

    Halves of characters, as names of files may hold them, become escapes: a note is UTF-8.
    """
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    text = re.sub(r"(\w+://)[^\s/@]+@", r"\1***@", text)
    text = re.sub(r"(?i)\b(bearer\s+)\S+", r"\1***", text)
    text = re.sub(rf"(?i)([?&](?:{SECRET_NAME})=)[^&#\s\"']*", r"\1***", text)
    return re.sub(r"\b(sk|hf|ghp)[-_][\w-]{12,}", r"\1-***", text)
