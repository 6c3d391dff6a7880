"""AIGenPoetry's tables and figures of the poems themselves: Tables 1, 8, 9, A.3, A.4 and 6.1.

The human poems stand beside each LLM's, and what the paper prints beside both. Nothing
here needs a model: lengths, words and asked counts are read off the poems.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from shiyan.config import PathsParams
from shiyan.errors import UserError
from shiyan.families import family_of
from shiyan.jsonl import read_records
from shiyan.metrics import Estimate, mean_estimate
from shiyan.records import Poem
from shiyan.report.documents import Document, metrics_of, packaged
from shiyan.report.statistics import by_source, length_statistics
from shiyan.report.table import Cell, Table, estimate
from shiyan.report.words import Words, emotion_lists, not_nouns, segmenter, words_of
from shiyan.splits import prompt_order, subset_name

Sources = Mapping[str, Sequence[Poem]]

PAPER = "AIGenPoetry"
SHOWN = 8
"""Nouns a source, as in Table 9."""
RESAMPLES, SEED = 1000, 0
UNITS = {
    "stanzas": "stanzas",
    "lines_with_title_and_blanks": "lines",
    "characters": "words",
}
"""Our length -> the paper's column that it stands under."""
OTHER_READINGS = {"lines": "body lines", "symbols": "symbols"}
LENGTH_NOTES = (
    "Lines count the title and the blank lines between stanzas (AIGenPoetry, Table 8); body "
    "lines are the non-empty lines without the title.",
    "Characters are the Han characters of the body, symbols its visible characters, "
    "punctuation too; the paper says words, and both are readings of it.",
)


def tables(paths: PathsParams) -> Iterator[Table]:
    """Every table for which there are poems.

    Raises:
        UserError: collect has not run.
    """
    sources = by_source(poems_of(paths))
    modern = any(poem.genre == "modern" for poems in sources.values() for poem in poems)
    words = {name: words_of(poems) for name, poems in sources.items()}
    yield table_1(sources, modern)
    yield table_8(sources, modern)
    yield other_readings(sources)
    yield table_9(sources, words, modern)
    yield emotions(sources, words, modern)
    kept = kept_counts(paths)
    if kept is not None:
        yield kept


def figures(paths: PathsParams, folder: Path) -> Iterator[Path]:
    """Figures 2-16 with their counts as CSV, and the nouns of Table 9 as bars."""
    from shiyan.report.poem_figures import length_figures, noun_figure

    sources = by_source(poems_of(paths))
    yield from length_figures(sources, folder)
    yield from noun_figure({name: words_of(poems) for name, poems in sources.items()}, folder)


def poems_of(paths: PathsParams) -> list[Poem]:
    """The human poems, and the LLMs' where generate has run."""
    if not paths.poems.exists():
        raise UserError(
            f"{paths.poems} does not exist; the stage collect writes it, so run "
            "`dvc repro collect` first"
        )
    there = [path for path in (paths.poems, paths.generated) if path.exists()]
    return [poem for path in there for poem in read_records(path, Poem)]


def published() -> Document:
    """The paper's Tables 1, 8 and 9."""
    return packaged("published/aigenpoetry_poems.json")


def printed(table: str, sources: Sources, modern: bool) -> Iterator[tuple[str, Any]]:
    """(name, the paper's own numbers): its human poems, and those LLMs that wrote here too.

    None beside ci, of which the paper has not one.
    """
    for source, numbers in published()[table].items():
        if modern and (source == "human" or source in sources):
            yield f"{PAPER}: {published()['names'][source]}", numbers


# --- lengths ------------------------------------------------------------------------


def table_1(sources: Sources, modern: bool) -> Table:
    """Totals."""
    columns = ("source", "poems", "stanzas", "lines", "body lines", "characters", "symbols")
    rows: list[Sequence[Cell]] = []
    for name, poems in sources.items():
        total = length_statistics(poems)["total"]
        units = ("stanzas", "lines_with_title_and_blanks", "lines", "characters", "symbols")
        rows.append((name, len(poems), *(total[unit] for unit in units)))
    for name, told in printed("table_1", sources, modern):
        rows.append(
            (name, told["poems"], told["stanzas"], told["lines"], None, told["words"], None)
        )
    return Table(
        name="table_1",
        caption="Poems, stanzas, lines and characters in all (AIGenPoetry, Table 1)",
        columns=columns,
        rows=rows,
        notes=LENGTH_NOTES,
    )


