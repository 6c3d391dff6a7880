"""MLflow: one parent run an experiment, one nested run a stage.

Only this module and `database` import MLflow, and they do so only when there is
something to log: a receipt says that a state of dvc.lock has been logged. Runs
go to `sqlite:///$DVC_ROOT/mlflow/mlflow.db` unless MLFLOW_TRACKING_URI names
another store. A run is told by its tags (`dvc.key`, `dvc.stage`, `dvc.digest`),
so the same state is never logged twice.
"""

import csv
import hashlib
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from shiyan.composition import composed, flattened
from shiyan.config import project_root
from shiyan.database import Look, look_at, make, migrate
from shiyan.errors import UserError
from shiyan.jsonl import replacing
from shiyan.lockfile import (
    LOCK_FILE,
    PIPELINE_FILE,
    LockedStage,
    locked_stages,
    read_yaml,
    without_track,
)
from shiyan.naming import is_shortened, legal_name, uncut_name
from shiyan.notes import (
    KILLED,
    Experiment,
    Process,
    StageNote,
    current_experiment,
    pending_notes,
    without_secrets,
)
from shiyan.roles import is_derived

LONGEST_PARAM = 500
"""Characters of a param's value in the oldest servers in use; longer ones become artifacts."""
LONGEST_TAG = 5000
LONGEST_NAME = 250
BRIEF, NAMED = 40, 4
"""In a run's name: characters of a value, and how many values."""
WAIT_S = 600
"""For another process that is logging to the same store."""
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    # A tracking server that does not answer should be told of within seconds.
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
}


@dataclass(frozen=True)
class StageResult:
    """What a stage's nested run tells.

    Attributes:
        digest: sha256 of the stage's entry in dvc.lock; None where there is none (any more).
        params: dotted key -> value, of the sections the stage depends on.
        metrics: metrics file -> its content.
        plots: CSV files of its plots.
        cached: DVC did not run the stage, its results come from an earlier run.
    """

    stage: str
    digest: str | None
    params: Mapping[str, object]
    metrics: Mapping[str, Any]
    plots: Sequence[Path] = ()
    cached: bool = False
    started: float = field(default_factory=time.time)
    ended: float = field(default_factory=time.time)
    status: str = "FINISHED"
    reason: str | None = None


# --- what there is to log -----------------------------------------------------------


def track(experiment_name: str) -> bool:
    """Log every stage of dvc.lock, and what notes tell of failed and partial runs.

    Returns:
        Whether anything was logged; a state that was logged before costs nothing.

    Raises:
        UserError: dvc.lock is missing or malformed, or the store cannot be used.
    """
    if not LOCK_FILE.exists():
        raise UserError(f"{LOCK_FILE} does not exist; run `dvc repro` to write it")
    experiment = current_experiment()
    receipt = receipt_of(experiment, LOCK_FILE.read_text(encoding="utf-8"))
    own = own_database()
    is_logged = receipt.exists() and (own is None or own.exists())
    if is_logged and not settled_notes(experiment):
        for path, _ in own_successes(experiment):
            path.unlink(missing_ok=True)
        return False
    with open_store(experiment_name) as store:
        store.end_dead_runs()
        log_notes(store, settled_notes(experiment))
        mine = own_successes(experiment)
        ran = {note.stage: note for _, note in mine}
        store.log_experiment(experiment, [result_of(s, ran) for s in locked_stages().values()])
        for path, _ in mine:
            path.unlink(missing_ok=True)
        with replacing(receipt) as file:
            file.write("")
    return True


def import_notes(experiment_name: str) -> int:
    """Log what notes tell of runs that never reached `track`; returns how many notes."""
    if not settled_notes():
        return 0
    with open_store(experiment_name) as store:
        notes = settled_notes()
        log_notes(store, notes)
    return len(notes)


def settled_notes(apart_from: Experiment | None = None) -> list[tuple[Path, StageNote]]:
    """Notes that only they themselves will tell of, oldest first."""
    return [
        (path, note)
        for path, note in pending_notes()
        if note.is_settled and not (apart_from and tells_of_success(note, apart_from))
    ]


