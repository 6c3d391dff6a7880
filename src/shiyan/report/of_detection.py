"""AIGenPoetry's tables of detectors: Tables 2-6, and what the paper leaves open.

Nothing is computed here: every number stands in the file of cells that the stage evaluate
wrote. The paper's number stands beside ours where it has one, and controls without a language
model stand in every table.
"""

import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from shiyan.config import PathsParams
from shiyan.metrics import Estimate
from shiyan.report import documents
from shiyan.report.detection_layouts import EVERYBODY, LAYOUTS, Found, Layout
from shiyan.report.figures import draw
from shiyan.report.table import Cell, Table

MOST_REASONS = 6
LEARNT_APART = (
    "out_of_domain",
    "temperature",
    "generator_transfer",
    "leave_one_generator_out",
    "leave_one_poet_out",
)
"""Tables of what was not learnt from the whole train fold."""


def tables(paths: PathsParams) -> Iterator[Table]:
    """Every table that the last run's cells allow; what the others need is told.

    Raises:
        UserError: the stage evaluate has not run.
    """
    document = documents.needed_metrics_of(paths.detection_cells, "evaluate")
    for layout in LAYOUTS:
        table = rendered(layout, document)
        if table.rows:
            yield table
        elif layout.needs:
            sys.stderr.write(f"notice: there is no {layout.name}; it needs {layout.needs}\n")


def rendered(layout: Layout, document: Mapping[str, Any]) -> Table:
    """A table; why a cell has no number, or what limits it, stands in the notes."""
    generators = document["made"].get("generators", [])
    rows = [
        [column.of(detector, _named(found, generators)) for column in layout.columns]
        for of_place in document["tables"][layout.source].values()
        for detector, found in of_place.items()
        if layout.keeps(found)
    ]
    return Table(
        layout.name,
        layout.caption,
        [column.title for column in layout.columns],
        rows,
        [
            *layout.notes,
            *_not_shown(document["tables"], layout.source),
            *_notes(document["made"]),
            *_reasons(rows),
        ],
        estimates=[column.title for column in layout.columns if column.is_estimate],
        digits=1,
        scale=100,
    )


def _named(found: Found, generators: Collection[str]) -> Found:
    """The only generator by its name, where there is one."""
    if found.get("generator") == EVERYBODY and len(generators) == 1:
        return {**found, "generator": next(iter(generators))}
    return found


def _not_shown(tables: Mapping[str, Any], source: str) -> Iterator[str]:
    """Who has no scores for what must not have been learnt from."""
    shown = {detector for of_place in tables[source].values() for detector in of_place}
    everybody = {detector for of_place in tables["detectors"].values() for detector in of_place}
    if shown and source in LEARNT_APART and (lacking := sorted(everybody - shown)):
        yield (
            f"Not shown: {', '.join(lacking)}, which learnt from the whole train fold alone; "
            "`train_roberta.lessons` trains them for each of these."
        )


def _notes(made: Mapping[str, Any]) -> Iterator[str]:
    """How every number was made."""
    yield (
        "In percent; 95 % intervals, where a table says nothing else, over groups (a human poem "
        f"with all its imitations): {made['interval']}. Conditional on {made['conditional_on']}."
    )
    yield (
        f"Threshold: {made['threshold_rule']}. macro-F1: {made['macro_f1'].split(';')[0]}. "
        f"Learnt from: {made['learnt_from']}."
    )
    if temperatures := made.get("main_temperatures"):
        told = "; ".join(
            f"{generator} {', '.join(f'{t:g}' for t in found)}"
            for generator, found in temperatures.items()
        )
        yield f"Poems at other temperatures are in Tables 5 and 6 alone; elsewhere: {told}."


def _reasons(rows: Sequence[Sequence[Cell]]) -> Iterator[str]:
    reasons = Counter(
        cell.reason for row in rows for cell in row if isinstance(cell, Estimate) and cell.reason
    )
    shown = reasons.most_common(MOST_REASONS)
    for reason, count in shown:
        yield f"{reason[0].upper()}{reason[1:]} ({count} cell{'s' if count > 1 else ''})."
    if more := len(reasons) - len(shown):
        yield f"And {more} further reason{'s' if more > 1 else ''}, of fewer cells."


def figures(paths: PathsParams, folder: Path) -> Iterator[Path]:
    """ROC curves and score distributions."""
    for plot in (paths.detection_roc, paths.detection_distributions):
        if plot.exists():
            folder.mkdir(parents=True, exist_ok=True)
            if drawn := draw(plot, folder / f"{plot.stem}.png"):
                yield drawn
        elif paths.detection_cells.exists():
            sys.stderr.write(
                f"notice: {plot} is not there, so {plot.stem}.png is not drawn; `dvc checkout` "
                "brings it back\n"
            )
