"""A form made ready to be compared: break sets and tones as bits of integers.

One comparison of a whole ci with a whole form is then a few machine operations.
"""

from dataclasses import dataclass

from shiyan.ci.form import Variant
from shiyan.ci.reading import CiText
from shiyan.ci.rhyme import Place
from shiyan.ci.tones import Sounds


@dataclass(frozen=True, eq=False)
class Pattern:
    """A variant, ready to be compared.

    Attributes:
        n: characters.
        required: breaks after a line (句 or 韵), bit i after i characters.
        caesuras: breaks after a 读.
        level, oblique: characters that must be 平 or 仄; bit 0 is the first.
        rhymes: by group, the characters that rhyme and the tone each wants.
    """

    variant: Variant
    n: int
    required: int
    caesuras: int
    level: int
    oblique: int
    rhymes: tuple[tuple[str, tuple[Place, ...]], ...]

    @classmethod
    def of(cls, variant: Variant) -> "Pattern":
        position = required = caesuras = 0
        rhymes: dict[str, list[Place]] = {}
        for line in variant.lines:
            position += len(line.tones)
            if line.end == "读":
                caesuras |= 1 << position
            else:
                required |= 1 << position
            if line.group:
                rhymes.setdefault(line.group, []).append((position - 1, line.tones[-1]))
        return cls(
            variant,
            position,
            required,
            caesuras,
            _places(variant.tones, "平"),
            _places(variant.tones, "仄"),
            tuple((group, tuple(places)) for group, places in rhymes.items()),
        )

    @property
    def name(self) -> str:
        return self.variant.variant_id

    @property
    def breaks(self) -> int:
        return self.required | self.caesuras

    @property
    def fixed(self) -> int:
        """Characters that may not be of either tone."""
        return self.level | self.oblique

    def fits_strictly(self, text: CiText) -> bool:
        """The text's breaks are the form's, a caesura being one."""
        return len(text) == self.n and (text.hard | text.soft) == self.breaks

    def fits(self, text: CiText) -> bool:
        """As strictly, but a caesura may be unbroken and a 、 stand anywhere."""
        return (
            len(text) == self.n
            and not self.required & ~(text.hard | text.soft)
            and not text.hard & ~self.breaks
        )

    def fits_uncut(self, text: CiText) -> bool:
        """It has the form's length, and what breaks it has stand between the form's lines."""
        return len(text) == self.n and not text.hard & ~self.required

    def misfits(self, sounds: Sounds) -> int:
        """Characters whose tone breaks the form, as bits."""
        return self.level & ~sounds.level | self.oblique & ~sounds.oblique

    def wants(self, place: int, sounds: Sounds, character: int) -> bool:
        """May this character of a text stand at that place of the form?"""
        if self.level >> place & 1:
            return bool(sounds.level >> character & 1)
        if self.oblique >> place & 1:
            return bool(sounds.oblique >> character & 1)
        return True


def _places(tones: str, tone: str) -> int:
    """Where a tone stands in a string of tones, the first character as bit 0."""
    return sum(1 << index for index, symbol in enumerate(tones) if symbol == tone)


@dataclass(frozen=True)
class ToneCount:
    """How the tones of a text fit a form of the same length.

    Attributes:
        fit, n: characters that fit, of all; the paper's tonal accuracy is fit / n.
        fixed_fit, fixed_n: of those where the form wants 平 or 仄.
        definite_fit, definite_n: of those, the ones with one reading only.
    """

    fit: int
    n: int
    fixed_fit: int
    fixed_n: int
    definite_fit: int
    definite_n: int

    @classmethod
    def of(cls, pattern: Pattern, sounds: Sounds) -> "ToneCount":
        wrong = pattern.misfits(sounds).bit_count()
        fixed = pattern.fixed.bit_count()
        definite = (pattern.fixed & (sounds.level ^ sounds.oblique)).bit_count()
        return cls(pattern.n - wrong, pattern.n, fixed - wrong, fixed, definite - wrong, definite)

    @property
    def share(self) -> float:
        return self.fit / self.n

    @property
    def definite_share(self) -> float | None:
        """None where every fixed character is a polyphone or unknown."""
        return self.definite_fit / self.definite_n if self.definite_n else None
