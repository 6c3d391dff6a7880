"""AIGenPoetry's Tables 2 and 3: each prompt's poems in-domain, and what lies between them."""

from collections.abc import Sequence

from shiyan.detectors.grid import Grid
from shiyan.report.detection_cells import (
    ALL_METRICS,
    BASELINE,
    BESIDE,
    COUNTS,
    counts,
    in_domain,
    in_percent,
    is_merged,
    notes,
    number,
    paper,
    shown_generator,
    subsets,
)
from shiyan.report.published import MEAN, published
from shiyan.report.table import Cell, Table


def table_2(grid: Grid) -> Table:
    """D1 in-domain: F1, AUROC from scores and from hard labels."""
    rows: list[list[Cell]] = []
    for setting in in_domain(grid, [BASELINE]):
        generator = shown_generator(grid, setting)
        for detector in grid.detectors:
            cell = grid.cell(detector, setting)
            ours = {m: number(cell, m) for m in ALL_METRICS}
            theirs = {
                m: paper(2, m, setting, generator, detector)
                for m in ("macro_f1", "auroc", "auroc_from_labels")
            }
            rows.append(
                [
                    generator,
                    detector,
                    grid.learnt_on(detector, setting),
                    ours["macro_f1"],
                    theirs["macro_f1"],
                    published(2, "macro_f1", "D1", "D1", MEAN, detector),
                    ours["auroc"],
                    theirs["auroc"],
                    ours["auroc_from_labels"],
                    theirs["auroc_from_labels"],
                    ours["tpr_at_fpr_1"],
                    ours["tpr_at_fpr_5"],
                    *counts(cell),
                ]
            )
    return in_percent(
        "table_2",
        "Detectors on D1, in-domain (AIGenPoetry, Table 2).",
        [
            "generator",
            "detector",
            "learnt from",
            "macro-F1",
            "macro-F1 (AIGenPoetry)",
            "macro-F1 (AIGenPoetry, mean of 4 LLMs)",
            "AUROC",
            "AUROC (AIGenPoetry)",
            "AUROC from hard labels",
            "AUROC from hard labels (AIGenPoetry)",
            "TPR at FPR 1 %",
            "TPR at FPR 5 %",
            *COUNTS,
        ],
        rows,
        notes(grid, BESIDE),
        ("macro-F1", "AUROC", "AUROC from hard labels", "TPR at FPR 1 %", "TPR at FPR 5 %"),
    )


def _by_subset(grid: Grid, name: str, caption: str, chosen: Sequence[str]) -> Table:
    """Subsets in-domain, a row a subset, generator and detector."""
    rows: list[list[Cell]] = []
    for setting in in_domain(grid, chosen):
        generator = shown_generator(grid, setting)
        for detector in grid.detectors:
            cell = grid.cell(detector, setting)
            rows.append(
                [
                    setting.tested_on,
                    generator,
                    detector,
                    grid.learnt_on(detector, setting),
                    number(cell, "macro_f1"),
                    paper(3, "macro_f1", setting, generator, detector),
                    published(3, "macro_f1", setting.tested_on, setting.tested_on, MEAN, detector),
                    number(cell, "auroc"),
                    number(cell, "auroc_from_labels"),
                    *counts(cell),
                ]
            )
    return in_percent(
        name,
        caption,
        [
            "subset",
            "generator",
            "detector",
            "learnt from",
            "macro-F1",
            "macro-F1 (AIGenPoetry)",
            "macro-F1 (AIGenPoetry, mean of 4 LLMs)",
            "AUROC",
            "AUROC from hard labels",
            *COUNTS,
        ],
        rows,
        notes(grid, BESIDE),
        ("macro-F1", "AUROC", "AUROC from hard labels"),
    )


def table_3(grid: Grid) -> Table:
    chosen = [name for name in subsets(grid) if name != BASELINE and not is_merged(name)]
    caption = "Detectors on each prompt's poems, in-domain (AIGenPoetry, Table 3)."
    return _by_subset(grid, "table_3", caption, chosen)


def merged(grid: Grid) -> Table:
    """D2+4+5, D6-8, D10-13 of each generator; all generators are Table 4's first columns."""
    chosen = [name for name in subsets(grid) if is_merged(name)]
    caption = "Detectors on the merged subsets, in-domain, by generator."
    return _by_subset(grid, "merged", caption, chosen)


def against_baseline(grid: Grid) -> Table:
    """Each D_i minus D1 of the same generator and detector, by the same resamples."""
    rows: list[list[Cell]] = []
    baseline = {s.generator: s for s in in_domain(grid, [BASELINE])}
    chosen = [name for name in subsets(grid) if name != BASELINE] if baseline else []
    for setting in in_domain(grid, chosen):
        for detector in grid.detectors:
            cell = grid.cell(detector, setting)
            first = grid.cell(detector, baseline[setting.generator])
            found: list[Cell] = []
            for metric in ("macro_f1", "auroc"):
                difference = grid.difference(cell, first, metric)
                found.append(cell.told(metric, difference) if cell and difference else None)
            name = shown_generator(grid, setting)
            rows.append([setting.tested_on, name, detector, *found, *counts(cell)])
    return in_percent(
        "against_d1",
        "Each subset minus D1 of the same generator, paired by resample.",
        ["subset", "generator", "detector", "macro-F1", "AUROC", *COUNTS],
        rows,
        notes(grid, "The human poems of both are the same; an interval without 0 is a difference."),
        ("macro-F1", "AUROC"),
    )
