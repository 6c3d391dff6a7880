"""A row of a table, and a table as metrics files hold it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shiyan.detectors.evaluation.cells import CellResult, estimates
from shiyan.metrics import Estimate


@dataclass(frozen=True)
class Row:
    """A detector's numbers in one place of a table.

    Attributes:
        place: what the place is, such as {"trained_on": "D1", "tested_on": "D2"}.
        facts: counts, thresholds, and what the detector learnt from.
    """

    place: Mapping[str, str]
    detector: str
    estimates: Mapping[str, Estimate]
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return " / ".join(self.place.values())

    def as_dict(self) -> dict[str, Any]:
        return {
            **self.place,
            **self.facts,
            **{name: estimate.as_dict() for name, estimate in self.estimates.items()},
        }


def row_of(
    place: Mapping[str, str],
    detector: str,
    cell: CellResult,
    metrics: Iterable[str],
    further: Mapping[str, Estimate] | None = None,
    **facts: Any,
) -> Row:
    """A cell's row; `further` are estimates beside the cell's own."""
    told = {**estimates(cell, metrics), **(further or {})}
    return Row(place, detector, told, {**facts, **cell.counts()})


def nested(rows: Iterable[Row]) -> dict[str, dict[str, Any]]:
    """Place -> detector -> numbers, in order.

    Raises:
        ValueError: two rows of a detector in one place.
    """
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        of_place = found.setdefault(row.key, {})
        if row.detector in of_place:
            raise ValueError(f"{row.detector} stands twice at {row.key}")
        of_place[row.detector] = row.as_dict()
    return found
