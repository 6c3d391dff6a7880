"""Places where a reply speaks about a dimension, and how firmly."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

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
    """Mentions that belong together: a JSON document, a table, or a list of lines."""

    start: int
    mentions: list[Mention] = field(default_factory=list)
    is_final: bool = False

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


# --- names of dimensions ------------------------------------------------------------


@lru_cache(maxsize=64)
def name_pattern(rubric: Rubric) -> tuple[re.Pattern[str], Mapping[str, str | None]]:
    """A pattern of every spelling, and spelling -> dimension (None: named, not scored)."""
    meaning: dict[str, str | None] = {folded(a): None for a in rubric.asides}
    meaning |= {folded(spelling): name for spelling, name in rubric.spellings()}
    spellings = sorted([s for s, _ in rubric.spellings()] + list(rubric.asides), key=len)
    return re.compile("|".join(map(_spelled, reversed(spellings))), re.I), meaning


def folded(spelling: str) -> str:
    return re.sub(r"[\s_&-]+", "", spelling).lower()


def _spelled(name: str) -> str:
    """A pattern of one spelling; a Latin one stands as a word of its own, blanks are free."""
    pattern = r"[\s_-]*".join(re.escape(part) for part in re.split(r"[\s_]+", name))
    return rf"(?<![a-zA-Z]){pattern}(?![a-zA-Z])" if name[0].isascii() else pattern


def dimension_of(key: str, rubric: Rubric) -> str | None:
    """The dimension that a table cell or a JSON key is the name of, as a whole."""
    bare = re.sub(r"^[\s\d.、)）(（*_`#]+|[\s*_`:：]+$", "", key)
    bare = re.sub(r"[（(][^（）()]*[)）]$", "", bare).strip()
    bare = re.sub(r"(?:维度|方面|的?理解)$", "", bare)
    return name_pattern(rubric)[1].get(folded(bare))
