"""Does a ci keep its cipai's form? Structure, tone and rhyme (CCiV, section 2.3).

Structure is read in two ways, and both are reported:
    strict    a caesura (读) is a line break, as in the paper: the text's breaks,
              、 among them, are the form's, no more and no fewer;
    optional  a form's caesura may be left unbroken, and a text's 、 may stand anywhere.
`standard` is the tune's standard form, `any` every form of 钦定词谱 and 龙榆生's
《唐宋词格律》. Tone is the share of characters whose tone fits, 0 where the structure
is broken; a polyphone fits if any of its readings does, and so does a character that no
book has: not knowing is no evidence against a poem. No rule of shi is applied.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any

from shiyan.ci.form import Catalogue, Cipai, Variant, load_catalogue
from shiyan.ci.nearest import MOST_EDITS, Nearest, NearestForms
from shiyan.ci.pattern import Pattern, ToneCount
from shiyan.ci.preface import without_preface
from shiyan.ci.reading import FOREIGN, CiText, lengths, read_ci, shown
from shiyan.ci.rhyme import Rhymes, check_rhymes
from shiyan.ci.tones import Sounds, ToneTable, load_tones
from shiyan.records import CiCheck, NearestForm

SCORES = tuple(
    f"{what}_{form}{reading}"
    for reading in ("", "_optional")
    for what in ("structure", "tonal")
    for form in ("standard", "any")
)
"""The eight scores of the paper's kind, as CiCheck names them."""

PENALTY = 4
"""What a character that does not fit costs against one that does, in telling tunes of
the same lines apart; forms with many 中 would win otherwise."""


LONGEST_TEXT = 20_000
"""Characters of a text that are read; a longer one is no ci."""
FITTING_TONES, FITTING_RHYMES = 0.8, 0.6
"""Shares of one-reading tones and of rhymes below which a tune that was only guessed is
doubted: historic ci have 0.97 and 0.96 on average."""
SLIP = 2
"""Distance up to which a wrong number of characters may be a slip of the text."""

LINES_OF_A_SHI = "lines_of_a_shi"
"""Among `NearestForm.kinds`: see `shi_shape`."""


@dataclass(frozen=True)
class Verdict:
    """Everything the checker says of one ci.

    Attributes:
        cipai: the tune it was measured by, None where none is known.
        pattern: the best of the forms that it keeps (optional reading), or None.
        strictly: it keeps `pattern` strictly.
        tone: over `pattern`.
        rhymes: over `pattern`, else over the nearest form.
        nearest: the closest form where none is kept.
        elsewhere: another tune's form that it keeps, where it keeps none of its own.
        remarks: what was left out of the text, and what is worth a word.
        n_compared: comparisons of lines that `nearest` took.
    """

    text: CiText
    sounds: Sounds
    cipai: Cipai | None = None
    structure_standard: bool = False
    structure_any: bool = False
    structure_standard_optional: bool = False
    structure_any_optional: bool = False
    tonal_standard: float = 0.0
    tonal_any: float = 0.0
    tonal_standard_optional: float = 0.0
    tonal_any_optional: float = 0.0
    pattern: Pattern | None = None
    strictly: bool = False
    tone: ToneCount | None = None
    rhymes: Rhymes | None = None
    nearest: Nearest | None = None
    elsewhere: Pattern | None = None
    remarks: tuple[str, ...] = ()
    n_compared: int = 0
    unscored_reason: str | None = None

    @property
    def measured(self) -> Pattern | None:
        """The form that tones and rhymes were measured by."""
        return self.pattern or (self.nearest.pattern if self.nearest else None)

    def record(self, poem_id: str, cipai: str) -> CiCheck:
        """As it is written to a file; `cipai` is the name as it was given."""
        scored = self.unscored_reason is None
        scores: dict[str, Any] = {name: getattr(self, name) if scored else None for name in SCORES}
        tone, nearest = self.tone, self.nearest
        fixed = self.measured.fixed if self.measured else ~0
        if tone:
            scores |= {
                "tonal_definite": tone.definite_share,
                "tonal_nearest": tone.share,
                "n_fixed": tone.fixed_n,
                "n_fixed_fit": tone.fixed_fit,
                "n_definite": tone.definite_n,
                "n_definite_fit": tone.definite_fit,
            }
        if nearest:
            scores["tonal_nearest"] = nearest.tonal
            scores["nearest"] = NearestForm(
                variant_id=nearest.pattern.name,
                edits=nearest.edits,
                distance=nearest.distance,
                kinds=nearest.kinds,
            )
        return CiCheck(
            poem_id=poem_id,
            cipai=cipai,
            **scores,
            variant_id=self.pattern.name if self.pattern else None,
            rhyme_share=self.rhymes.share if self.rhymes else None,
            n_characters=len(self.text),
            n_polyphones=(self.sounds.polyphones & fixed).bit_count(),
            n_unknown=self.sounds.unknown.bit_count(),
            elsewhere=self.elsewhere.name if self.elsewhere else None,
            remarks=self.remarks,
            unscored_reason=self.unscored_reason,
        )


