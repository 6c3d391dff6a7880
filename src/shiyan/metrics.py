"""Numbers one can defend: estimates with intervals, and the files that hold them."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shiyan.jsonl import replacing


@dataclass(frozen=True)
class Estimate:
    """A number, its 95 % interval, and what it rests on.

    Attributes:
        value: the estimate; None where there is none, with `reason`.
        low, high: the ends of the 95 % interval; None where there is none.
        n: how many items the value was computed from.
        n_unscored: how many items have no score and are not in `n`.
        reason: why there is no value.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    n_unscored: int = 0
    reason: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """As it stands in metrics/*.json; non-finite numbers are None there."""
        fields = {
            "value": _finite(self.value),
            "low": _finite(self.low),
            "high": _finite(self.high),
        }
        counts: dict[str, Any] = {"n": self.n, "n_unscored": self.n_unscored}
        return fields | counts | ({"reason": self.reason} if self.reason else {})


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


def write_metrics(path: Path, metrics: Mapping[str, Any]) -> None:
    """Write a metrics file in one rename.

    Raises:
        ValueError: a NaN or an infinity, which is no JSON and no number to defend.
    """
    text = json.dumps(metrics, ensure_ascii=False, indent=2, allow_nan=False)
    with replacing(path) as file:
        file.write(text + "\n")
