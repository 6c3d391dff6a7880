"""The form that a broken ci comes closest to, and what would have to change."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from shiyan.ci.align import MAX_UNITS, Alignment, Step, align
from shiyan.ci.form import Cipai
from shiyan.ci.pattern import Pattern
from shiyan.ci.reading import CiText, lengths
from shiyan.ci.rhyme import Place, Rhymes, check_rhymes
from shiyan.ci.tones import Sounds, ToneTable

MAX_GAP = 12
"""Characters by which two pieces may differ for their tones to be compared."""
KEPT_SHAPES = 20_000
MOST_EDITS = 6
"""Distance up to which a form is worth naming to a ci whose tune nobody has named."""
MOST_GUESSES = 200
"""Forms of all tunes that such a ci is compared with at most."""


@dataclass(frozen=True)
class Nearest:
    """The closest form.

    Attributes:
        distance: characters too few or too many by line, breaks to set or take away.
        edits: what differs, for a person.
        kinds: what differs, by name (records.NearestForm).
        tonal: share of fitting tones over the lines that answer to each other; what is
            missing or too many does not fit. None where they are too far apart.
        rhymes: of the lines that answer to each other.
        steps: which lines those are; none where the two are too far apart.
    """

    pattern: Pattern
    distance: int
    edits: tuple[str, ...]
    kinds: tuple[str, ...]
    tonal: float | None
    rhymes: Rhymes
    steps: tuple[Step, ...] = ()


class NearestForms:
    """Finds nearest forms; poems of one shape are compared once.

    Attributes:
        n_compared: how many comparisons of lines it has made in all.
    """

    def __init__(self, tones: ToneTable) -> None:
        self.n_compared = 0
        self._tones = tones
        self._shapes: dict[tuple[str, int, int], tuple[Pattern, Alignment]] = {}

    def find(
        self, text: CiText, sounds: Sounds, tune: Cipai, patterns: Sequence[Pattern]
    ) -> Nearest | None:
        """The nearest of a tune's forms; None for a text that is too long to compare."""
        longest = max(pattern.n for pattern in patterns)
        if len(text.units) > MAX_UNITS or len(text) > 3 * longest + MAX_GAP:
            return None
        if text.is_uncut:
            return self._by_length(text, sounds, tune, patterns)
        key = (tune.name, text.hard, text.soft)
        if key not in self._shapes:
            if len(self._shapes) >= KEPT_SHAPES:
                self._shapes.clear()
            self._shapes[key] = self._closest(text, tune, patterns)
        return self._told(text, sounds, *self._shapes[key])

    def find_of_all(
        self, text: CiText, sounds: Sounds, patterns: Sequence[Pattern]
    ) -> Nearest | None:
        """The nearest of any tunes' forms, the better in tone of several; None where none is."""
        if len(text.units) > MAX_UNITS or text.is_uncut:
            return None
        breaks = text.hard | text.soft
        soft = _flags(breaks, text.soft)
        limit, nearest = MOST_EDITS, list[Nearest]()

        def unmet(pattern: Pattern) -> int:
            """Breaks that the form has neither counted from the start nor from the end."""
            gap = len(text) - pattern.n
            from_end = pattern.breaks << gap if gap > 0 else pattern.breaks >> -gap
            return abs(gap) + (breaks & ~(pattern.breaks | from_end)).bit_count()

        likely = sorted(patterns, key=unmet)
        for pattern in likely[:MOST_GUESSES]:
            caesura = _flags(pattern.breaks, pattern.caesuras)
            alignment = align(text.units, soft, pattern.variant.lengths, caesura, limit)
            self.n_compared += alignment.n_compared
            if not alignment.steps or not is_close(alignment, pattern):
                continue
            if alignment.distance < limit:
                limit, nearest = alignment.distance, []
            nearest.append(self._told(text, sounds, pattern, alignment))
        return max(nearest, key=lambda found: found.tonal or 0, default=None)

    def _told(
        self, text: CiText, sounds: Sounds, pattern: Pattern, alignment: Alignment
    ) -> Nearest:
        """An alignment with what it means for edits, tones and rhymes."""
        fit = _Fit(text, sounds, pattern)
        places = fit.rhyme_places(alignment.steps) if is_close(alignment, pattern) else []
        return Nearest(
            pattern,
            alignment.distance,
            *edits_of(text, pattern, alignment),
            fit.share(alignment.steps),
            check_rhymes(text.characters, places, self._tones),
            alignment.steps if places else (),
        )

    def _closest(
        self, text: CiText, tune: Cipai, patterns: Sequence[Pattern]
    ) -> tuple[Pattern, Alignment]:
        """The form at the smallest distance; the standard one, else the first, of several."""
        breaks = text.hard | text.soft
        soft = _flags(breaks, text.soft)
        # Forms of the same lines are at the same distance: the first stands for all of them.
        first: dict[tuple[int, int], tuple[bool, int, Pattern]] = {}
        for index, pattern in enumerate(patterns):
            key = (pattern.required, pattern.caesuras)
            rank = (pattern.variant is not tune.standard, index, pattern)
            if key not in first or rank[:2] < first[key][:2]:
                first[key] = rank
        # Likely forms are compared first, so that the others are given up early.
        order = sorted(
            first.values(),
            key=lambda r: (abs(r[2].n - len(text)), (breaks ^ r[2].breaks).bit_count()),
        )
        best: tuple[int, bool, int] | None = None
        found: list[tuple[Pattern, Alignment]] = []
        for later, index, pattern in order:
            limit = best[0] if best else None
            if limit is not None and abs(pattern.n - len(text)) > limit:
                continue
            caesura = _flags(pattern.breaks, pattern.caesuras)
            alignment = align(text.units, soft, pattern.variant.lengths, caesura, limit)
            self.n_compared += alignment.n_compared
            place = (alignment.distance, later, index)
            if alignment.steps and (best is None or place < best):
                best = place
                found.append((pattern, alignment))
        return found[-1]

    def _by_length(
        self, text: CiText, sounds: Sounds, tune: Cipai, patterns: Sequence[Pattern]
    ) -> Nearest:
        """For a text without line breaks only the number of characters can be compared."""
        standard = tune.standard
        pattern = min(patterns, key=lambda p: (abs(p.n - len(text)), p.variant is not standard))
        self.n_compared += len(patterns)
        if len(text) == pattern.n:
            edit = "its breaks stand inside lines of the form"
        else:
            edit = (
                f"{len(text)} characters without line breaks, {pattern.n} wanted: the lengths "
                "alone cannot tell in which line the difference is"
            )
        fit = _Fit(text, sounds, pattern).between(0, len(text), 0, pattern.n)
        tonal = None if fit is None else fit / max(len(text), pattern.n)
        distance = max(1, abs(pattern.n - len(text)))
        kinds = ("not_cut_into_lines",)
        return Nearest(pattern, distance, (edit,), kinds, tonal, Rhymes(()))


