"""The work cache, and the executors that map keyed items to results.

What costs hours or money is kept outside DVC's outs, under
`$DVC_ROOT/.work/<kind>/<2 hex>/<sha256>`: it survives kill -9, `--temp` and the
queue. The key holds everything that decides the result; a result is written to
a temporary file and renamed, so there is never half a one, and its sha256 stands in it.
"""

import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import (
    FIRST_COMPLETED,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from pathlib import Path
from typing import Any, TypeVar

from shiyan.config import ExecutorParams, project_root
from shiyan.errors import UserError
from shiyan.jsonl import replacing

Item = TypeVar("Item")
Result = TypeVar("Result")


def digest(key: Mapping[str, Any]) -> str:
    """sha256 of a key in canonical JSON: key order and spacing do not matter."""
    canonical = json.dumps(key, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


_SUM = re.compile(rb"sha256 ([0-9a-f]{64})\n")
"""The first line of an entry, before its value. Older versions wrote the value alone, and no
value begins like this."""
DAMAGED = "damaged"
"""The folder of entries that were set aside."""


def content_of(entry: bytes) -> bytes | None:
    """The value in an entry's bytes; None where it is not what was written."""
    head = _SUM.match(entry)
    if head is None:
        return entry
    value = entry[head.end() :]
    return value if hashlib.sha256(value).hexdigest().encode() == head[1] else None


class WorkCache:
    """Finished work by kind and key.

    An entry holds the sha256 of its value; one that is damaged is told, set aside under
    `damaged`, and counts as absent. Nothing that may have been paid for is removed.

    Args:
        root: the cache's folder; by default `.work` of the user's repository, also
            when a stage runs in a temporary experiment workspace.
        must_keep: a value that cannot be kept is an error; else it is told once.
    """

    def __init__(self, root: Path | None = None, must_keep: bool = True) -> None:
        self.root = root if root is not None else project_root() / ".work"
        self._must_keep = must_keep
        self._has_told = False

    def path(self, kind: str, key: Mapping[str, Any]) -> Path:
        name = digest(key)
        return self.root / kind / name[:2] / name

    def __contains__(self, entry: tuple[str, Mapping[str, Any]]) -> bool:
        return self.path(*entry).exists()

    def get(self, kind: str, key: Mapping[str, Any]) -> bytes | None:
        """The bytes kept under a key, or None."""
        path = self.path(kind, key)
        try:
            value = content_of(path.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except IsADirectoryError:
            value = None
        except OSError as error:
            raise UserError(f"{path} could not be read: {error.strerror or error}") from error
        if value is None:
            self.set_aside(path)
        return value

    def put(self, kind: str, key: Mapping[str, Any], value: bytes) -> None:
        try:
            with replacing(self.path(kind, key), "wb") as file:
                file.write(b"sha256 %s\n" % hashlib.sha256(value).hexdigest().encode())
                file.write(value)
        except UserError as error:
            if self._must_keep:
                raise
            if not self._has_told:
                sys.stderr.write(f"notice: what is computed is not kept: {error}\n")
            self._has_told = True

    def get_json(self, kind: str, key: Mapping[str, Any]) -> Any | None:
        """The JSON value kept under a key; None also where the disk spoilt it."""
        value = self.get(kind, key)
        if value is None:
            return None
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            self.set_aside(self.path(kind, key))
            return None

    def put_json(self, kind: str, key: Mapping[str, Any], value: Any) -> None:
        self.put(kind, key, json.dumps(value, ensure_ascii=False).encode())

    def set_aside(self, path: Path) -> None:
        """Move an entry that is not what was written to where nobody takes it for one."""
        aside = self.root / DAMAGED / path.relative_to(self.root)
        while aside.exists():
            aside = aside.with_name(f"{aside.name}~")
        try:
            aside.parent.mkdir(parents=True, exist_ok=True)
            path.replace(aside)
            became = f"it was moved to {aside}"
        except OSError as error:
            became = f"it could not be moved away ({error.strerror or error})"
        sys.stderr.write(
            f"notice: {path} is damaged and counts as absent, so that its work is done again; "
            f"{became}\n"
        )

    def damaged(self) -> Iterator[Path]:
        """Entries whose value is not what was written; those set aside are no entries."""
        for path in sorted(self.root.glob("*/??/*")):
            if path.name.startswith(".") or path.parts[len(self.root.parts)] == DAMAGED:
                continue
            if path.is_dir() or content_of(path.read_bytes()) is None:
                yield path


def map_unordered(
    work: Callable[[Item], Result], items: Iterable[Item], executor: ExecutorParams
) -> Iterator[tuple[Item, Result]]:
    """Yield (item, result) as each is done, at most `executor.workers` at a time.

    `local` runs threads (for work that waits on a server), `process` processes,
    `ray` a cluster (the `ray` extra). The first error stops what has not begun
    and is raised; results that were yielded before stand.
    """
    if executor.backend == "ray":
        yield from _map_on_ray(work, items, executor.workers)
        return
    if executor.workers == 1 and executor.backend == "local":
        for item in items:
            yield item, work(item)
        return
    pool_class = ThreadPoolExecutor if executor.backend == "local" else ProcessPoolExecutor
    with pool_class(executor.workers) as pool:
        yield from _drain(pool, work, iter(items), executor.workers)


def _drain(
    pool: Executor, work: Callable[[Item], Result], items: Iterator[Item], at_once: int
) -> Iterator[tuple[Item, Result]]:
    running: dict[Future[Result], Item] = {}
    try:
        while True:
            # Submitting no more than can run keeps a stop (budget, Ctrl-C) prompt.
            while len(running) < at_once and (item := next(items, None)) is not None:
                running[pool.submit(work, item)] = item
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()
    finally:
        for future in running:
            future.cancel()


def _map_on_ray(
    work: Callable[[Item], Result], items: Iterable[Item], workers: int
) -> Iterator[tuple[Item, Result]]:
    try:
        import ray
    except ImportError:
        raise UserError(
            "backend: ray needs the extra of that name; pip install 'shiyan[ray]', "
            "or set backend to local or process",
            2,
        ) from None
    ray.init(ignore_reinit_error=True, log_to_driver=False)
    remote = ray.remote(work)
    waiting = iter(items)
    running: dict[Any, Item] = {}
    while True:
        while len(running) < workers and (item := next(waiting, None)) is not None:
            running[remote.remote(item)] = item
        if not running:
            return
        done, _ = ray.wait(list(running))
        for reference in done:
            yield running.pop(reference), ray.get(reference)