def table_8(sources: Sources, modern: bool) -> Table:
    """Means, and the shares of poems above and below them."""
    rows: list[Sequence[Cell]] = [
        (name, len(poems), *_means(poems, UNITS)) for name, poems in sources.items()
    ]
    for name, told in printed("table_8", sources, modern):
        rows.append((name, None, *(number for unit in UNITS.values() for number in told[unit])))
    return _means_table(
        "table_8",
        "How long a poem is: means, and percent of the poems above and below the mean "
        "(AIGenPoetry, Table 8)",
        ("stanzas", "lines", "characters"),
        rows,
    )


def other_readings(sources: Sources) -> Table:
    """The same by the other readings of a line and a word."""
    return _means_table(
        "table_8_other_readings",
        "Table 8 by the other readings of a line and of a word",
        tuple(OTHER_READINGS.values()),
        [
            (name, len(poems), *_means(poems, OTHER_READINGS), *_per_line(poems))
            for name, poems in sources.items()
        ],
        ("characters a body line",),
    )


def _means_table(
    name: str,
    caption: str,
    units: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    more: Sequence[str] = (),
) -> Table:
    columns = [c for unit in units for c in (unit, f"{unit} > mean, %", f"{unit} < mean, %")]
    return Table(
        name=name,
        caption=caption,
        columns=("source", "poems", *columns, *more),
        rows=rows,
        notes=(*LENGTH_NOTES, "[95 % interval of the mean], 1.96 standard errors over poems."),
        estimates=units,
    )


def _means(poems: Sequence[Poem], units: Mapping[str, str]) -> Iterator[Cell]:
    found = length_statistics(poems)
    for unit in units:
        yield estimate(found["mean"][unit])
        yield found["percent_above_mean"][unit]
        yield found["percent_below_mean"][unit]


def _per_line(poems: Sequence[Poem]) -> tuple[float | None]:
    """Characters of all bodies over their lines; the paper has no such number."""
    total = length_statistics(poems)["total"]
    return (total["characters"] / total["lines"] if total["lines"] else None,)


# --- words --------------------------------------------------------------------------


def table_9(sources: Sources, words: Mapping[str, Words], modern: bool) -> Table:
    """The most frequent nouns, a source a pair of columns."""
    lists = {name: found.most_frequent(SHOWN) for name, found in words.items()}
    lists |= {
        name: [(str(noun), int(times)) for noun, times in nouns]
        for name, nouns in printed("table_9", sources, modern)
    }
    rows = [
        (rank, *(cell for pair in pairs for cell in (pair or (None, None))))
        for rank, pairs in enumerate(zip_longest(*lists.values()), start=1)
    ]
    counted = "; ".join(
        f"{name} {sum(words[name].nouns.values())} nouns in {len(poems)} poems"
        for name, poems in sources.items()
    )
    notes = [
        f"Words and parts of speech by {segmenter()}: a tag goes by the word, not by what "
        f"stands around it; all tags n… are nouns, names too, but {len(not_nouns())} words that "
        "verse uses otherwise (data/words.json).",
        "Bodies without titles, in simplified characters. What parted the paper's words is not "
        "told.",
        f"Counted: {counted}.",
    ]
    if not modern:
        notes.append("The dictionary is of modern Chinese; in ci it is a rough guide.")
    return Table(
        name="table_9",
        caption="The most frequent nouns and how often they stand there (AIGenPoetry, Table 9)",
        columns=("rank", *(column for name in lists for column in (name, f"{name}, times"))),
        rows=rows,
        notes=notes,
    )


