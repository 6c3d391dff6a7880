"""What the tables of detectors have in common: cells, notes, and which settings they show."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from shiyan.detectors.evaluate import MADE, OWN_LABELS, CellResult
from shiyan.detectors.grid import Grid
from shiyan.detectors.protocol import EVERYBODY, Setting, subset_order
from shiyan.metrics import Estimate
from shiyan.records import Poem
from shiyan.report.table import Cell, Table
from shiyan.splits import at_main_temperature, main_temperatures

BASELINE = "D1"
SETTLED = "no interval: every resample gives the same value"
MOST_REASONS = 6
COUNTS = ("human", "LLM", "unscored")
THRESHOLD = "threshold from"
"""The column that names the poems on which a row's threshold was chosen."""
EACH = "each its own"
"""What a row over several lessons has there."""
ALL_METRICS = (
    "macro_f1",
    "auroc",
    "auroc_from_labels",
    "tpr_at_fpr_1",
    "tpr_at_fpr_5",
    "brier",
    "ece",
)
TITLES = {
    "macro_f1": "macro-F1",
    OWN_LABELS: "macro-F1 of own labels",
    "auroc": "AUROC",
    "auroc_from_labels": "AUROC from hard labels",
    "tpr_at_fpr_1": "TPR at FPR 1 %",
    "tpr_at_fpr_5": "TPR at FPR 5 %",
    "brier": "Brier",
    "ece": "ECE",
    "found": "LLM poems found",
}


def number(cell: CellResult | None, metric: str) -> Estimate | None:
    return cell.of(metric) if cell is not None else None


def counts(cell: CellResult | None) -> list[Cell]:
    """Human poems, LLM poems, unscored ones."""
    if cell is None:
        return [None, None, None]
    return [cell.n_human, cell.n - cell.n_human, cell.n_unscored]


def threshold_from(cell: CellResult | None) -> str | None:
    return cell.threshold.fitted_on if cell and cell.threshold else None


def notes(grid: Grid, *further: str) -> list[str]:
    """How every number was made."""
    return [
        *further,
        "In percent, with the 95 % interval by bootstrap over groups (a human poem with all its "
        f"imitations; {grid.resamples} resamples, widened for few groups); Brier and ECE too.",
        "Threshold: Youden's J, midway between scores, on poems that are not tested; where there "
        f"is a column “{THRESHOLD}”, it names them. macro-F1: {MADE['macro_f1'].split(';')[0]}.",
        "Learnt from: threshold = the detector is not trained and learns its threshold alone; "
        "all = it learnt from the train fold, all prompts and generators.",
        *_temperatures(grid),
        *grid.notices(),
    ]


def _temperatures(grid: Grid) -> list[str]:
    """At which temperature a generator's poems were written, where it wrote at several."""
    poems = grid.poems.values()
    if len(at_main_temperature(poems)) == len(poems):
        return []
    main: dict[str, set[float]] = {}
    for (generator, _), temperature in main_temperatures(poems).items():
        main.setdefault(generator, set()).add(temperature)
    told = "; ".join(
        f"{generator} {', '.join(f'{t:g}' for t in sorted(found))}"
        for generator, found in sorted(main.items())
    )
    return [f"Poems at other temperatures are in Tables 5 and 6 alone; elsewhere: {told}."]


def in_percent(
    name: str,
    caption: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    told: Sequence[str],
    estimates: Collection[str],
) -> Table:
    """A table of shares; why a cell has no number, or what limits it, stands in the notes."""
    reasons = Counter(
        cell.reason
        for row in rows
        for cell in row
        if isinstance(cell, Estimate) and cell.reason and cell.reason != SETTLED
    )
    limits = [
        f"{reason[0].upper()}{reason[1:]} ({count} cell{'s' if count > 1 else ''})."
        for reason, count in reasons.most_common(MOST_REASONS)
    ]
    more = len(reasons) - len(limits)
    rest = [f"And {more} further reasons, of fewer cells each."] if more else []
    all_notes = [*told, *limits, *rest]
    return Table(name, caption, columns, rows, all_notes, estimates=estimates, digits=1, scale=100)


BESIDE = (
    "AIGenPoetry's values stand beside ours where it has the cell; its test sets have 400 human "
    "and 400 LLM poems, its F1 is macro-F1, and the AUROC of its RoBERTa is that of hard labels."
)


def whole(grid: Grid) -> Setting:
    """All generators and prompts."""
    return next(s for s in grid.protocol.of_kind("in_domain") if s.lesson == EVERYBODY)


def in_domain(grid: Grid, chosen: Iterable[str]) -> list[Setting]:
    """Settings of these subsets, by subset, the generators before all of them together."""
    names = set(chosen)
    found = [s for s in grid.protocol.of_kind("in_domain") if s.tested_on in names]
    # With one generator, its poems and all poems are the same.
    several = {s.generator for s in found} - {EVERYBODY}
    return sorted(
        found if several else [s for s in found if s.generator == EVERYBODY],
        key=lambda s: (subset_order(s.tested_on), s.generator == EVERYBODY, s.generator),
    )


def subsets(grid: Grid) -> list[str]:
    """Names of the subsets by prompt, in order: D1 … D13, D2+4+5 …, or others."""
    found = {s.tested_on for s in grid.protocol.of_kind("in_domain") if s.generator == EVERYBODY}
    whose = {s.generator for s in grid.protocol.settings}
    return sorted(found - whose - {EVERYBODY}, key=subset_order)


def generators(poems: Iterable[Poem]) -> list[str]:
    """Who wrote the LLM poems among these."""
    return sorted({poem.generation.generator for poem in poems if poem.generation})


def shown_generator(grid: Grid, setting: Setting) -> str:
    """The only generator by its name, where there is one."""
    if setting.generator != EVERYBODY:
        return setting.generator
    made = generators(grid.poems.values())
    return made[0] if len(made) == 1 else EVERYBODY


def is_merged(subset: str) -> bool:
    return subset.startswith("D") and ("+" in subset or "-" in subset)