def own_successes(experiment: Experiment) -> list[tuple[Path, StageNote]]:
    """Notes of this experiment's stages that ended well: dvc.lock knows more of these."""
    return [(p, note) for p, note in pending_notes() if tells_of_success(note, experiment)]


def log_notes(store: "Store", notes: Iterable[tuple[Path, StageNote]]) -> None:
    for path, note in notes:
        store.log_note(note)
        path.unlink(missing_ok=True)


def tells_of_success(note: StageNote, experiment: Experiment) -> bool:
    """Is it of a stage of this very experiment that ended well?"""
    return note.outcome == "finished" and note.experiment == experiment.key


def receipt_of(experiment: Experiment, lock_text: str) -> Path:
    """The file that says that this state has been logged to this store.

    Under plain `dvc repro` a new commit alone is no new state: HEAD is not in the name.
    """
    lock = hashlib.sha256(without_track(lock_text).encode()).hexdigest()
    name = experiment.key if experiment.name else f"repro-{experiment.params_sha256[:12]}"
    return project_root() / "mlflow" / "receipts" / f"{name}-{lock[:12]}-{store_key()}"


def store_key() -> str:
    """The end of the names of this store's receipts."""
    return hashlib.sha256(store_uri().encode()).hexdigest()[:8]


def result_of(locked: LockedStage, ran: Mapping[str, StageNote]) -> StageResult:
    """A stage's results as they stand in the working tree."""
    note = ran.get(locked.name)
    return StageResult(
        stage=locked.name,
        digest=locked.digest,
        params=locked.params,
        metrics={str(p): read_json(p) for p in locked.metrics_files if p.exists()},
        plots=locked.plots,
        cached=note is None,
        started=note.started if note else time.time(),
        ended=(note.ended if note else None) or time.time(),
    )


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(
            f"{path} is not valid JSON ({error}); delete it and run `dvc repro` again"
        ) from error


def result_of_note(note: StageNote) -> StageResult:
    """What a note tells of a stage; its plots too, where the working tree still has its state."""
    locked = locked_stages().get(note.stage)
    if note.outcome != "finished" or locked is None or not locked.still_holds(note.metrics):
        locked = None
    return StageResult(
        stage=note.stage,
        digest=locked.digest if locked else None,
        params=flattened(sections_of(note)),
        metrics={path: json.loads(text) for path, text in note.metrics.items()},
        plots=locked.plots if locked else (),
        started=note.started,
        ended=note.ended or note.started,
        status={"finished": "FINISHED", "stopped": "KILLED"}.get(note.outcome, "FAILED"),
        reason=note.reason or (KILLED if note.outcome == "running" else None),
    )


def sections_of(note: StageNote) -> dict[str, Any]:
    """The sections of the note's params.yaml that its stage depends on: dotted name -> value."""
    stages = read_yaml(PIPELINE_FILE).get("stages", {}) if PIPELINE_FILE.exists() else {}
    params = flattened(plain(note.params))
    names = [
        re.sub(r"\$\{([\w.]+)\}", lambda key: str(params.get(key[1])), name)
        for name in stages.get(note.stage, {}).get("params", [note.stage])
    ]
    return {
        key: value
        for key, value in params.items()
        if any(key == name or key.startswith(f"{name}.") for name in names)
    }


# --- values as MLflow takes them ------------------------------------------------------


