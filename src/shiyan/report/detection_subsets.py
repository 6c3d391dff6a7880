"""AIGenPoetry's Tables 2 and 3: each prompt's poems in-domain, and what lies between them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from shiyan.detectors.evaluate import CellResult
from shiyan.detectors.grid import Grid
from shiyan.detectors.protocol import Setting
from shiyan.metrics import Estimate, Sampled
from shiyan.report.detection_cells import (
    ALL_METRICS,
    BASELINE,
    BESIDE,
    COUNTS,
    EACH,
    THRESHOLD,
    counts,
    in_domain,
    in_percent,
    is_merged,
    notes,
    number,
    shown_generator,
    subsets,
    threshold_from,
)
from shiyan.report.published import MEAN, published
from shiyan.report.table import Cell, Table

MEANS = (
    "Mean: of the generators, each with a threshold of its own, as AIGenPoetry's mean of four LLMs "
    "beside it is; all: their poems together under one threshold, of which it has no number."
)


@dataclass(frozen=True)
class Line:
    """A detector's numbers in-domain: of a generator, of the mean of several, or of all.

    Attributes:
        generator: as the table shows it.
        printed: whose number the paper has for it.
        learnt_from, threshold: see `notes`.
        estimates: by metric; None where the detector has no scores.
        counts: human, LLM and unscored poems.
    """

    subset: str
    generator: str
    printed: str
    detector: str
    learnt_from: str | None
    threshold: str | None
    estimates: Mapping[str, Estimate | None]
    counts: Sequence[Cell]

    def paper(self, table: int, metric: str, printed: str = "") -> float | None:
        """The paper's number, of `printed` or else of the line's own."""
        whose = printed or self.printed
        return published(table, metric, self.subset, self.subset, whose, self.detector)


def lines(grid: Grid, chosen: Sequence[str]) -> Iterator[Line]:
    """By subset: the lines of each generator, of their mean, of all of them together."""
    for _, found in groupby(in_domain(grid, chosen), lambda setting: setting.tested_on):
        *single, together = found
        for setting in single:
            yield from (_line(grid, setting, detector) for detector in grid.detectors)
        if single:
            yield from (_mean(grid, single, together, detector) for detector in grid.detectors)
        yield from (_line(grid, together, detector) for detector in grid.detectors)


def _line(grid: Grid, setting: Setting, detector: str) -> Line:
    cell = grid.cell(detector, setting)
    generator = shown_generator(grid, setting)
    return Line(
        setting.tested_on,
        generator,
        generator,
        detector,
        grid.learnt_on(detector, setting),
        threshold_from(cell),
        {metric: number(cell, metric) for metric in ALL_METRICS},
        counts(cell),
    )


def _mean(grid: Grid, single: Sequence[Setting], together: Setting, detector: str) -> Line:
    cells = [grid.cell(detector, setting) for setting in single]
    learnt = {grid.learnt_on(detector, setting) for setting in single}
    whole = grid.cell(detector, together)
    n_unscored = whole.n_unscored if whole else 0
    return Line(
        together.tested_on,
        f"mean of {len(single)}",
        MEAN,
        detector,
        learnt.pop() if len(learnt) == 1 else EACH,
        EACH,
        {metric: mean_over(cells, metric, n_unscored) for metric in ALL_METRICS},
        counts(whole),
    )


def mean_over(cells: Sequence[CellResult | None], metric: str, n_unscored: int) -> Estimate:
    """A metric's mean over the cells that have it, paired by resample; says if some lack it.

    The human poems of all cells are the same and count once.
    """
    own = [cell for cell in cells if cell and metric in cell.sampled]
    limit = f"the mean is over {len(own)} of {len(cells)} generators"
    if not own:
        return Estimate(None, None, None, 0, n_unscored, limit)
    sampled = [cell.sampled[metric] for cell in own]
    mean = Sampled(
        float(np.mean([s.value for s in sampled])), np.mean([s.resampled for s in sampled], axis=0)
    )
    n = max(cell.n_human for cell in own) + sum(cell.n - cell.n_human for cell in own)
    n_groups = max(cell.n_groups for cell in own)
    return mean.estimate(n, n_groups, n_unscored, limit if len(own) < len(cells) else "")


def _means(found: Sequence[Line]) -> list[str]:
    return [MEANS] if any(line.printed == MEAN for line in found) else []


def table_2(grid: Grid) -> Table:
    """D1 in-domain: F1, AUROC from scores and from hard labels."""
    found = list(lines(grid, [BASELINE]))
    rows: list[list[Cell]] = [
        [
            line.generator,
            line.detector,
            line.learnt_from,
            line.estimates["macro_f1"],
            line.paper(2, "macro_f1"),
            line.paper(2, "macro_f1", MEAN),
            line.estimates["auroc"],
            line.paper(2, "auroc"),
            line.estimates["auroc_from_labels"],
            line.paper(2, "auroc_from_labels"),
            line.estimates["tpr_at_fpr_1"],
            line.estimates["tpr_at_fpr_5"],
            line.threshold,
            *line.counts,
        ]
        for line in found
    ]
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
            THRESHOLD,
            *COUNTS,
        ],
        rows,
        notes(grid, BESIDE, *_means(found)),
        ("macro-F1", "AUROC", "AUROC from hard labels", "TPR at FPR 1 %", "TPR at FPR 5 %"),
    )


def _by_subset(grid: Grid, name: str, caption: str, chosen: Sequence[str]) -> Table:
    """Subsets in-domain, a row a subset, generator and detector."""
    found = list(lines(grid, chosen))
    rows: list[list[Cell]] = [
        [
            line.subset,
            line.generator,
            line.detector,
            line.learnt_from,
            line.estimates["macro_f1"],
            line.paper(3, "macro_f1"),
            line.paper(3, "macro_f1", MEAN),
            line.estimates["auroc"],
            line.estimates["auroc_from_labels"],
            line.threshold,
            *line.counts,
        ]
        for line in found
    ]
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
            THRESHOLD,
            *COUNTS,
        ],
        rows,
        notes(grid, BESIDE, *_means(found)),
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