def _flags(breaks: int, marked: int) -> tuple[bool, ...]:
    """For each break of a set in order: is it among `marked`?"""
    flags: list[bool] = []
    while breaks:
        lowest = breaks & -breaks
        flags.append(bool(lowest & marked))
        breaks ^= lowest
    return tuple(flags)


class _Fit:
    """Tones and rhymes of a text over its alignment with a form."""

    def __init__(self, text: CiText, sounds: Sounds, pattern: Pattern) -> None:
        self.sounds, self.pattern = sounds, pattern
        self.text_ends = [0, *accumulate(text.units)]
        self.form_ends = [0, *accumulate(pattern.variant.lengths)]

    def share(self, steps: Iterable[Step]) -> float | None:
        """Characters that fit, of all that the form wants and all that are too many."""
        fit = surplus = 0
        for step in steps:
            start, end, first, last = self.spans(step)
            fitting = self.between(start, end, first, last)
            if fitting is None:
                return None
            fit += fitting
            surplus += max(0, (end - start) - (last - first))
        return fit / (self.pattern.n + surplus)

    def spans(self, step: Step) -> tuple[int, int, int, int]:
        """From and to which character of the text, and of the form."""
        a, b = self.text_ends, self.form_ends
        return a[step.text], a[step.text + step.taken], b[step.form], b[step.form + step.wanted]

    def between(self, start: int, end: int, first: int, last: int) -> int | None:
        """Characters of two pieces that fit; where one is longer, with the best gaps.

        None where they differ by more than MAX_GAP characters and neither is empty.
        """
        taken, wanted = end - start, last - first
        gap = abs(taken - wanted)
        if not taken or not wanted:
            return 0
        if gap > MAX_GAP:
            return None
        # best[d]: the most that fit so far, d characters of the longer piece passed over.
        best = [0] * (gap + 1)
        for k in range(min(taken, wanted)):
            for d in range(gap + 1):
                ahead, behind = (k + d, k) if taken > wanted else (k, k + d)
                best[d] += self.pattern.wants(first + behind, self.sounds, start + ahead)
                if d:
                    best[d] = max(best[d], best[d - 1])
        return best[gap]

    def rhyme_places(self, steps: Iterable[Step]) -> list[tuple[str, list[Place]]]:
        """The rhyme groups, at the ends of the text's lines that answer to rhyming ones."""
        moved: dict[int, int] = {}
        for step in steps:
            start, end, _, last = self.spans(step)
            if end > start and step.wanted:
                moved[last - 1] = end - 1
        return [
            (group, [(moved[place], tone) for place, tone in places if place in moved])
            for group, places in self.pattern.rhymes
        ]


