"""Places where a reply speaks about a dimension, and how firmly."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from shiyan.judging.expression import Reading
from shiyan.judging.rubric import Rubric

BARE, LABELLED, CHANGED, FINAL = range(4)
"""How firmly a score is put; the highest rung decides."""


@dataclass(frozen=True)
class Mention:
    """A place where the reply speaks about a dimension; without a reading, only in words."""

    dimension: str
    reading: Reading | None
    reason: str = ""
    rung: int = LABELLED


@dataclass
class Block:
    """Mentions that belong together: a JSON document, a table, or a list of lines.

    Attributes:
        is_disputed: the judge says of it that it is the reader's, or that it counts not.
    """

    start: int
    mentions: list[Mention] = field(default_factory=list)
    is_final: bool = False
    is_disputed: bool = False

    def readings(self) -> dict[str, Mention]:
        return {m.dimension: m for m in self.mentions if m.reading is not None}

    def covers(self, rubric: Rubric) -> bool:
        return set(self.readings()) == set(rubric.names)


def agreed(mentions: Sequence[Mention]) -> Reading | None:
    """The reading that the firmest mentions share; a reading without a value where they differ."""
    readings = [(m.rung, m.reading) for m in mentions if m.reading is not None]
    if not readings:
        return None
    highest = max(rung for rung, _ in readings)
    firmest = [reading for rung, reading in readings if rung == highest]
    if highest == CHANGED:
        return firmest[-1]
    values = list(dict.fromkeys(r.problem or f"{r.value:g}" for r in firmest))
    if len(values) > 1:
        return Reading(None, f"two verdicts disagree ({', '.join(values)})", 0)
    return firmest[-1]