def emotions(sources: Sources, words: Mapping[str, Words], modern: bool) -> Table:
    """Percent of poems that name an emotion; an LLM's also by subset (A.4)."""
    names = tuple(emotion_lists("wide"))
    rows: list[Sequence[Cell]] = []
    for source, poems in sources.items():
        found = words[source]
        subsets: dict[str, list[int]] = {"all": list(range(len(poems)))}
        prompts = {p.generation.prompt_id for p in poems if p.generation}
        for prompt in sorted(prompts, key=prompt_order):
            subsets[subset_name(prompt)] = [
                i for i, p in enumerate(poems) if p.generation and p.generation.prompt_id == prompt
            ]
        for subset, members in subsets.items():
            if subset != "all" and not _is_of_emotion(subset):
                continue
            wide = [found.wide[i] for i in members]
            narrow = [found.narrow[i] for i in members]
            groups = [family_of(poems[i]) for i in members]
            rows.append(
                (
                    source,
                    subset,
                    len(members),
                    _share([bool(there) for there in wide], groups),
                    _share([bool(there) for there in narrow], groups),
                    *(_share([name in there for there in wide], groups) for name in names),
                )
            )
    asked = "; ".join(f"{n} {' '.join(sorted(own))}" for n, own in emotion_lists("narrow").items())
    size = ", ".join(f"{n} {len(own)}" for n, own in emotion_lists("wide").items())
    notes = [
        "Percent of the poems in whose body a word of the list stands [95 % interval, bootstrap "
        "over human poems with their imitations], none where all or none do. A denied word counts "
        "too, and one of a single character inside a phrase (悲声).",
        f"The paper prints no list. Ours (data/words.json; words: {size}) names the four "
        f"emotions that P10 … P13 ask for; the narrow one holds only the prompts' own: {asked}.",
        f"Words by {segmenter()}. D9 asks for no emotion, D10 joy, D11 sadness, D12 anger, "
        "D13 fear; D1 names the title alone.",
    ]
    if not modern:
        notes.append("The list is of modern Chinese; ci say more by other words.")
    return Table(
        name="emotions",
        caption="Poems that name an emotion, percent (AIGenPoetry, A.4)",
        columns=("source", "subset", "poems", "any", "any, narrow list", *names),
        rows=rows,
        notes=notes,
        estimates=("any", "any, narrow list", *names),
        digits=1,
    )


def _is_of_emotion(subset: str) -> bool:
    """D1 as the baseline, D9 without an emotion, D10 … D13 with one."""
    return subset in ("D1", "D9", "D10", "D11", "D12", "D13")


def _share(hits: Sequence[bool], groups: Sequence[str]) -> Estimate:
    """Percent of hits, with its interval."""
    share = mean_estimate(
        [float(hit) for hit in hits], groups, resamples=RESAMPLES, seed=SEED, kind="share"
    )
    value, low, high = (x and 100 * x for x in (share.value, share.low, share.high))
    return replace(share, value=value, low=low, high=high)


# --- asked counts -------------------------------------------------------------------


def kept_counts(paths: PathsParams) -> Table | None:
    """How well asked numbers of stanzas and lines were kept; None where none was asked."""
    found = metrics_of(paths.generate_metrics)
    if found is None:
        return None
    structure = found["structure"]
    rows: list[Sequence[Cell]] = []
    for generator, prompts in structure.items():
        for prompt, cell in prompts.items():
            for unit in ("stanzas", "lines"):
                kept = estimate(cell.get(f"{unit}_kept"))
                if kept is not None:
                    difference = estimate(cell[f"{unit}_difference"])
                    rows.append(
                        (
                            generator,
                            prompt,
                            unit,
                            kept.n,
                            kept.n_unscored,
                            _percent(kept),
                            difference,
                        )
                    )
    if not rows:
        return None
    return Table(
        name="kept_counts",
        caption="How well asked numbers of stanzas and lines were kept (AIGenPoetry, section 6.1)",
        columns=(
            "generator",
            "prompt",
            "asked for",
            "poems",
            "missing",
            "exactly so many, %",
            "more than asked, mean",
        ),
        rows=rows,
        notes=(
            "P6 asks for the human poem's number of stanzas, P7 of lines, P8 of both; lines are "
            "non-empty body lines. [95 % interval, bootstrap over human poems].",
            "The paper gives no table: GLM-4 kept P6 exactly, and under P7 all four LLMs wrote 1 "
            "to 3 lines more.",
        ),
        estimates=("exactly so many, %", "more than asked, mean"),
    )


def _percent(share: Estimate) -> Estimate:
    value, low, high = (
        None if part is None else 100 * part for part in (share.value, share.low, share.high)
    )
    return Estimate(value, low, high, share.n, share.n_unscored, share.reason)
