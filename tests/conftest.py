"""The order of the tests, and what several processes of them share."""

import os

import pytest

# Files with these marks take longest, in this order; begun last, they would run alone at the end.
LONG = ("dvc", "model", "mlflow", "training")


def pytest_configure() -> None:
    """Two processes of tests share two cores, so that threads of their own only get in the way."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: min((LONG.index(m.name) for m in marks(item)), default=len(LONG)))


def marks(item: pytest.Item) -> list[pytest.Mark]:
    return [mark for mark in item.iter_markers() if mark.name in LONG]
