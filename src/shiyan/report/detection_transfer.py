"""Learnt from one thing, tested on another: Tables 4-6, generators and poets left out."""

from collections.abc import Iterator, Sequence

import numpy as np

from shiyan.detectors.grid import Grid
from shiyan.detectors.metrics import Cell as ScoredCell
from shiyan.detectors.metrics import Threshold, lacks
from shiyan.detectors.protocol import EVERYBODY, Setting
from shiyan.metrics import Draws, Estimate
from shiyan.report.detection_cells import (
    BESIDE,
    COUNTS,
    EACH,
    THRESHOLD,
    TITLES,
    counts,
    generators,
    in_percent,
    notes,
    number,
    threshold_from,
)
from shiyan.report.published import published
from shiyan.report.table import Cell, Table

HARD = TITLES["auroc_from_labels"]


def _transferred(
    grid: Grid,
    name: str,
    caption: str,
    settings: Sequence[Setting],
    table: int | None = None,
    *further: str,
) -> Table:
    """A row a setting and detector that has scores for it."""
    rows: list[list[Cell]] = []
    left_out: dict[str, None] = {}
    by_generator = table == 6
    for setting in settings:
        for detector in grid.detectors:
            cell = grid.cell(detector, setting)
            if cell is None:
                left_out[detector] = None
                continue
            pair = setting.trained_on, setting.tested_on
            theirs = (
                [published(table, "macro_f1", *pair, setting.generator, detector)] if table else []
            )
            rows.append(
                [
                    *([setting.generator] if by_generator else []),
                    *pair,
                    detector,
                    number(cell, "macro_f1"),
                    *theirs,
                    number(cell, "auroc"),
                    number(cell, "auroc_from_labels"),
                    threshold_from(cell),
                    *counts(cell),
                ]
            )
    lacking = (
        [
            f"Not shown: {', '.join(left_out)}, which learnt from the whole train fold alone; "
            "`train_roberta.lessons` trains them for each of these."
        ]
        if left_out
        else []
    )
    return in_percent(
        name,
        caption,
        [
            *(["generator"] if by_generator else []),
            "learnt from",
            "tested on",
            "detector",
            "macro-F1",
            *(["macro-F1 (AIGenPoetry)"] if table else []),
            "AUROC",
            HARD,
            THRESHOLD,
            *COUNTS,
        ],
        rows,
        notes(grid, *further, *([BESIDE] if table else []), *lacking),
        ("macro-F1", "AUROC", HARD),
    )


def table_4(grid: Grid) -> Table:
    return _transferred(
        grid,
        "table_4",
        "Learnt from one kind of prompts, tested on others (AIGenPoetry, Table 4).",
        grid.protocol.of_kind("out_of_domain"),
        4,
    )


def temperatures(grid: Grid) -> Iterator[Table]:
    """Tables 5 and 6: from temperature to temperature, all LLMs together and each."""
    found = grid.protocol.of_kind("temperature")
    of_all = [s for s in found if s.generator == EVERYBODY]
    of_each = [s for s in found if s.generator != EVERYBODY]
    for table, chosen, whose, further in (
        (5, of_all, "all generators", _who_is_in(grid, of_all)),
        (6, of_each, "each generator", []),
    ):
        caption = f"Temperatures, {whose} (AIGenPoetry, Table {table})."
        yield _transferred(grid, f"table_{table}", caption, chosen, table, *further)


def _who_is_in(grid: Grid, settings: Sequence[Setting]) -> list[str]:
    """Whose poems the settings test, and who is not among them."""
    tested = generators(grid.poems[p] for s in settings for p in s.test)
    lacking = sorted(set(generators(grid.poems.values())) - set(tested))
    rest = f"; without {', '.join(lacking)}, of whom a temperature is not there" if lacking else ""
    return [f"All generators: {', '.join(tested)}{rest}."]


def transfer(grid: Grid) -> Table:
    return _transferred(
        grid,
        "generator_transfer",
        "Learnt from one generator, tested on another.",
        grid.protocol.of_kind("generator"),
    )


def without_generator(grid: Grid) -> Table:
    return _transferred(
        grid,
        "leave_one_generator_out",
        "Tested on a generator that was left out of learning, on the test fold's human poems.",
        grid.protocol.of_kind("generator_left_out"),
    )


def without_poet(grid: Grid) -> Table:
    """Each poet left out, and all of them pooled."""
    settings = grid.protocol.of_kind("poet_left_out")
    table = _transferred(
        grid,
        "leave_one_poet_out",
        "Tested on a poet that was left out of learning, with all imitations of the poet's poems.",
        settings,
    )
    rows = [row for detector in grid.detectors if (row := _pooled(grid, settings, detector))]
    pooled = (
        "All poets: each poem is called once, by the threshold of a lesson that left its group "
        "out; of calls of several lessons there is an AUROC from hard labels alone."
    )
    return Table(
        table.name,
        table.caption,
        table.columns,
        [*rows, *table.rows],
        [
            pooled,
            "An interval over the groups of one poet rests on as few groups as the poet has poems.",
            *table.notes,
        ],
        estimates=table.estimates,
        digits=1,
        scale=100,
    )


def _pooled(grid: Grid, settings: Sequence[Setting], detector: str) -> list[Cell] | None:
    """One row over all left-out poets, from calls, since scores of two lessons do not compare."""
    calls: dict[int, int] = {}
    asked: set[int] = set()
    for setting in settings:
        cell, scores = grid.cell(detector, setting), grid.scores(detector, setting)
        if cell is None or scores is None:
            return None
        rows = grid.rows(setting.test)
        asked.update(rows.tolist())
        if cell.threshold is not None:
            # Twins by two poets are tested when either is left out.
            new = [row for row in rows[np.isfinite(scores[rows])].tolist() if row not in calls]
            calls |= dict(zip(new, cell.threshold.predict(scores[new]).tolist(), strict=True))
    if not calls:
        return None
    tested, n_unscored = list(calls), len(asked) - len(calls)
    labels = grid.labels[tested]
    n_human = int((labels == 0).sum())
    head: list[Cell] = ["without the poet", "all poets", detector]
    tail: list[Cell] = [EACH, n_human, len(labels) - n_human, n_unscored]
    if reason := lacks(labels):
        nothing = Estimate(None, None, None, len(labels), n_unscored, reason)
        return [*head, nothing, None, nothing, *tail]
    draws = Draws.of((grid.groups[row] for row in tested), grid.resamples, grid.seed)
    columns = draws.columns(grid.groups[row] for row in tested)
    cell_ = ScoredCell(labels, np.array([*calls.values()], np.float64), columns, draws)
    found = cell_.at_threshold(Threshold(0.5, "youden", "the lesson without the poet"))
    f1, hard = (
        found[metric].estimate(len(labels), cell_.n_groups, n_unscored)
        for metric in ("macro_f1", "auroc_from_labels")
    )
    return [*head, f1, None, hard, *tail]
