"""A paragraph of prose above a ci, told from its verse by the tune's forms."""

from collections.abc import Sequence
from dataclasses import replace

from shiyan.ci.form import Catalogue
from shiyan.ci.pattern import Pattern
from shiyan.ci.reading import CiText, read_ci

SLIP = 3
"""Characters that a ci with a mistake in it may have too many or too few."""


def without_preface(text: CiText, patterns: Sequence[Pattern]) -> CiText | None:
    """The ci without its first paragraph, where only so it has a form's lines; else None.

    A ci of which a stanza is spoilt is none with a preface: the length of the whole must
    be far from every form's, so that the second stanza of two is not taken for the ci; and
    so must the paragraph's, which may be the first of two ci.
    """
    if not text.stanzas:
        return None
    end = (text.stanzas & -text.stanzas).bit_length() - 1
    verse_like = {len(text), end}
    if any(abs(pattern.n - n) <= SLIP for pattern in patterns for n in verse_like):
        return None
    rest = replace(
        text,
        characters=text.characters[end:],
        hard=text.hard >> end & ~1,
        soft=text.soft >> end & ~1,
        stanzas=text.stanzas >> end & ~1,
    )
    if rest.is_uncut or not any(pattern.fits(rest) for pattern in patterns):
        return None
    return rest


def preface_of(text: str, cipai: str, catalogue: Catalogue) -> bool:
    """Is the first stanza of a ci to this tune prose? False where nobody knows the tune."""
    read = read_ci(text, catalogue, keep_title=True)
    tunes = catalogue.find(cipai)
    return any(without_preface(read, list(map(Pattern.of, tune.variants))) for tune in tunes)
