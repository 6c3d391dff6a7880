"""How long poems are: AIGenPoetry's Tables 1 and 8 and the counts behind Figures 2-16."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from shiyan import poem as parser
from shiyan.metrics import Estimate
from shiyan.poem import Counts
from shiyan.records import Poem

LENGTHS = tuple(field.name for field in fields(Counts))
MADE = {
    "lines": "non-empty lines of the body",
    "lines_with_title_and_blanks": "as AIGenPoetry, Table 8 and Figures 7-11",
    "characters": "Han characters of the body",
    "symbols": "all visible characters of the body, punctuation too",
    "mean_interval": "95 %, 1.96 standard errors over poems",
}


@dataclass(frozen=True)
class Distributions:
    """How many poems (or stanzas) have a length; length -> count."""

    stanzas_per_poem: Counter[int]
    """Figures 2-6."""
    lines_per_poem: Counter[int]
    """With the title and the blank lines; Figures 7-11."""
    lines_per_stanza: Counter[int]
    """Figures 12-16."""


def by_source(poems: Iterable[Poem]) -> dict[str, list[Poem]]:
    """`human` first, then each generator by name; a source without poems is absent."""
    sources: dict[str, list[Poem]] = {"human": []}
    for poem in poems:
        name = poem.generation.generator if poem.generation else "human"
        sources.setdefault(name, []).append(poem)
    human = sources.pop("human")
    return ({"human": human} if human else {}) | dict(sorted(sources.items()))


def length_statistics(poems: Sequence[Poem]) -> dict[str, Any]:
    """Totals (Table 1) and means with the shares of poems above and below (Table 8).

    Shares are percentages of the poems; a poem of just the mean is in neither.
    """
    counted = [parser.counts(poem.title, poem.text) for poem in poems]
    columns = {name: [getattr(c, name) for c in counted] for name in LENGTHS}
    means = {name: _mean(values) for name, values in columns.items()}
    return {
        "poems": len(poems),
        "total": {name: sum(values) for name, values in columns.items()},
        "mean": {name: mean.as_dict() for name, mean in means.items()},
        "percent_above_mean": {n: _share(columns[n], means[n], 1) for n in LENGTHS},
        "percent_below_mean": {n: _share(columns[n], means[n], -1) for n in LENGTHS},
    }


def _mean(values: Sequence[int]) -> Estimate:
    n = len(values)
    if not n:
        return Estimate(None, None, None, 0, 0, "no poem")
    mean = sum(values) / n
    if n == 1:
        return Estimate(mean, None, None, 1, 0, "no interval from 1 poem")
    half = 1.96 * math.sqrt(sum((v - mean) ** 2 for v in values) / (n - 1) / n)
    return Estimate(mean, mean - half, mean + half, n)


def _share(values: Sequence[int], mean: Estimate, sign: int) -> float | None:
    if mean.value is None:
        return None
    return 100 * sum(sign * (v - mean.value) > 0 for v in values) / len(values)


def distributions(poems: Iterable[Poem]) -> Distributions:
    """The counts behind the paper's Figures 2-16."""
    found = Distributions(Counter(), Counter(), Counter())
    for poem in poems:
        stanzas = parser.stanzas(poem.text)
        counts = parser.counts(poem.title, poem.text)
        found.stanzas_per_poem[len(stanzas)] += 1
        found.lines_per_poem[counts.lines_with_title_and_blanks] += 1
        found.lines_per_stanza.update(map(len, stanzas))
    return found
