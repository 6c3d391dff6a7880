"""AIGenPoetry's Figures 2-16, human beside each LLM, and Table 9 as a picture."""

import csv
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from textwrap import wrap
from typing import Any

from shiyan.jsonl import replacing
from shiyan.records import Poem
from shiyan.report.figures import NO_FONT
from shiyan.report.fonts import Labels, chosen_font
from shiyan.report.statistics import Distributions, distributions
from shiyan.report.words import Words

Drawing = Callable[[Any, Labels], None]
Counts = Mapping[str, Counter[int]]
"""Source -> length -> how many poems (or stanzas) have it."""

HUMAN_COLOUR, LLM_COLOUR = "0.35", "tab:orange"
NOUNS = 12
"""Nouns a source in the picture."""
NAME_WIDTH = 36
"""Letters of a source's name that a panel's title has room for in one line."""
SEEN = 0.98
"""Share of each source's poems that have a bar of their own; the last bar holds the rest."""


@dataclass(frozen=True)
class Said:
    """What a figure is of."""

    title: str
    counted: str
    across: str


SAID = {
    "stanzas_per_poem": Said("Stanzas per poem (AIGenPoetry, Figures 2-6)", "poems", "stanzas"),
    "lines_per_poem": Said(
        "Lines per poem (AIGenPoetry, Figures 7-11)",
        "poems",
        "lines, title and blank lines among them",
    ),
    "lines_per_stanza": Said("Lines per stanza (AIGenPoetry, Figures 12-16)", "stanzas", "lines"),
}


def length_figures(sources: Mapping[str, Sequence[Poem]], folder: Path) -> Iterator[Path]:
    """For each of the three lengths a picture, and the counts behind it as CSV."""
    found = {name: distributions(poems) for name, poems in sources.items()}
    for field in fields(Distributions):
        counts: Counts = {name: getattr(own, field.name) for name, own in found.items()}
        yield write_counts(folder / f"{field.name}.csv", counts)
        drawing = partial(_lengths, counts=counts, said=SAID[field.name])
        yield draw(folder / f"{field.name}.png", drawing)


def write_counts(path: Path, counts: Counts) -> Path:
    """source, length, count; every length that there is."""
    with replacing(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("source", "length", "count"))
        for name, own in counts.items():
            writer.writerows((name, length, own[length]) for length in sorted(own))
    return path


def noun_figure(words: Mapping[str, Words], folder: Path) -> Iterator[Path]:
    """The most frequent nouns of each source; none where no source has a noun."""
    found = {name: own for name, own in words.items() if own.nouns}
    if found:
        yield draw(folder / "nouns.png", partial(_nouns, words=found))


def draw(to: Path, drawing: Drawing) -> Path:
    """A picture in a font that shows Chinese; without one names are numbered and it says so."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    font = chosen_font()
    with mpl.rc_context({"font.family": font.families, "axes.unicode_minus": False}):
        figure = Figure(layout="constrained")
        FigureCanvasAgg(figure)
        labels = Labels(font)
        drawing(figure, labels)
        if labels.are_numbered:
            figure.text(0.01, 0.005, NO_FONT, fontsize=7)
        with replacing(to, "wb") as file:
            figure.savefig(file, dpi=130, format="png")
    return to


def _lengths(figure: Any, labels: Labels, counts: Counts, said: Said) -> None:
    """A panel an LLM, the human poems beside it in each; of one source alone, its own."""
    others = [name for name in counts if name != "human"]
    human = ["human"] if "human" in counts else []
    panels = [[*human, name] for name in others] or [human]
    cap = max(_seen(own) for own in counts.values())
    figure.set_size_inches(8.4, 0.9 + 2.3 * len(panels))
    axes = figure.subplots(len(panels), 1, squeeze=False, sharex=True, sharey=True)[:, 0]
    for panel, names in zip(axes, panels, strict=True):
        for place, name in enumerate(names):
            _bars(panel, counts[name], cap, place, len(names), name, labels)
        panel.legend(fontsize=8, loc="upper right")
        panel.tick_params(labelsize=8)
        panel.set_ylabel(f"{said.counted}, %", fontsize=8)
    last = axes[-1]
    step = max(1, round(cap / 20 / 5) * 5) if cap > 20 else 1
    ticks = [n for n in range(step, cap + 1, step) if n <= cap or step == 1]
    beyond = any(length > cap for own in counts.values() for length in own)
    if beyond:
        ticks = [n for n in ticks if cap + 1 - n >= max(1, step // 2)]
    more = [f"> {cap}"] if beyond else []
    last.set_xticks([*ticks, *([cap + 1] if beyond else [])], [*map(str, ticks), *more])
    last.set_xlim(0.3, cap + (1.7 if beyond else 0.7))
    last.set_xlabel(said.across, fontsize=9)
    figure.suptitle(said.title, fontsize=10)


def _seen(own: Counter[int]) -> int:
    """The least length that `SEEN` of the items do not exceed; 1 for none."""
    wanted, total = SEEN * own.total(), 0
    for length in sorted(own):
        total += own[length]
        if total >= wanted:
            return max(length, 1)
    return 1


def _bars(
    panel: Any, own: Counter[int], cap: int, place: int, beside: int, name: str, labels: Labels
) -> None:
    held = Counter({length: own[length] for length in own if length <= cap})
    held[cap + 1] = own.total() - held.total()
    width = 0.86 / beside
    panel.bar(
        [length + (place + 0.5) * width - 0.43 for length in held],
        [100 * count / max(own.total(), 1) for count in held.values()],
        width=width,
        color=HUMAN_COLOUR if name == "human" else LLM_COLOUR,
        label=f"{labels(name)} (n = {own.total()})",
    )


def _nouns(figure: Any, labels: Labels, words: Mapping[str, Words]) -> None:
    """Bars of one scale, a panel a source."""
    columns = 2 if len(words) == 4 else min(3, len(words))
    lines = -(-len(words) // columns)
    figure.set_size_inches(2.7 * columns + 0.4, 3.2 * lines + 0.6)
    axes = figure.subplots(lines, columns, squeeze=False, sharex=True)
    for panel in axes.flat[len(words) :]:
        panel.set_visible(False)
    for panel, (name, own) in zip(axes.flat, words.items(), strict=False):
        nouns = own.most_frequent(NOUNS)
        total = own.nouns.total()
        panel.barh(
            range(len(nouns)),
            [1000 * times / total for _, times in nouns],
            color=HUMAN_COLOUR if name == "human" else LLM_COLOUR,
        )
        panel.set_yticks(range(len(nouns)), [labels(noun) for noun, _ in nouns], fontsize=10)
        panel.set_ylim(NOUNS - 0.5, -0.5)
        wrapped = "\n".join(wrap(labels(name), NAME_WIDTH))
        panel.set_title(f"{wrapped}\n{total} nouns", fontsize=9)
        panel.tick_params(axis="x", labelsize=8, labelbottom=True)
    figure.supxlabel("times in a thousand nouns", fontsize=9)