class Checker:
    """Checks ci against the forms of a catalogue, and keeps what it has prepared."""

    def __init__(self, catalogue: Catalogue | None = None, tones: ToneTable | None = None) -> None:
        self.catalogue = load_catalogue() if catalogue is None else catalogue
        self.tones = tones or load_tones()
        self.nearest = NearestForms(self.tones)
        self._patterns: dict[str, tuple[Pattern, ...]] = {}

    @cached_property
    def by_length(self) -> dict[int, list[Pattern]]:
        """The forms of all tunes by their number of characters."""
        found: dict[int, list[Pattern]] = {}
        for tune in self.catalogue.values():
            for pattern in self.patterns(tune):
                found.setdefault(pattern.n, []).append(pattern)
        return found

    def patterns(self, cipai: Cipai) -> tuple[Pattern, ...]:
        """A tune's forms, ready to be compared."""
        if cipai.name not in self._patterns:
            self._patterns[cipai.name] = tuple(map(Pattern.of, cipai.variants))
        return self._patterns[cipai.name]

    def check(self, text: str, cipai: str | None = None) -> Verdict:
        """Check one ci; never raises on account of the text.

        Args:
            text: of any shape, see `reading`.
            cipai: its name; None or "" takes it from the title, else the best match of all.

        A name that nobody knows makes the ci unscored, with the reason, and so does a
        text without a Chinese character or with more than LONGEST_TEXT characters.
        """
        if len(text) > LONGEST_TEXT:
            reason = f"{len(text)} characters are too many; at most {LONGEST_TEXT} are read"
            return Verdict(CiText("", 0, 0, 0), Sounds(0, 0, 0), unscored_reason=reason)
        cipai = cipai if cipai and cipai.strip() else None
        read = read_ci(text, self.catalogue)
        verdict = self._check(read, cipai)
        if not verdict.structure_any_optional and read.title:
            # A name such as 江南好 may be the first line of the verse itself.
            whole = self._check(read_ci(text, self.catalogue, keep_title=True), cipai)
            verdict = whole if whole.structure_any_optional else verdict
        return verdict

    def _check(self, text: CiText, cipai: str | None) -> Verdict:
        sounds = self.tones.sounds(text.characters)
        unscored = Verdict(text, sounds, remarks=text.remarks)
        if not text.characters.replace(FOREIGN, ""):
            return replace(unscored, unscored_reason="no Chinese character in the text")
        remarks = text.remarks
        if cipai is not None:
            tunes = self.catalogue.find(cipai) or self.catalogue.read_title(cipai).cipai
            if not tunes:
                reason = f"no cipai {cipai!r} among the {len(self.catalogue)} known ones"
                return replace(unscored, unscored_reason=reason)
        elif text.title and text.title.cipai:
            tunes = text.title.cipai
        elif best := self.identify(text, sounds):
            return self._guessed(text, sounds, best)
        else:
            return self._nameless(unscored)
        for tune in tunes:
            if verse := without_preface(text, self.patterns(tune)):
                preface = text.characters[: -len(verse)]
                told = f"the paragraph {shown(preface)} is read as a preface, not counted"
                verse = replace(verse, remarks=(*text.remarks, told))
                return self._measure(
                    verse, self.tones.sounds(verse.characters), tune, verse.remarks
                )
        verdicts = [self._measure(text, sounds, tune, remarks) for tune in tunes]
        # A name that several tunes share (乌夜啼) means the one whose form is kept.
        return max(verdicts, key=lambda v: (v.structure_any_optional, v.tonal_any_optional))

    def _guessed(self, text: CiText, sounds: Sounds, best: Pattern) -> Verdict:
        """By the tune that fits best of all, with the doubts that there are."""
        tune = self._tune_of(best)
        remarks = (*text.remarks, f"no cipai is named; {tune.name} fits best of all")
        verdict = self._measure(text, sounds, tune, remarks)
        if shape := shi_shape(text):
            shi = f"its lines are a shi's, {shape}: it need not be a ci"
            verdict = replace(verdict, remarks=(*verdict.remarks, shi))
        return replace(verdict, remarks=(*verdict.remarks, *_doubts(verdict)))

    def _nameless(self, unscored: Verdict) -> Verdict:
        """Unscored, with a word on the form of any tune that comes nearest."""
        text, before = unscored.text, self.nearest.n_compared
        found = self.nearest.find_of_all(text, unscored.sounds, self._near_in_length(len(text)))
        remarks = unscored.remarks
        if found:
            name, edits = self._tune_of(found.pattern).name, "; ".join(found.edits)
            told = f"{found.pattern.name}, distance {found.distance}: {edits}"
            remarks = (*remarks, f"a guess, for no cipai is named: {name} is nearest ({told})")
        return replace(
            unscored,
            remarks=remarks,
            n_compared=self.nearest.n_compared - before,
            unscored_reason="no cipai is named, and no form of any has these lines",
        )

    def _near_in_length(self, n: int) -> list[Pattern]:
        """The forms of all tunes that are at most MOST_EDITS characters longer or shorter."""
        near = range(n - MOST_EDITS, n + MOST_EDITS + 1)
        return [pattern for length in near for pattern in self.by_length.get(length, [])]

    def _tune_of(self, pattern: Pattern) -> Cipai:
        return self.catalogue[pattern.name.rpartition("/")[0]]

    def _measure(
        self, text: CiText, sounds: Sounds, tune: Cipai, remarks: tuple[str, ...]
    ) -> Verdict:
        patterns = self.patterns(tune)
        if text.is_uncut:
            kept = strict = [pattern for pattern in patterns if pattern.fits_uncut(text)]
        else:
            kept = [pattern for pattern in patterns if pattern.fits(text)]
            strict = [pattern for pattern in kept if pattern.fits_strictly(text)]
        if not kept:
            return self._broken(text, sounds, tune, remarks)
        share = {pattern: ToneCount.of(pattern, sounds).share for pattern in kept}
        standard = [pattern for pattern in kept if pattern.variant is tune.standard]
        # Of forms that fit equally well: the standard, one kept strictly, the first.
        best = max(kept, key=lambda p: (share[p], p in standard, p in strict))

        def highest(chosen: Sequence[Pattern]) -> float:
            return max((share[pattern] for pattern in chosen), default=0.0)

        strict_standard = [pattern for pattern in standard if pattern in strict]
        return Verdict(
            text,
            sounds,
            tune,
            structure_standard=bool(strict_standard),
            structure_any=bool(strict),
            structure_standard_optional=bool(standard),
            structure_any_optional=True,
            tonal_standard=highest(strict_standard),
            tonal_any=highest(strict),
            tonal_standard_optional=highest(standard),
            tonal_any_optional=share[best],
            pattern=best,
            strictly=best in strict,
            tone=ToneCount.of(best, sounds),
            rhymes=check_rhymes(text.characters, best.rhymes, self.tones),
            remarks=(*remarks, *_remarks(text, best, patterns)),
        )

    def _broken(
        self, text: CiText, sounds: Sounds, tune: Cipai, remarks: tuple[str, ...]
    ) -> Verdict:
        """No form of the tune is kept: which one is nearest, and is it another tune's?"""
        patterns = self.patterns(tune)
        elsewhere, shape = self.identify(text, sounds), shi_shape(text)
        if elsewhere:
            remarks = (*remarks, self._told_elsewhere(elsewhere, text, sounds))
        elif shape:
            remarks = (*remarks, f"its lines are a shi's, {shape}")
        before = self.nearest.n_compared
        nearest = self.nearest.find(text, sounds, tune, patterns)
        if nearest is None:
            longest = max(pattern.n for pattern in patterns)
            words = (
                f"{len(text)} characters in {len(text.units)} lines are too many to compare "
                f"with {tune.name}, which has at most {longest}"
            )
            remarks = (*remarks, words)
        elif text_slips(text, nearest):
            words = "a slip of the text is possible: a character is easily lost or doubled"
            remarks = (*remarks, words)
        if nearest and shape:
            nearest = replace(nearest, kinds=(*nearest.kinds, LINES_OF_A_SHI))
        return Verdict(
            text,
            sounds,
            tune,
            rhymes=nearest.rhymes if nearest else None,
            nearest=nearest,
            elsewhere=elsewhere,
            remarks=remarks,
            n_compared=self.nearest.n_compared - before,
        )

    def _told_elsewhere(self, pattern: Pattern, text: CiText, sounds: Sounds) -> str:
        """That the lines are another tune's, and how well they keep it.

        A few tunes have a shi's lines; such a text need not be meant for one of them.
        """
        tone = ToneCount.of(pattern, sounds)
        rhymes = check_rhymes(text.characters, pattern.rhymes, self.tones)
        shape = shi_shape(text)
        told = f"its lines are a shi's, {shape}, and" if shape else "this is"
        return (
            f"{told} {pattern.name}: {pattern.n} characters, all {len(pattern.variant.sentences)} "
            f"lines; tone {tone.fixed_fit}/{tone.fixed_n} ({tone.definite_fit}/{tone.definite_n} "
            f"with one reading), rhyme {rhymes.n_kept}/{rhymes.n}"
        )

    def identify(self, text: CiText, sounds: Sounds) -> Pattern | None:
        """Of all forms of all tunes the one that fits best; None where none has the lines.

        Among forms with the same lines tones and rhymes decide.
        """
        same = self.by_length.get(len(text), [])
        fits = Pattern.fits_uncut if text.is_uncut else Pattern.fits
        found = [pattern for pattern in same if fits(pattern, text)]
        if len(found) < 2:
            return found[0] if found else None
        return max(found, key=lambda pattern: self._likeness(pattern, text, sounds))

    def _likeness(self, pattern: Pattern, text: CiText, sounds: Sounds) -> tuple[int, bool]:
        """Fixed characters and rhymes that fit, less PENALTY times those that do not."""
        wrong = pattern.misfits(sounds).bit_count()
        rhymes = check_rhymes(text.characters, pattern.rhymes, self.tones)
        right = pattern.fixed.bit_count() - wrong + rhymes.n_kept
        wrong += rhymes.n - rhymes.n_kept
        return right - PENALTY * wrong, pattern.fits_strictly(text)