def param_text(value: object) -> str:
    """A param's value as MLflow shows it: text as it stands, the rest as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def described(changed: Mapping[str, object]) -> str:
    """What was changed, for a run's name: the first few values, long ones cut.

    A model's definition is left out where a stage's own value names the model.
    """
    own = {k: v for k, v in changed.items() if not k.startswith("models.")} or changed
    texts = {key: param_text(value) for key, value in own.items()}
    told = [f"{k}={t if len(t) <= BRIEF else f'{t[:BRIEF]}…'}" for k, t in texts.items()]
    rest = [f"and {len(told) - NAMED} more"] if len(told) > NAMED else []
    return ", ".join([*told[:NAMED], *rest])


def numbers(
    document: object, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], float]]:
    """Every number of a metrics file with its path; an estimate's value takes its own path.

    So `{"auroc": {"value": 0.9, "low": 0.8, …}}` gives ("auroc",) and ("auroc", "low").
    """
    if isinstance(document, bool) or document is None:
        return
    if isinstance(document, int | float):
        yield path, float(document)
    elif isinstance(document, Mapping):
        for key, below in document.items():
            is_value = key == "value" and "n" in document
            yield from numbers(below, path if is_value else (*path, str(key)))
    elif isinstance(document, list):
        for index, below in enumerate(document):
            yield from numbers(below, (*path, str(index)))


def signature(document: object, path: tuple[str, ...] = ()) -> dict[str, str]:
    """How a metrics file says its numbers were made: name -> text, from its keys `made`."""
    found: dict[str, str] = {}
    if isinstance(document, Mapping):
        for key, below in document.items():
            if key == "made":
                for name, value in flattened(below).items():
                    found[legal_name(*path, "made", name)] = param_text(value)
            else:
                found.update(signature(below, (*path, str(key))))
    return found


CURVE_OF = ("detector", "fold", "part")
"""Columns that part one curve of a file from another; the rest are measured."""


def curves(path: Path) -> Iterator[tuple[str, float, int]]:
    """(metric name, value, step) of a CSV with a column `step`; nothing for other files."""
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if not row.get("step"):
                return
            names = [row[column] for column in CURVE_OF if column in row]
            for column, text in row.items():
                if column not in (*CURVE_OF, "step") and is_number(text):
                    yield legal_name("curves", *names, column), float(text), int(row["step"])


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        # An empty cell, most often.
        return False
    return True


# --- the store ------------------------------------------------------------------------


def own_database() -> Path | None:
    """The project's own database; None where MLFLOW_TRACKING_URI names another store."""
    if os.environ.get("MLFLOW_TRACKING_URI"):
        return None
    return project_root() / "mlflow" / "mlflow.db"


def store_uri() -> str:
    """MLFLOW_TRACKING_URI, or the address of the project's own database."""
    database = own_database()
    if database is None:
        return os.environ["MLFLOW_TRACKING_URI"]
    path = database.as_posix()
    if "?" in path or unquote(path) != path:
        # Quoted, it would be right for SQLAlchemy 2.1, but MLflow makes a folder of the quoted
        # name, and SQLAlchemy 2.0 unquotes nothing. From the project's folder, or a workspace
        # in it, the path has no such sign.
        path = quote(Path(os.path.relpath(database)).as_posix())
    return f"sqlite:///{path}"


def local_database() -> Path | None:
    """The sqlite file that the runs go to; None for servers and databases in memory."""
    if (own := own_database()) is not None:
        return Path(os.path.realpath(own))
    if not store_uri().startswith("sqlite:"):
        return None
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        name = make_url(store_uri()).database
    except ArgumentError:
        # MLflow says what is wrong with it.
        return None
    if not name or name.startswith((":memory:", "file:")):
        return None
    return Path(os.path.realpath(name))


def keep_quiet() -> None:
    """Before MLflow is imported."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)


def ask_loopback_directly() -> None:
    """A proxy cannot reach this machine's own servers: loopback never goes through one."""
    for name in ("no_proxy", "NO_PROXY"):
        hosts = os.environ.get(name, "")
        if hosts != "*" and "127.0.0.1" not in hosts.split(","):
            os.environ[name] = ",".join(filter(None, [hosts, "127.0.0.1", "localhost", "::1"]))


@contextmanager
def open_store(experiment_name: str) -> Iterator["Store"]:
    """The store, for one process at a time; its database is made or put right first.

    Raises:
        UserError: the store cannot be reached or used, or another process holds it too long.
    """
    with locked_store(), explaining_errors():
        yield Store(experiment_name)


@contextmanager
def locked_store() -> Iterator[None]:
    """The store's lock, with a database behind it that MLflow can use.

    Raises:
        UserError: as for `open_store`.
    """
    from filelock import FileLock, Timeout

    keep_quiet()
    ask_loopback_directly()
    database = local_database()
    # Beside the database: several projects may share one.
    folder = database.parent if database else project_root() / "mlflow"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / "store.lock", timeout=WAIT_S):
            if database is not None:
                put_right(database)
            yield
    except Timeout:
        raise UserError(
            f"another process has been logging to {folder} for {WAIT_S // 60} minutes; "
            "end it and run again"
        ) from None
    except OSError as error:
        place = error.filename or folder
        raise UserError(f"{place} cannot be used: {error.strerror or error}") from error


