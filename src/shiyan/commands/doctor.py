"""Find what killed runs and damaged caches left behind, and what a run would miss.

Exit code 0: all is well; 1: something is not. --mend removes stale workspaces and
damaged cache objects, keeps a damaged MLflow database aside and makes a new one, and
ends runs in MLflow whose process is gone.
"""

import argparse
import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import md5
from pathlib import Path
from typing import TYPE_CHECKING

from shiyan.config import (
    AllParams,
    ApiModelParams,
    PathsParams,
    SongciParams,
    TrackParams,
    load_params,
    project_root,
    read_params,
    validated,
)
from shiyan.errors import UserError
from shiyan.jsonl import replacing
from shiyan.lockfile import LOCK_FILE, outs_of_other_runs, read_yaml

if TYPE_CHECKING:
    from shiyan.database import Look

ROOM = 5 * 2**30
"""Bytes that a default run may need: models, their float32 copies, a work cache."""
GIB = 2**30


@dataclass(frozen=True)
class Finding:
    """What one look found.

    Attributes:
        remedy: what a user can do; None where all is well.
        mend: what --mend does about it, where it can.
    """

    about: str
    says: str
    remedy: str | None = None
    mend: Callable[[], object] | None = None

    @property
    def is_well(self) -> bool:
        return self.remedy is None


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cache", action="store_true", help="also re-hash every cached file")
    parser.add_argument("--mend", action="store_true", help="put right what can be")
    parser.add_argument("--json", action="store_true", help="one object a line")


def run(arguments: argparse.Namespace) -> int:
    looks = [params, place, disk, fonts, corpus, models, requests]
    looks += [orphans, workspaces, dvc_files, runs]
    if arguments.cache:
        looks.append(cache)
    worst = 0
    for look in looks:
        for finding in told(look):
            mended = arguments.mend and is_mended(finding)
            worst = max(worst, int(not (finding.is_well or mended)))
            show(finding, mended, arguments.json)
    return worst