def text_slips(text: CiText, nearest: Nearest) -> bool:
    """Is there a character or two too few or too many, and little else amiss?"""
    return len(text) != nearest.pattern.n and nearest.distance <= SLIP


def _doubts(verdict: Verdict) -> Iterator[str]:
    """Why a tune that was guessed may be the wrong one."""
    tone = verdict.tone.definite_share if verdict.tone else None
    rhyme = verdict.rhymes.share if verdict.rhymes else None
    compared = ("tones", tone, FITTING_TONES), ("rhymes", rhyme, FITTING_RHYMES)
    wrong = [
        f"{share:.0%} of {what}"
        for what, share, enough in compared
        if share is not None and share < enough
    ]
    if wrong:
        yield f"a weak guess, only {' and '.join(wrong)} fit: name the cipai if you know it"


def shi_shape(text: CiText) -> str | None:
    """Four or eight lines of five or seven characters, as a regular shi has them; else None."""
    units = text.units
    if text.is_uncut or len(units) not in (4, 8) or set(units) not in ({5}, {7}):
        return None
    return f"{len(units)} of {units[0]} characters"


def _remarks(text: CiText, pattern: Pattern, patterns: Sequence[Pattern]) -> list[str]:
    """What is worth a word in a ci whose structure is whole."""
    remarks: list[str] = []
    if text.is_uncut:
        remarks.append(f"the text has no line breaks; it was cut by the form {pattern.name}")
    elif pattern.caesuras & ~(text.hard | text.soft):
        remarks.append("a caesura (读) of the form is unmarked: kept only with 读 optional")
    breaks = _stanza_breaks(pattern.variant)
    if text.stanzas and breaks and text.stanzas != breaks:
        has, wanted = (
            " and ".join(map(str, lengths(stanzas | 1 << pattern.n)))
            for stanzas in (text.stanzas, breaks)
        )
        remarks.append(f"stanzas of {has} characters, {wanted} in the form")
    return remarks + _unrepeated(text, pattern, patterns)


def _stanza_breaks(variant: Variant) -> int:
    position = breaks = 0
    for line in variant.lines[:-1]:
        position += len(line.tones)
        breaks |= line.closes_stanza << position
    return breaks


def _unrepeated(text: CiText, pattern: Pattern, patterns: Sequence[Pattern]) -> list[str]:
    """Lines that the form repeats (叠) and the text does not: a remark, not an error."""
    remarks: list[str] = []
    variant = pattern.variant
    ends = [0, *accumulate(variant.lengths)]
    number = 0
    for k, line in enumerate(variant.lines):
        number += line.end != "读"
        this = text.characters[ends[k] : ends[k + 1]]
        if not line.repeats or this == text.characters[ends[k - 1] : ends[k]]:
            continue
        free = [
            other.name
            for other in patterns
            if other.variant.lengths == variant.lengths and not other.variant.lines[k].repeats
        ]
        also = f"; {free[0]} does not ask it" if free else ""
        remarks.append(f"line {number} repeats line {number - 1} in {pattern.name}{also}")
    return remarks