def local_look() -> Look | None:
    """What the local database is found to be; None for other stores.

    Raises:
        UserError: it cannot be read at all.
    """
    keep_quiet()
    database = local_database()
    return look_at(database) if database else None


def put_right(database: Path) -> None:
    """Make a database that is missing, migrate an old one, put a new one in a damaged one's place.

    Raises:
        UserError: it cannot be put right, or is damaged and not the project's own.
    """
    found = look_at(database)
    if found.state == "well":
        return
    if found.state == "old":
        try:
            migrate(database)
        except UserError as error:
            raise UserError(
                f"{error}; it {found.says} and is left as it was: copy it, then try "
                f"`mlflow db upgrade {store_uri()}` or the MLflow that made it, or move it "
                "away for a new one"
            ) from error
        return
    if found.state == "unusable" and own_database() is None:
        # A mistyped address may name anything of the user's.
        raise UserError(
            f"{database} (MLFLOW_TRACKING_URI) {found.says}; move it away for a new one, "
            "or name another store"
        )
    forget_receipts()
    if kept := make(database, found):
        sys.stderr.write(
            f"note: {database} {found.says}; it is kept as {kept.name}, and the runs "
            "go to a new one\n"
        )


def forget_receipts() -> None:
    """What a database that is gone had, the new one has not."""
    for receipt in (project_root() / "mlflow" / "receipts").glob(f"*-{store_key()}"):
        receipt.unlink(missing_ok=True)


@contextmanager
def explaining_errors() -> Iterator[None]:
    """MLflow's and its database's errors as one sentence."""
    from alembic.util.exc import CommandError
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (MlflowException, SQLAlchemyError, CommandError) as error:
        reason = without_secrets(str(error).strip().partition("\n")[0])[:300]
        raise UserError(
            f"the runs could not be logged to MLflow at {without_secrets(store_uri())} ({reason}); "
            "the numbers in metrics/ are complete; put this right, and `dvc repro` logs what is "
            "missing"
        ) from error