def is_close(alignment: Alignment, pattern: Pattern) -> bool:
    """Would at most a third of the form have to change? Else no line answers to another."""
    return alignment.distance <= pattern.n // 3


def edits_of(
    text: CiText, pattern: Pattern, alignment: Alignment
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What differs, in words and by kind: lines are the form's, with a caesura inside them.

    Where they are not close, only the sizes are told.
    """
    sentences = pattern.variant.sentences
    if not is_close(alignment, pattern):
        words = (
            f"{len(text)} characters in {len(lengths(text.hard))} lines, {pattern.n} in "
            f"{len(sentences)} wanted: too far apart to compare line by line"
        )
        return (words,), ("too_far",)
    told = _Told(text, pattern)
    for step in alignment.steps:
        told.step(step)
    return told.edits()


class _Told:
    """Gathers, line by line, what an alignment says."""

    def __init__(self, text: CiText, pattern: Pattern) -> None:
        self.units = text.units
        self.wanted = pattern.variant.lengths
        self.parts = [tuple(len(p.tones) for p in s) for s in pattern.variant.sentences]
        self.line_of = [k for k, parts in enumerate(self.parts) for _ in parts]
        self.got = [0] * len(self.parts)
        self.absent = [0] * len(self.parts)
        self.pieces: list[list[int]] = [[] for _ in self.parts]
        """Lengths of the text's pieces that answer to each line's parts."""
        self.off = [0] * len(self.parts)
        """Characters by which they differ from those parts, one part at a time."""
        self.soft = _flags(text.hard | text.soft, text.soft)
        self.said: list[tuple[int, str, str]] = []
        """(line of the form, kind, words)."""

    def step(self, step: Step) -> None:
        """Take in one step of the alignment."""
        taken = self.units[step.text : step.text + step.taken]
        line = self.line_of[min(step.form, len(self.line_of) - 1)]
        if step.kind == "extra":
            place = f"before line {line + 1}" if step.form < len(self.line_of) else "at the end"
            words = f"a line of {taken[0]} too many {place}"
            self.said.append((line, "line_too_many", words))
        elif step.kind == "missing":
            self.absent[line] += 1
        elif step.kind == "join" and (other := self.line_of[step.form + 1]) != line:
            wanted = self.wanted[step.form : step.form + 2]
            words = f"lines {line + 1} and {other + 1} run together"
            if taken[0] != sum(wanted):
                words += f", with {taken[0]} characters, {sum(wanted)} wanted"
            self.said.append((line, "lines_run_together", words))
            # Their lengths have been spoken of as a whole.
            self.got[line] += wanted[0]
            self.got[other] += wanted[1]
        else:
            self.got[line] += sum(taken)
            self.pieces[line] += taken
            wanted = self.wanted[step.form : step.form + step.wanted]
            self.off[line] += abs(sum(taken) - sum(wanted))
            if step.kind == "split" and not self.soft[step.text]:
                pieces = "+".join(map(str, taken))
                words = f"line {line + 1} is broken in two ({pieces})"
                self.said.append((line, "line_broken_in_two", words))

    def edits(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Everything said, in the order of the form's lines, and each kind once."""
        gone = [k for k, parts in enumerate(self.parts) if self.absent[k] == len(parts)]
        for k, parts in enumerate(self.parts):
            if k not in gone and self.got[k] != sum(parts):
                split = f" ({'、'.join(map(str, parts))})" if len(parts) > 1 else ""
                has = f"{self.got[k]} character{'s' * (self.got[k] != 1)}"
                words = f"line {k + 1} has {has}, {sum(parts)} wanted{split}"
                self.said.append((k, "line_length", words))
            if self.off[k] > abs(self.got[k] - sum(parts)) and not self.absent[k]:
                pieces, cut = "+".join(map(str, self.pieces[k])), "+".join(map(str, parts))
                words = f"line {k + 1} is cut {pieces}, {cut} wanted"
                self.said.append((k, "line_broken_in_two", words))
        for first, last in _runs(gone):
            which = f"line {first + 1}" if first == last else f"lines {first + 1}-{last + 1}"
            self.said.append((first, "line_missing", f"{which} missing"))
        self.said.sort(key=lambda entry: entry[0])
        kinds = sorted({kind for _, kind, _ in self.said})
        return tuple(words for _, _, words in self.said), tuple(kinds)


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Consecutive numbers as (first, last)."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = runs[-1][0], number
        else:
            runs.append((number, number))
    return runs
