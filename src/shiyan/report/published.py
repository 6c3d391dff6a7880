"""What AIGenPoetry reports, to stand beside our own numbers."""

import csv
from functools import cache
from importlib.resources import files

MEAN = "mean"
"""The paper's mean of its four LLMs, where it has one."""

Key = tuple[str, str, str, str, str, str]


@cache
def _values() -> dict[Key, float]:
    """(table, metric, trained on, tested on, generator, detector) -> a share, 0 … 1."""
    file = files("shiyan") / "data/published/aigenpoetry_detection.tsv"
    _, *rows = csv.reader(file.read_text(encoding="utf-8").splitlines(), delimiter="\t")
    return {
        (table, metric, trained_on, tested_on, generator, detector): float(percent) / 100
        for table, metric, trained_on, tested_on, generator, detector, percent in rows
    }


def published(
    table: int, metric: str, trained_on: str, tested_on: str, generator: str, detector: str
) -> float | None:
    """The paper's number for a cell of one of its tables, 0 … 1; None where it has none."""
    return _values().get((str(table), metric, trained_on, tested_on, generator, detector))