class Store:
    """An MLflow experiment to log runs to. Make it with `open_store`."""

    def __init__(self, experiment_name: str) -> None:
        from mlflow.tracking import MlflowClient

        self.client = MlflowClient(tracking_uri=store_uri())
        experiment = self.client.get_experiment_by_name(experiment_name)
        if experiment is not None and experiment.lifecycle_stage == "deleted":
            self.client.restore_experiment(experiment.experiment_id)
        self.experiment_id: str = (
            experiment.experiment_id if experiment else self._create(experiment_name)
        )

    def _create(self, name: str) -> str:
        # A relative location would lead into the temporary workspace of the first run.
        artifacts = project_root() / "mlflow" / "artifacts"
        is_local = store_uri().startswith("sqlite:")
        location = artifacts.as_uri() if is_local else None
        # The pages then show runs and their numbers first, not traces of an LLM's calls.
        kind = {"mlflow.experimentKind": "custom_model_development"}
        return str(self.client.create_experiment(name, artifact_location=location, tags=kind))

    # -- experiments

    def log_experiment(self, experiment: Experiment, results: Sequence[StageResult]) -> None:
        """A parent run with all stages below it and the headline numbers on it."""
        changed = changed_params(experiment.params)
        began = min((r.started for r in results), default=time.time())
        parent = self.parent_of(experiment, changed, began)
        for result in results:
            self.log_stage(parent, result, changed)
        self.log_headlines(parent, results)
        ended = max((r.ended for r in results), default=time.time())
        self.end(parent, "FINISHED", ended)

    def log_note(self, note: StageNote) -> None:
        """One attempt at a stage that never reached `track`."""
        experiment = Experiment(note.experiment_name, note.baseline, note.params)
        changed = changed_params(note.params)
        result = result_of_note(note)
        parent = self.parent_of(experiment, changed, note.started)
        self.log_stage(parent, result, changed)
        self.log_headlines(parent, [result])
        reason = f"{note.stage}: {result.reason}" if result.reason else None
        self.end(parent, result.status, result.ended, reason)

    def parent_of(
        self, experiment: Experiment, changed: Mapping[str, object], started: float
    ) -> str:
        """The experiment's run, made where there is none."""
        found = self.find({"dvc.key": experiment.key, "dvc.level": "experiment"})
        if found:
            return str(found[0].info.run_id)
        what = described(changed) or "default"
        how = experiment.name or "repro"
        tags = {
            "dvc.level": "experiment",
            "dvc.key": experiment.key,
            "dvc.experiment": how,
            "dvc.baseline": experiment.baseline,
            "dvc.params_sha256": experiment.params_sha256,
            "mlflow.source.name": f"dvc exp run ({how})" if experiment.name else "dvc repro",
            "mlflow.source.type": "PROJECT",
            "mlflow.source.git.commit": experiment.baseline,
        }
        run_id = self.start(f"{how}: {what} (@ {experiment.baseline[:7]})", tags, started)
        self.client.log_text(run_id, experiment.params, "params.yaml")
        self.log_params(run_id, experiment_params(experiment.params))
        return run_id

    def log_headlines(self, parent: str, results: Iterable[StageResult]) -> None:
        """The numbers one looks for first, under short names."""
        from shiyan.report.headlines import headlines

        found = {
            legal_name(*path): value
            for result in results
            for document in result.metrics.values()
            for path, value in headlines(document)
        }
        self.log_metrics(parent, [(name, value, 0) for name, value in found.items()])

    # -- stages

    def log_stage(
        self, parent: str, result: StageResult, changed: Mapping[str, object] = {}
    ) -> str:
        """A stage's nested run; the same state of the same stage is logged once."""
        tags = {
            "dvc.level": "stage",
            "dvc.stage": result.stage,
            "mlflow.parentRunId": parent,
        }
        if result.digest is not None:
            known = self.find(tags | {"dvc.digest": result.digest}, "FINISHED")
            if known:
                return str(known[0].info.run_id)
            tags["dvc.digest"] = result.digest
        tags["dvc.cached"] = str(result.cached).lower()
        if result.reason:
            tags |= {"dvc.reason": result.reason, "mlflow.note.content": result.reason}
        own = described({k: v for k, v in changed.items() if k in result.params})
        name = f"{result.stage}: {own}" if own else result.stage
        run_id = self.start(name, tags, result.started)
        self.log_params(run_id, result.params)
        for path, document in result.metrics.items():
            self.log_document(run_id, Path(path).name, document)
        for plot in result.plots:
            self.log_plot(run_id, plot)
        self.end(run_id, result.status, result.ended)
        return run_id

    def log_document(self, run_id: str, name: str, document: Any) -> None:
        """A metrics file: its numbers as metrics, its signature as tags, itself as artifact.

        Of a file of tables, thousands of cells, the tables are logged as such instead.
        """
        from shiyan.report.documents import flat_tables

        tables = flat_tables(document)
        for table, columns in tables.items():
            self.client.log_table(run_id, columns, f"tables/{table}.json")
        found = dict(numbers(document)) if not tables else {}
        self.log_metrics(run_id, [(legal_name(*path), v, 0) for path, v in found.items()])
        long = {legal_name(*path): uncut_name(*path) for path in found}
        if long := {cut: name for cut, name in long.items() if is_shortened(cut)}:
            self.client.log_dict(run_id, long, f"long_names/{name}")
        self.set_tags(run_id, signature(document))
        text = json.dumps(document, ensure_ascii=False, indent=2)
        self.client.log_text(run_id, text, f"metrics/{name}")

    def log_plot(self, run_id: str, plot: Path) -> None:
        """A plot's CSV, its figure, and its points where it is a curve over steps."""
        from shiyan.report.figures import draw

        self.client.log_artifact(run_id, str(plot), "plots")
        self.log_metrics(run_id, list(curves(plot)))
        with tempfile.TemporaryDirectory() as folder:
            figure = draw(plot, Path(folder) / f"{plot.stem}.png")
            if figure is not None:
                self.client.log_artifact(run_id, str(figure), "figures")

    # -- MLflow's calls, in batches of the size it takes

    def log_params(self, run_id: str, params: Mapping[str, object]) -> None:
        """Params as text, and the numeric ones as metrics too: MLflow sorts params as text."""
        from mlflow.entities import Param

        texts = {legal_name(key): param_text(value) for key, value in params.items()}
        for name, text in texts.items():
            if len(text) > LONGEST_PARAM:
                digest = hashlib.sha256(text.encode()).hexdigest()
                self.client.log_text(run_id, text, f"params/{name}.txt")
                texts[name] = f"sha256:{digest} ({len(text)} characters, in params/{name}.txt)"
        for batch in batches([Param(k, v) for k, v in texts.items()], 100):
            self.client.log_batch(run_id, params=batch)
        numeric = {
            legal_name("params", key): float(value)
            for key, value in params.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }
        self.log_metrics(run_id, [(name, value, 0) for name, value in numeric.items()])

    def log_metrics(self, run_id: str, points: Sequence[tuple[str, float, int]]) -> None:
        from mlflow.entities import Metric

        now = round(time.time() * 1000)
        for batch in batches([Metric(k, v, now, step) for k, v, step in points], 1000):
            self.client.log_batch(run_id, metrics=batch)

    def set_tags(self, run_id: str, tags: Mapping[str, str]) -> None:
        from mlflow.entities import RunTag

        cut = [RunTag(key, value[:LONGEST_TAG]) for key, value in tags.items()]
        for batch in batches(cut, 100):
            self.client.log_batch(run_id, tags=batch)

    def find(self, tags: Mapping[str, str], status: str | None = None) -> list[Any]:
        """Runs that have all these tags, the newest first."""
        conditions = [f"tags.`{key}` = '{value}'" for key, value in tags.items()]
        if status is not None:
            conditions.append(f"attributes.status = '{status}'")
        return list(self.client.search_runs([self.experiment_id], " and ".join(conditions)))

    def start(self, name: str, tags: Mapping[str, str], started: float) -> str:
        """A new run, RUNNING until `end`; its tags tell a later sweep who was writing it."""
        owner = {"dvc.writer": Process.current().model_dump_json()}
        run = self.client.create_run(
            self.experiment_id,
            start_time=round(started * 1000),
            tags={k: v[:LONGEST_TAG] for k, v in {**tags, **owner}.items()},
            run_name=name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…",
        )
        return str(run.info.run_id)

    def end(
        self, run_id: str, status: str, ended: float | None = None, reason: str | None = None
    ) -> None:
        if reason:
            self.set_tags(run_id, {"dvc.reason": reason, "mlflow.note.content": reason})
        self.client.set_terminated(run_id, status, round((ended or time.time()) * 1000))

    def dead_runs(self) -> list[Any]:
        """Runs still RUNNING whose writer is gone, e.g. killed while it logged them."""
        dead = []
        for run in self.client.search_runs([self.experiment_id], "attributes.status = 'RUNNING'"):
            writer = run.data.tags.get("dvc.writer")
            if writer and not Process.model_validate_json(writer).is_alive:
                dead.append(run)
        return dead

    def end_dead_runs(self) -> None:
        for run in self.dead_runs():
            self.end(run.info.run_id, "FAILED", reason="killed while it was being logged")


def batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


# --- what an experiment changed -----------------------------------------------------------


def plain(params: str) -> dict[str, Any]:
    """params.yaml's text as values; {} where it is malformed, as a failed run's may be."""
    from omegaconf import OmegaConf

    try:
        values = OmegaConf.to_container(OmegaConf.create(params))
    except Exception:
        # OmegaConf lets its parser's many errors through.
        return {}
    return {str(k): v for k, v in values.items()} if isinstance(values, dict) else {}


def experiment_params(params: str) -> dict[str, object]:
    """The params of a whole experiment; prompts and paths stand in its params.yaml only."""
    sections = {k: v for k, v in plain(params).items() if k not in ("prompts", "paths")}
    return flattened(sections)


def changed_params(params: str) -> dict[str, object]:
    """The values that conf/ alone would not give, for the run's name; {} if that is unknown."""
    from omegaconf import OmegaConf

    try:
        ours = flattened(OmegaConf.to_container(composed()))
    except UserError:
        return {}
    theirs = {k: v for k, v in flattened(plain(params)).items() if not is_derived(k)}
    return {k: v for k, v in theirs.items() if k not in ours or ours[k] != v}
