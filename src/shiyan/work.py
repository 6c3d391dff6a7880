"""The work cache, and the executors that map keyed items to results.

What costs hours or money is kept outside DVC's outs, under
`$DVC_ROOT/.work/<kind>/<2 hex>/<sha256>`: it survives kill -9, `--temp` and the
queue. The key holds everything that decides the result; a result is written to
a temporary file and renamed, so there is never half a one.
"""

import hashlib
import json
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


class WorkCache:
    """Finished work by kind and key.

    Args:
        root: the cache's folder; by default `.work` of the user's repository, also
            when a stage runs in a temporary experiment workspace.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = root if root is not None else project_root() / ".work"

    def path(self, kind: str, key: Mapping[str, Any]) -> Path:
        name = digest(key)
        return self.root / kind / name[:2] / name

    def __contains__(self, entry: tuple[str, Mapping[str, Any]]) -> bool:
        return self.path(*entry).exists()

    def get(self, kind: str, key: Mapping[str, Any]) -> bytes | None:
        """The bytes kept under a key, or None."""
        try:
            return self.path(kind, key).read_bytes()
        except FileNotFoundError:
            return None

    def put(self, kind: str, key: Mapping[str, Any], value: bytes) -> None:
        with replacing(self.path(kind, key), "wb") as file:
            file.write(value)

    def get_json(self, kind: str, key: Mapping[str, Any]) -> Any | None:
        """The JSON value kept under a key; None also where the disk spoilt it."""
        value = self.get(kind, key)
        if value is None:
            return None
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return None

    def put_json(self, kind: str, key: Mapping[str, Any], value: Any) -> None:
        self.put(kind, key, json.dumps(value, ensure_ascii=False).encode())


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
