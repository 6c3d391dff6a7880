"""A verdict line by line: what every character should sound like, and does."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise

from shiyan.ci.check import Verdict
from shiyan.ci.form import Line
from shiyan.ci.tones import ToneTable


@dataclass(frozen=True)
class Cell:
    """A character, the tone its place wants (平, 仄, 中) and the tone it has.

    `has` is the tone that fits for a polyphone, 入 for an entering tone, ？ where no
    book has the character. `mark` is ! where it breaks the form, ~ for a polyphone.
    """

    character: str
    wants: str
    has: str
    mark: str = ""


@dataclass(frozen=True)
class ShownLine:
    """One line of the form and what of the text answers to it.

    Attributes:
        number: from 1.
        parts: its characters; more than one part where a caesura (读) stands.
        end: 句, or 韵 with the group's name, and ! where the rhyme is broken.
        note: what is wrong with its length, or "".
        closes_stanza: a stanza ends here.
    """

    number: int
    parts: tuple[tuple[Cell, ...], ...]
    end: str
    note: str = ""
    closes_stanza: bool = False

    @property
    def text(self) -> str:
        return "、".join("".join(cell.character for cell in part) for part in self.parts)


def shown_lines(verdict: Verdict, tones: ToneTable) -> list[ShownLine]:
    """The lines of the form that a ci keeps, or comes close to; none without either."""
    pattern = verdict.measured
    spans = _spans(verdict)
    if pattern is None or not spans:
        return []
    broken = _broken_rhymes(verdict)
    lines: list[ShownLine] = []
    unit = 0
    for number, sentence in enumerate(pattern.variant.sentences, start=1):
        parts: list[tuple[Cell, ...]] = []
        got = wanted = 0
        for line in sentence:
            start, end = spans[unit]
            parts.append(tuple(_cells(verdict, line, start, end, tones)))
            got, wanted, unit = got + end - start, wanted + len(line.tones), unit + 1
        last = sentence[-1]
        end_name = f"韵{last.group}{'叶' * last.crosses}" if last.group else last.end
        if last.group and spans[unit - 1][1] - 1 in broken:
            end_name += "!"
        note = "" if got == wanted else f"{got} of {wanted} characters" if got else "missing"
        lines.append(ShownLine(number, tuple(parts), end_name, note, last.closes_stanza))
    return lines


def _spans(verdict: Verdict) -> list[tuple[int, int]]:
    """For each line of the form, caesuras counted, from and to which character of the text."""
    pattern, nearest, text = verdict.pattern, verdict.nearest, verdict.text
    if pattern is not None:
        ends = [0, *accumulate(pattern.variant.lengths)]
        return list(pairwise(ends))
    if nearest is None or not nearest.steps:
        return []
    ends = [0, *accumulate(text.units)]
    wanted = nearest.pattern.variant.lengths
    spans: list[tuple[int, int]] = []
    for step in nearest.steps:
        start, end = ends[step.text], ends[step.text + step.taken]
        if step.kind == "join":
            middle = min(start + wanted[step.form], end)
            spans += [(start, middle), (middle, end)]
        elif step.kind != "extra":
            spans.append((start, end))
    return spans


def _cells(verdict: Verdict, line: Line, start: int, end: int, tones: ToneTable) -> Iterator[Cell]:
    """Cells of one line; tones are compared only where its length is right."""
    compared = end - start == len(line.tones)
    for index in range(start, end):
        character = verdict.text.characters[index]
        wants = line.tones[index - start] if compared else ""
        name = tones.name(character)
        level, oblique = verdict.sounds.level >> index & 1, verdict.sounds.oblique >> index & 1
        if name == "?":
            yield Cell(character, wants, "？")
        elif level and oblique:
            yield Cell(character, wants, wants if wants in ("平", "仄") else "多", "~")
        else:
            fits = wants in ("", "中") or (level if wants == "平" else oblique)
            yield Cell(character, wants, name, "" if fits else "!")


def _broken_rhymes(verdict: Verdict) -> set[int]:
    groups = verdict.rhymes.groups if verdict.rhymes else ()
    return {
        place
        for group in groups
        for place, kept in zip(group.places, group.kept, strict=True)
        if kept is False
    }
