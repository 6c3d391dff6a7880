"""Every detector's scores of every poem, by what the detector learnt from.

The one input of the evaluation: a row a poem, a column a detector and training set. It
holds no text, so that it can be published, and the numbers be computed again from it.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from shiyan.detectors.evaluation.poems import attacked_id, refuse_leaks
from shiyan.detectors.protocol import EVERYBODY
from shiyan.errors import UserError
from shiyan.jsonl import replacing
from shiyan.metrics import Floats
from shiyan.records import DetectorScore, EvaluatedPoem

Rows = NDArray[np.intp]
Columns = dict[tuple[str, str], Floats]
"""(training set, detector) -> (n,), NaN where there is none."""

THRESHOLD_ONLY = "threshold"
"""The training set of a detector without training: it learns its threshold alone."""


@dataclass(frozen=True)
class ScoreMatrix:
    """Scores of n poems.

    Attributes:
        poems: by id, in the order of the rows; attacked poems are rows of their own.
        scores: higher: more likely an LLM's.
        own_labels: what trained detectors call a poem by themselves; 1 = LLM.
    """

    poems: Mapping[str, EvaluatedPoem]
    scores: Columns
    own_labels: Columns

    @classmethod
    def of(
        cls,
        poems: Mapping[str, EvaluatedPoem],
        untrained: Iterable[DetectorScore],
        trained: Iterable[DetectorScore],
    ) -> Self:
        """From the records that the scorers left.

        Args:
            untrained: of detectors that learn a threshold alone.
            trained: of detectors that learn; `setting` names what they learnt from, else it is
                the whole train fold.

        Raises:
            UserError: a score of an unknown poem, or two scores of one poem by one detector.
        """
        matrix = cls(poems, {}, {})
        seen: set[tuple[str, str, str]] = set()
        for score in untrained:
            matrix._put(score, THRESHOLD_ONLY, seen)
        for score in trained:
            matrix._put(score, score.setting or EVERYBODY, seen)
        return matrix

    def _put(
        self, score: DetectorScore, training_set: str, seen: set[tuple[str, str, str]]
    ) -> None:
        own = attacked_id(score.poem_id, score.attack) if score.attack else score.poem_id
        if own not in self.row_of:
            raise UserError(
                f"{score.detector} scored poem {own!r}, which is not among the poems; score again"
            )
        if (training_set, score.detector, own) in seen:
            raise UserError(
                f"{score.detector} scored poem {own!r} twice; score again, or keep one score"
            )
        seen.add((training_set, score.detector, own))
        column = training_set, score.detector
        for columns, value in ((self.scores, score.score), (self.own_labels, score.own_label)):
            if columns is self.own_labels and value is None:
                continue
            values = columns.setdefault(column, np.full(len(self.poems), np.nan))
            if value is not None:
                values[self.row_of[own]] = value

    @cached_property
    def row_of(self) -> dict[str, int]:
        return {poem_id: row for row, poem_id in enumerate(self.poems)}

    @cached_property
    def labels(self) -> NDArray[np.int_]:
        """1 = LLM; (n,)."""
        return np.array([poem.label for poem in self.poems.values()], np.int_)

    @cached_property
    def groups(self) -> tuple[str, ...]:
        return tuple(poem.group_id for poem in self.poems.values())

    @cached_property
    def clusters(self) -> tuple[str, ...]:
        """Of each poem its poet, or where nobody is named its group."""
        return tuple(poem.poet or f"group {poem.group_id}" for poem in self.poems.values())

    def rows(self, poem_ids: Iterable[str]) -> Rows:
        return np.array([self.row_of[poem_id] for poem_id in poem_ids], np.intp)

    def detectors(self, training_set: str | None = None) -> list[str]:
        """By name, those without training first; those of one training set, if one is named."""
        columns = [c for c in self.scores if training_set in (None, c[0])]
        columns.sort(key=lambda column: column[0] != THRESHOLD_ONLY)
        return list(dict.fromkeys(detector for _, detector in columns))

    # --- a file without texts -----------------------------------------------------------

    def write(self, path: Path) -> None:
        """A line that names the columns, then a line a poem: what it is, and its numbers."""
        columns = {part: [list(c) for c in getattr(self, part)] for part in PARTS}
        with replacing(path) as file:
            file.write(json.dumps(columns, ensure_ascii=False) + "\n")
            for row, poem in enumerate(self.poems.values()):
                numbers = {part: _row(getattr(self, part), row) for part in PARTS}
                line = {"poem": poem.model_dump(mode="json", exclude_defaults=True)} | numbers
                file.write(json.dumps(line, ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        """What `write` wrote.

        Raises:
            UserError: the file is missing, or a line is not of this kind; a split that leaks.
        """
        try:
            head, *lines = path.read_text(encoding="utf-8").splitlines() or [""]
        except OSError as error:
            raise UserError(f"{path} cannot be read ({error.strerror})") from error
        except ValueError as error:
            raise UserError(f"{path} is no text in UTF-8 ({error})") from error
        names = _parsed(path, 1, lambda: _names(json.loads(head)))
        poems: dict[str, EvaluatedPoem] = {}
        values: dict[str, list[list[float]]] = {part: [] for part in PARTS}
        for number, line in enumerate(lines, start=2):
            poem, numbers = _parsed(path, number, partial(_line, line, names))
            if poem.poem_id in poems:
                raise UserError(f"{path}:{number} holds the poem {poem.poem_id!r} again")
            poems[poem.poem_id] = poem
            for part in PARTS:
                values[part].append(numbers[part])
        refuse_leaks(poem for poem in poems.values() if poem.attack is None)
        columns = {
            part: {
                name: np.array([row[i] for row in values[part]], np.float64)
                for i, name in enumerate(names[part])
            }
            for part in PARTS
        }
        return cls(poems, columns["scores"], columns["own_labels"])


PARTS = ("scores", "own_labels")
Names = dict[str, list[tuple[str, str]]]
T = TypeVar("T")


def _row(columns: Columns, row: int) -> list[float | None]:
    numbers = (float(values[row]) for values in columns.values())
    return [number if math.isfinite(number) else None for number in numbers]


def _parsed(path: Path, number: int, parse: Callable[[], T]) -> T:
    try:
        return parse()
    except (ValueError, KeyError, TypeError) as error:
        told = str(error).partition("\n")[0]
        raise UserError(f"{path}:{number} is no line of a score matrix: {told}") from error


def _names(head: Mapping[str, list[list[str]]]) -> Names:
    found = {part: [(str(a), str(b)) for a, b in head[part]] for part in PARTS}
    for part, names in found.items():
        if len(set(names)) < len(names):
            raise ValueError(f"a column of {part} is named twice")
    return found


def _line(text: str, names: Names) -> tuple[EvaluatedPoem, dict[str, list[float]]]:
    found: Mapping[str, Any] = json.loads(text)
    poem = EvaluatedPoem.model_validate({"generation": None} | found["poem"])
    for part in PARTS:
        if len(found[part]) != len(names[part]):
            raise ValueError(f"{len(found[part])} {part}, {len(names[part])} columns")
    return poem, {part: [_number(value) for value in found[part]] for part in PARTS}


def _number(value: object) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is no number")
    return float(value)
