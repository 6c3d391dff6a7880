"""The order of the tests, and what several processes of them share."""

import os

import pytest

# Files with these marks take longest, in this order; begun last, they would run alone at the end.
LONG = ("dvc", "model", "mlflow", "server", "hydra", "training")


def pytest_configure() -> None:
    """Give each process of tests its own cores, and so the servers and trainings that it starts.

    Two that take all cores each wait for one another's threads, and take three times as long.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ or not hasattr(os, "sched_setaffinity"):
        return
    number = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
    n_processes = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[number::n_processes] or cores)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: min((LONG.index(m.name) for m in marks(item)), default=len(LONG)))


def marks(item: pytest.Item) -> list[pytest.Mark]:
    return [mark for mark in item.iter_markers() if mark.name in LONG]
