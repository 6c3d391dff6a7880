"""Do the rhymes of a ci hold? By the 19 parts of 词林正韵, beyond the paper.

A rhyme group holds where its characters share a part. Level and oblique are kept
apart: a character rhymes with the reading whose tone its place wants; where a form
lets a line rhyme across the tones (叶), with the other tone of the same part.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from shiyan.ci.tones import PARTS, ToneTable

Place = tuple[int, str]
"""Where a rhyme stands, and the tone it wants there: (character, 平, 仄 or 中)."""


@dataclass(frozen=True)
class GroupRhyme:
    """How one rhyme group came out.

    Attributes:
        group: its name in the form, 甲 for the first.
        places: the characters that should rhyme, in order.
        part: the rhyme part that most of them share, or None.
        kept: whether each has that part; None where its readings are unknown.
    """

    group: str
    places: tuple[int, ...]
    part: int | None
    kept: tuple[bool | None, ...]

    @property
    def n(self) -> int:
        """Characters whose readings are known."""
        return sum(kept is not None for kept in self.kept)


@dataclass(frozen=True)
class Rhymes:
    """All groups of a form that have at least two known characters."""

    groups: tuple[GroupRhyme, ...]

    @property
    def n(self) -> int:
        return sum(group.n for group in self.groups)

    @property
    def n_kept(self) -> int:
        return sum(kept is True for group in self.groups for kept in group.kept)

    @property
    def share(self) -> float | None:
        """Kept rhyme places of all known ones; None where there are none."""
        return self.n_kept / self.n if self.n else None


def check_rhymes(
    characters: str, groups: Sequence[tuple[str, Sequence[Place]]], tones: ToneTable
) -> Rhymes:
    """The rhyme part that each group shares, and who keeps it."""
    checked = (_group(name, places, characters, tones) for name, places in groups)
    return Rhymes(tuple(group for group in checked if group.n > 1))


def _group(name: str, places: Sequence[Place], characters: str, tones: ToneTable) -> GroupRhyme:
    parts = [tones.parts(characters[place], tone) for place, tone in places]
    known = [tones.parts(characters[place], "中") != 0 for place, _ in places]
    shared = ~0
    for mask, is_known in zip(parts, known, strict=True):
        shared &= mask if is_known else ~0
    # Most groups hold as a whole, and then one AND has said so.
    candidates = [p for p in range(1, PARTS + 1) if shared >> p & 1] if shared != ~0 else []
    if not candidates:
        counts = [sum(mask >> p & 1 for mask in parts) for p in range(PARTS + 1)]
        best = max(counts)
        candidates = [counts.index(best)] if best else []
    part = candidates[0] if candidates else None
    kept = tuple(
        (part is not None and bool(mask >> part & 1)) if is_known else None
        for mask, is_known in zip(parts, known, strict=True)
    )
    return GroupRhyme(name, tuple(place for place, _ in places), part, kept)