def told(look: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """What a look finds; where it cannot look, that."""
    try:
        yield from look()
    except UserError as error:
        yield Finding(look.__name__, str(error), "then run `shiyan doctor` again")


def is_mended(finding: Finding) -> bool:
    """Put it right, where that can be done; why it could not is said on stderr."""
    if finding.mend is None:
        return False
    try:
        finding.mend()
    except UserError as error:
        sys.stderr.write(f"note: {error}\n")
        return False
    return True


def show(finding: Finding, mended: bool, as_json: bool) -> None:
    state = "well" if finding.is_well else "mended" if mended else "wrong"
    if as_json:
        line = {"about": finding.about, "state": state, "says": finding.says}
        print(json.dumps(line | {"remedy": finding.remedy}, ensure_ascii=False))
        return
    remedy = "" if finding.is_well or mended else f"; {finding.remedy}"
    print(f"{state:6}  {finding.about}: {finding.says}{remedy}")


# --- what a run needs ---------------------------------------------------------------------


def params() -> Iterator[Finding]:
    """Is params.yaml complete, valid, and what conf/ composes to?"""
    from shiyan import composition

    try:
        validated("", AllParams, read_params(), "params.yaml")
        is_composed = composition.check()
    except UserError as error:
        yield Finding("params.yaml", str(error), "then run `shiyan compose`")
        return
    if is_composed:
        yield Finding("params.yaml", "is what conf/ composes to")
        return
    keys = ", ".join(list(composition.differences())[:5]) or "nothing but the spelling"
    yield Finding(
        "params.yaml",
        f"differs from conf/ in {keys}",
        "`shiyan compose` goes back to conf/, `shiyan keep NAME` keeps it as an experiment",
    )


def place() -> Iterator[Finding]:
    """DVC copies its configuration into experiment workspaces as ASCII."""
    root = str(project_root())
    limits = (
        ""
        if root.isascii()
        else " has characters beyond ASCII: `dvc repro` and `dvc exp run` work here, but DVC can "
        "make no workspaces for `dvc exp run --temp` and the queue; move the project for these"
    )
    yield Finding("folder", f"{root}{limits}")
    if not (project_root() / ".git").exists():
        yield Finding(
            "git",
            f"{root} is no git repository, which DVC needs",
            "clone the project, or `git init`",
        )


def disk() -> Iterator[Finding]:
    from shiyan.models import cache_folder

    for name, folder in (("project", project_root()), ("models", cache_folder())):
        there = next(p for p in (folder, *folder.parents) if p.exists())
        free = shutil.disk_usage(there).free
        says = f"{free / GIB:.1f} GiB free for {folder}"
        if free < ROOM:
            yield Finding(f"disk ({name})", says, f"a default run may need {ROOM / GIB:.0f} GiB")
        else:
            yield Finding(f"disk ({name})", says)


def fonts() -> Iterator[Finding]:
    from shiyan.report.fonts import chosen_font

    font = chosen_font()
    if font.chinese:
        yield Finding("font", f"figures are set in {font.chinese} of {font.origin}")
    else:
        yield Finding("font", "none shows Chinese", "pip install pylopdf-fonts-zh-cn")


def corpus() -> Iterator[Finding]:
    """npm brings the embedded corpus; nothing else needs it."""
    params = readable_params()
    if params is None or not isinstance(params.corpus, SongciParams):
        return
    if shutil.which("npm"):
        yield Finding("npm", "is installed")
    else:
        yield Finding(
            "npm", "is not installed, and corpus=songci is an npm package", "install npm (Node.js)"
        )


def models() -> Iterator[Finding]:
    """Is every model that has a role here, and what its sha256 says?"""
    from shiyan.models import found, why_wrong

    params = readable_params()
    if params is None:
        return
    for name in dict.fromkeys(name for _, name in params.roles()):
        model = params.used_models[name]
        if isinstance(model, ApiModelParams):
            yield address_of(name, model)
            continue
        path = found(name, model)
        if path is None or not path.exists():
            yield Finding(f"model {name}", "is not here yet", f"`shiyan models fetch {name}`")
        elif model.kind == "local" and path.is_file() and (wrong := why_wrong(name, model, path)):
            yield Finding(f"model {name}", wrong, f"`shiyan models fetch {name}` fetches it again")
        else:
            yield Finding(f"model {name}", str(path))


def address_of(name: str, model: ApiModelParams) -> Finding:
    from shiyan.chat import check_address

    try:
        check_address(name, model.base_url)
    except UserError as error:
        return Finding(f"model {name}", str(error), "write another base_url in conf/model/")
    return Finding(f"model {name}", f"is asked at {model.base_url}")


def readable_params() -> AllParams | None:
    try:
        return validated("", AllParams, read_params(), "params.yaml")
    except UserError:
        # `params` has told of it.
        return None


def requests() -> Iterator[Finding]:
    """Requests that failed: DVC takes their stage for done and would never ask again."""
    from shiyan import lost
    from shiyan.report import documents

    paths = load_params("paths", PathsParams)
    files = {
        "generate": paths.generate_metrics,
        "judge": paths.judge_metrics,
        "zero_shot_score": paths.zero_shot_metrics,
    }
    read = {stage: documents.metrics_of(path) for stage, path in files.items()}
    found = {stage: document for stage, document in read.items() if document is not None}
    failed = list(lost.told_in(found))
    for stage, told in failed:
        yield Finding("requests", told, f"`dvc repro -f {stage}`")
    if not failed:
        yield Finding("requests", "no result is missing because a request failed")


# --- what runs left behind ----------------------------------------------------------------


def orphans() -> Iterator[Finding]:
    """When DVC itself is killed, the stage it started goes on."""
    from shiyan.notes import pending_notes

    for _, note in pending_notes():
        if note.is_running and note.pipeline is not None and not note.pipeline.is_alive:
            yield Finding(
                f"stage {note.stage}",
                f"process {note.process.pid} runs on though its DVC run was killed",
                f"let it end (its work is kept), or: kill {note.process.pid}",
            )


def workspaces() -> Iterator[Finding]:
    """`dvc exp run --temp` and the queue work in copies; a killed one leaves its copy."""
    folder = project_root() / ".dvc" / "tmp" / "exps"
    found = (*folder.glob("tmp*"), *folder.glob("standalone/tmp*"))
    stale = [path for path in found if path.is_dir() and not is_in_use(path)]
    if not stale:
        yield Finding("workspaces", "no experiment left one behind")
    for path in stale:
        yield Finding(
            "workspace",
            f"{path} belongs to no running experiment",
            "`shiyan doctor --mend` removes it",
            partial(forget, path),
        )


def is_in_use(workspace: Path) -> bool:
    """Does a process work in it, or does any DVC run of this project live?"""
    import psutil

    for process in psutil.process_iter(["cwd", "cmdline"]):
        place = process.info["cwd"]
        if place is None:
            continue
        if Path(place).is_relative_to(workspace):
            return True
        words = [Path(word).name for word in process.info["cmdline"] or ()]
        if "dvc" in words and Path(place).is_relative_to(project_root()):
            return True
    return False


def forget(workspace: Path) -> None:
    """Remove a workspace, and DVC's record that an experiment runs in it."""
    for record in (project_root() / ".dvc/tmp/exps/run").glob("*/*.run"):
        try:
            root = json.loads(record.read_text(encoding="utf-8")).get("root_dir")
        except ValueError:
            continue
        if root == str(workspace):
            shutil.rmtree(record.parent, ignore_errors=True)
    shutil.rmtree(workspace, ignore_errors=True)


def dvc_files() -> Iterator[Finding]:
    """Files of DVC's own that a kill can leave empty; DVC then refuses every command."""
    root = project_root()
    running, lock = root / ".dvc" / "tmp" / "rwlock", root / LOCK_FILE
    if running.exists() and not is_json_object(running):
        yield Finding(
            "DVC",
            f"{running} cannot be read, as a killed run leaves it",
            "`shiyan doctor --mend` empties it; let no dvc run meanwhile",
            partial(running.write_text, "{}", encoding="utf-8"),
        )
    if lock.exists() and not is_lock(lock):
        committed = committed_lock(root)
        yield Finding(
            "DVC",
            f"{lock} cannot be read, as a killed run leaves it",
            "`shiyan doctor --mend` takes that of the last commit; the run cache knows the rest"
            if committed
            else "remove it; `dvc repro` writes it anew from the run cache",
            partial(put_back, lock, committed) if committed else None,
        )


def is_json_object(path: Path) -> bool:
    try:
        return isinstance(json.loads(path.read_text(encoding="utf-8")), dict)
    except (OSError, ValueError):
        return False


def is_lock(path: Path) -> bool:
    try:
        return isinstance(read_yaml(path).get("stages"), dict)
    except (UserError, AttributeError):
        return False


def committed_lock(root: Path) -> bytes:
    """dvc.lock of the last commit; nothing where there is none."""
    command = ["git", "show", f"HEAD:./{LOCK_FILE}"]
    return subprocess.run(command, cwd=root, capture_output=True, check=False).stdout


def put_back(path: Path, content: bytes) -> None:
    with replacing(path, "wb") as file:
        file.write(content)


def runs() -> Iterator[Finding]:
    """MLflow's database, runs it shows as running though nobody writes them, untold failures."""
    from shiyan import tracking

    found = tracking.local_look()
    if found and found.state in ("old", "unusable"):
        says = f"{tracking.local_database()} {found.says}"
        yield Finding("MLflow", says, *remedy_of(found))
        found = tracking.local_look()
    untold = tracking.settled_notes()
    if untold:
        yield Finding(
            "MLflow",
            f"{len(untold)} stages of failed or partial runs are not logged yet",
            "`shiyan ui` or the next run logs them",
            learn,
        )
    if found and found.state in ("old", "unusable"):
        return
    if found and found.state == "missing":
        yield Finding("MLflow", "no run has been logged yet")
        return
    with tracking.open_store(experiment_name()) as store:
        dead = [run.info.run_name for run in store.dead_runs()]
    if dead:
        yield Finding(
            "MLflow",
            f"{len(dead)} runs are shown as running though nobody logs them any more: "
            f"{', '.join(dead[:3])}",
            "`shiyan doctor --mend` ends them",
            end_dead_runs,
        )
    else:
        yield Finding("MLflow", "every run has ended or is being logged")


def remedy_of(found: "Look") -> tuple[str, Callable[[], None] | None]:
    """What a user can do about a database, and what --mend does."""
    from shiyan.tracking import own_database

    if found.state == "old":
        return "`shiyan doctor --mend` or the next run migrates it", put_right
    if own_database() is None:
        return "move it away, or let MLFLOW_TRACKING_URI name another store", None
    kept = "`shiyan doctor --mend` or the next run keeps it aside and makes a new one"
    return kept, put_right


def put_right() -> None:
    from shiyan.tracking import locked_store

    with locked_store():
        pass


def experiment_name() -> str:
    return load_params("track", TrackParams).experiment


def learn() -> None:
    from shiyan.tracking import import_notes

    import_notes(experiment_name())


def end_dead_runs() -> None:
    from shiyan.tracking import open_store

    with open_store(experiment_name()) as store:
        store.end_dead_runs()


def cache() -> Iterator[Finding]:
    """DVC believes a read-only cache object's date and size, so it never sees bit rot."""
    from tqdm import tqdm

    objects = sorted((project_root() / ".dvc/cache/files/md5").glob("??/*"))
    n_damaged = 0
    for path in tqdm(objects, desc="re-hashing", unit="file", disable=None):
        name = path.parent.name + path.name.removesuffix(".dir")
        if len(name) == 32 and file_md5(path) != name:
            n_damaged += 1
            yield Finding(
                "cache",
                f"{path} is damaged: its content is not what its name says",
                "`shiyan doctor --cache --mend` removes it, and `dvc repro` makes it again",
                path.unlink,
            )
    if not n_damaged:
        yield Finding("cache", f"all {len(objects)} files are what their names say")
    yield from kept_work()
    for out in outs_of_other_runs():
        yield Finding(
            "results",
            f"{out} is not what dvc.lock says: it was changed, or made by another run",
            f"`rm {shlex.quote(out)} && dvc checkout` brings back what the lock names",
        )


def kept_work() -> Iterator[Finding]:
    """Entries of the work cache that are not what was written."""
    from shiyan.work import WorkCache

    kept = WorkCache()
    damaged = list(kept.damaged())
    for path in damaged:
        yield Finding(
            "work",
            f"{path} is damaged: its content is not what its sum says",
            "`shiyan doctor --cache --mend` moves it away, and the next run does its work again",
            partial(kept.set_aside, path),
        )
    if not damaged:
        yield Finding("work", "no entry of the work cache is damaged")


def file_md5(path: Path) -> str:
    digest = md5(usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()
