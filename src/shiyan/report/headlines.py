"""The numbers one looks for first in the metrics files, under short paths."""

from collections.abc import Iterator, Mapping
from typing import Any

DETECTION = ("auroc", "macro_f1")
"""Of each detector, on the whole test fold."""


def headlines(document: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], float]]:
    """(path, value) of a metrics file's headline numbers; unscored ones have none."""
    for path, estimate in headline_estimates(document):
        if estimate["value"] is not None:
            yield path, float(estimate["value"])


def headline_estimates(
    document: Mapping[str, Any],
) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """(path, estimate) of a metrics file's headlines."""
    for path, estimate in estimates(document):
        if len(path) >= 3 and path[-2] == "all" and path[-1] in DETECTION:
            yield (path[-3], path[-1]), estimate


def estimates(
    document: Any, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Every estimate of a metrics file with its path."""
    if not isinstance(document, Mapping):
        return
    if "value" in document and "n" in document:
        yield path, document
        return
    for key, below in document.items():
        yield from estimates(below, (*path, key))
