"""AIGenPoetry's tables of detectors: Tables 2-6, and what the paper leaves open.

All from stored scores: a table is a choice of poems to learn from and poems to test on,
and needs no model. The paper's number stands beside ours where it has one, and controls
without a language model stand in every table.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from shiyan.config import PathsParams, TrainRobertaParams, load_params
from shiyan.detectors.attacks import DROPS, drops
from shiyan.detectors.evaluate import MADE, CellResult, measured
from shiyan.detectors.grid import Grid, Stored
from shiyan.detectors.protocol import EVERYBODY, Setting, subset_order
from shiyan.detectors.several import METRICS as OF_SEVERAL
from shiyan.detectors.several import SIZES, of_several
from shiyan.errors import UserError
from shiyan.jsonl import read_records
from shiyan.metrics import Cell as ScoredCell
from shiyan.metrics import Draws, Estimate, Threshold
from shiyan.poem import lines
from shiyan.records import Assignment, DetectorScore, Poem, Record
from shiyan.report.figures import draw
from shiyan.report.published import MEAN, published
from shiyan.report.table import Cell, Table

R = TypeVar("R", bound=Record)

BASELINE = "D1"
SETTLED = "no interval: every resample gives the same value"
MOST_REASONS = 6
SHORTEST = 3
"""Lines; the issue of shorter replies is shown in a table of its own."""
COUNTS = ("human", "LLM", "unscored")
SETS = ("human sets", "LLM sets", "unscored sets")
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
    "auroc": "AUROC",
    "auroc_from_labels": "AUROC from hard labels",
    "tpr_at_fpr_1": "TPR at FPR 1 %",
    "tpr_at_fpr_5": "TPR at FPR 5 %",
    "brier": "Brier",
    "ece": "ECE",
    "found": "LLM poems found",
}


def tables(paths: PathsParams) -> Iterator[Table]:
    """Every table that the last run's poems and scores allow.

    Raises:
        UserError: a stage whose scores are needed has not run.
    """
    run = Run.read(paths)
    grid = run.grid
    yield all_detectors(grid)
    yield by_reply_length(grid)
    yield from (table for table in (table_2(grid), table_3(grid)) if table.rows)
    yield from (table for table in (merged(grid), against_baseline(grid)) if table.rows)
    yield from (table for table in (table_4(grid), *temperatures(grid)) if table.rows)
    for table in (transfer(grid), without_generator(grid), without_poet(grid)):
        if table.rows:
            yield table
    yield detector_differences(grid)
    yield several_poems(grid)
    if run.attacked:
        yield attacked(run)


def figures(paths: PathsParams, folder: Path) -> Iterator[Path]:
    """ROC curves and score distributions of both stages."""
    plots = (
        paths.zero_shot_roc,
        paths.trained_roc,
        paths.zero_shot_distributions,
        paths.trained_distributions,
    )
    for plot in plots:
        if plot.exists():
            folder.mkdir(parents=True, exist_ok=True)
            if drawn := draw(plot, folder / f"{plot.stem}.png"):
                yield drawn


@dataclass(frozen=True)
class Run:
    """What the stages left of a run."""

    grid: Grid
    scores: Sequence[DetectorScore]
    attacked: Sequence[DetectorScore]

    @classmethod
    def read(cls, paths: PathsParams) -> "Run":
        for path, stage in (
            (paths.poems, "collect"),
            (paths.generated, "generate"),
            (paths.splits, "split"),
        ):
            if not path.exists():
                raise UserError(f"{path} is not there; run `dvc repro {stage}` first")
        own = (paths.zero_shot_scores, paths.trained_scores)
        if not any(path.exists() for path in own):
            raise UserError(
                f"neither {own[0]} nor {own[1]} is there; run `dvc repro zero_shot_score "
                "train_roberta` first"
            )
        poems = {p.poem_id: p for path in (paths.poems, paths.generated) for p in _read(path, Poem)}
        assignments = {a.poem_id: a for a in read_records(paths.splits, Assignment)}
        params = load_params("train_roberta", TrainRobertaParams)
        untrained, trained = (list(_read(path, DetectorScore)) for path in own)
        stored = Stored(untrained, trained, _read(paths.trained_lessons, DetectorScore))
        grid = Grid(poems, assignments, stored, resamples=params.resamples, seed=params.seed)
        after = (paths.zero_shot_attacked, paths.trained_attacked)
        attacked = [score for path in after for score in _read(path, DetectorScore)]
        return cls(grid, [*untrained, *trained], attacked)


def _read(path: Path, model: type[R]) -> Iterable[R]:
    return read_records(path, model) if path.exists() else ()


# --- cells ------------------------------------------------------------------------------


def number(cell: CellResult | None, metric: str) -> Estimate | None:
    return cell.of(metric) if cell is not None else None


def counts(cell: CellResult | None) -> list[Cell]:
    """Human poems, LLM poems, unscored ones."""
    if cell is None:
        return [None, None, None]
    return [cell.n_human, cell.n - cell.n_human, cell.n_unscored]


def notes(grid: Grid, *further: str) -> list[str]:
    """How every number was made."""
    return [
        *further,
        "In percent, with the 95 % interval by bootstrap over groups (a human poem with all its "
        f"imitations; {grid.resamples} resamples, widened for few groups); Brier and ECE too.",
        f"Threshold: {MADE['threshold_rule']}; macro-F1: {MADE['macro_f1'].split(';')[0]}.",
        "Learnt from: threshold = the detector is not trained and learns its threshold alone; "
        "all = it learnt from the whole train fold, all prompts and generators.",
        *grid.notices(),
    ]


def in_percent(
    name: str,
    caption: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    told: Sequence[str],
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
    return Table(name, caption, columns, rows, [*told, *limits, *rest], digits=1, scale=100)


BESIDE = (
    "AIGenPoetry's values stand beside ours where it has the cell; its test sets have 400 human "
    "and 400 LLM poems, its F1 is macro-F1, and the AUROC of its RoBERTa is that of hard labels."
)


def whole(grid: Grid) -> Setting:
    """All generators and prompts."""
    return next(s for s in grid.protocol.of_kind("in_domain") if s.lesson == EVERYBODY)


# --- overview ---------------------------------------------------------------------------


def all_detectors(grid: Grid) -> Table:
    """Every metric of every detector on the whole test fold."""
    setting = whole(grid)
    rows: list[list[Cell]] = []
    for detector in grid.detectors:
        cell = grid.cell(detector, setting)
        inverted = "yes" if cell and cell.threshold and cell.threshold.inverted else ""
        metrics = [number(cell, metric) for metric in ALL_METRICS]
        rows.append([detector, *metrics, inverted, *counts(cell)])
    columns = ["detector", *(TITLES[m] for m in ALL_METRICS), "inverted", *COUNTS]
    return in_percent(
        "detectors",
        "Every detector on the whole test fold: all generators and prompts.",
        columns,
        rows,
        notes(
            grid,
            "Inverted: no threshold of the train fold does better than calling every poem a "
            "person's.",
            f"Calibration: {MADE['calibration']}; TPR: {MADE['tpr_at_fpr']}.",
        ),
    )


def by_reply_length(grid: Grid) -> Table:
    """With and without LLM poems of under three lines; the threshold is the same."""
    setting = whole(grid)
    long = tuple(
        poem_id
        for poem_id in setting.test
        if grid.poems[poem_id].label == 0 or len(lines(grid.poems[poem_id].text)) >= SHORTEST
    )
    n_short = len(setting.test) - len(long)
    rows: list[list[Cell]] = []
    for detector in grid.detectors:
        both = [grid.cell(detector, setting), grid.cell_of(detector, setting, long)]
        found = [number(cell, metric) for cell in both for metric in ("macro_f1", "auroc")]
        rows.append([detector, *found, *counts(both[1])])
    return in_percent(
        "reply_length",
        f"With and without the {n_short} LLM poems of the test fold of under {SHORTEST} lines.",
        [
            "detector",
            "macro-F1, all",
            "AUROC, all",
            f"macro-F1, {SHORTEST} lines or more",
            f"AUROC, {SHORTEST} lines or more",
            *COUNTS,
        ],
        rows,
        notes(grid, "Counts: without the short ones. The threshold is that of all replies."),
    )


def detector_differences(grid: Grid) -> Table:
    """Each pair of detectors on the poems that both scored, by the same resamples."""
    setting = whole(grid)
    rows: list[list[Cell]] = []
    values = {d: grid.scores(d, setting) for d in grid.detectors}
    lesson = grid.protocol.lessons[setting.lesson]
    train, test = grid.rows(lesson.train), grid.rows(setting.test)
    kept: dict[tuple[str, bytes], CellResult] = {}

    def result(detector: str, both: NDArray[np.bool_]) -> CellResult:
        key = detector, both.tobytes()
        if key not in kept:
            scores = values[detector]
            assert scores is not None
            learnt, tested = (
                grid.scored(scores, part[both[part]], grid.draws) for part in (train, test)
            )
            kept[key] = measured(learnt, tested, grid.draws, "train:all")
        return kept[key]

    for a, b in combinations(grid.detectors, 2):
        ours, theirs = values[a], values[b]
        if ours is None or theirs is None:
            continue
        both = np.isfinite(ours) & np.isfinite(theirs)
        mine, other = result(a, both), result(b, both)
        found: list[Estimate | None] = []
        for metric in ("macro_f1", "auroc"):
            difference = grid.difference(mine, other, metric)
            found.append(mine.told(metric, difference) if difference else None)
        rows.append([a, b, *found, _better(a, b, found[1]), *counts(mine)[:2]])
    return in_percent(
        "differences",
        "Detector A minus detector B on the poems that both scored, paired by resample.",
        ["A", "B", "macro-F1", "AUROC", "surely better by AUROC", *COUNTS[:2]],
        rows,
        notes(grid, "Surely better: the interval of the difference leaves 0 out."),
    )


def _better(a: str, b: str, difference: Estimate | None) -> str:
    if difference is None or difference.low is None or difference.high is None:
        return ""
    return a if difference.low > 0 else b if difference.high < 0 else ""


# --- the paper's tables -----------------------------------------------------------------


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
    generators = {s.generator for s in grid.protocol.settings}
    return sorted(found - generators - {EVERYBODY}, key=subset_order)


def shown_generator(grid: Grid, setting: Setting) -> str:
    """The only generator by its name, where there is one."""
    if setting.generator != EVERYBODY:
        return setting.generator
    made = {p.generation.generator for p in grid.poems.values() if p.generation}
    return made.pop() if len(made) == 1 else EVERYBODY


def paper(table: int, metric: str, setting: Setting, generator: str, detector: str) -> Cell:
    """The paper's cell: of this generator, or of all LLMs together (in Tables 2 and 3, its
    mean of four LLMs)."""
    whose = MEAN if generator == EVERYBODY and table in (2, 3) else generator
    return published(table, metric, setting.trained_on, setting.tested_on, whose, detector)


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
    )


def table_3(grid: Grid) -> Table:
    chosen = [name for name in subsets(grid) if name != BASELINE and not _is_merged(name)]
    caption = "Detectors on each prompt's poems, in-domain (AIGenPoetry, Table 3)."
    return _by_subset(grid, "table_3", caption, chosen)


def merged(grid: Grid) -> Table:
    """D2+4+5, D6-8, D10-13 of each generator; all generators are Table 4's first columns."""
    chosen = [name for name in subsets(grid) if _is_merged(name)]
    caption = "Detectors on the merged subsets, in-domain, by generator."
    return _by_subset(grid, "merged", caption, chosen)


def _is_merged(subset: str) -> bool:
    return subset.startswith("D") and ("+" in subset or "-" in subset)


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
    )


def _transferred(
    grid: Grid,
    name: str,
    caption: str,
    settings: Sequence[Setting],
    heads: tuple[str, str],
    table: int | None,
) -> Table:
    """A row a setting and detector that has scores for it."""
    rows: list[list[Cell]] = []
    left_out: dict[str, None] = {}
    by_generator = len({s.generator for s in settings}) > 1 and table == 6
    for setting in settings:
        for detector in grid.detectors:
            cell = grid.cell(detector, setting)
            if cell is None:
                left_out[detector] = None
                continue
            theirs = (
                [paper(table, "macro_f1", setting, setting.generator, detector)] if table else []
            )
            rows.append(
                [
                    *([setting.generator] if by_generator else []),
                    setting.trained_on,
                    setting.tested_on,
                    detector,
                    number(cell, "macro_f1"),
                    *theirs,
                    number(cell, "auroc"),
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
            *heads,
            "detector",
            "macro-F1",
            *(["macro-F1 (AIGenPoetry)"] if table else []),
            "AUROC",
            *COUNTS,
        ],
        rows,
        notes(grid, *([BESIDE] if table else []), *lacking),
    )


def table_4(grid: Grid) -> Table:
    return _transferred(
        grid,
        "table_4",
        "Learnt from one kind of prompts, tested on others (AIGenPoetry, Table 4).",
        grid.protocol.of_kind("out_of_domain"),
        ("learnt from", "tested on"),
        4,
    )


def temperatures(grid: Grid) -> Iterator[Table]:
    """Tables 5 and 6: from temperature to temperature, all LLMs and each."""
    found = grid.protocol.of_kind("temperature")
    of_all = [s for s in found if s.generator == EVERYBODY]
    of_each = [s for s in found if s.generator != EVERYBODY]
    for number_, chosen, whose in ((5, of_all, "all generators"), (6, of_each, "each generator")):
        yield _transferred(
            grid,
            f"table_{number_}",
            f"Temperatures, {whose} (AIGenPoetry, Table {number_}).",
            chosen,
            ("learnt from", "tested on"),
            number_,
        )


def transfer(grid: Grid) -> Table:
    return _transferred(
        grid,
        "generator_transfer",
        "Learnt from one generator, tested on another.",
        grid.protocol.of_kind("generator"),
        ("learnt from", "tested on"),
        None,
    )


def without_generator(grid: Grid) -> Table:
    return _transferred(
        grid,
        "leave_one_generator_out",
        "Tested on a generator that was left out of learning, on the test fold's human poems.",
        grid.protocol.of_kind("generator_left_out"),
        ("learnt from", "tested on"),
        None,
    )


def without_poet(grid: Grid) -> Table:
    """Each poet left out, and all of them pooled."""
    settings = grid.protocol.of_kind("poet_left_out")
    table = _transferred(
        grid,
        "leave_one_poet_out",
        "Tested on a poet that was left out of learning, with all imitations of the poet's poems.",
        settings,
        ("learnt from", "tested on"),
        None,
    )
    rows = [row for detector in grid.detectors if (row := _pooled(grid, settings, detector))]
    pooled = (
        "All poets: each poem is called by the threshold of the lesson that left its poet out; "
        "the AUROC is that of these calls."
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
        digits=1,
        scale=100,
    )


def _pooled(grid: Grid, settings: Sequence[Setting], detector: str) -> list[Cell] | None:
    """One row over all left-out poets, from calls, since scores of two lessons do not compare."""
    rows, calls, n_unscored = [], [], 0
    for setting in settings:
        cell, scores = grid.cell(detector, setting), grid.scores(detector, setting)
        if cell is None or scores is None:
            return None
        own = grid.rows(setting.test)
        if cell.threshold is None:
            n_unscored += len(own)
            continue
        finite = own[np.isfinite(scores[own])]
        n_unscored += len(own) - len(finite)
        rows.append(finite)
        calls.append(cell.threshold.predict(scores[finite]))
    if not rows:
        return None
    tested, called = np.concatenate(rows), np.concatenate(calls)
    draws = Draws.of((grid.groups[row] for row in tested), grid.resamples, grid.seed)
    labels = grid.labels[tested]
    n_human = int((labels == 0).sum())
    head: list[Cell] = ["without the poet", "all poets", detector]
    tail: list[Cell] = [n_human, len(labels) - n_human, n_unscored]
    if n_human in (0, len(labels)):
        return [*head, None, None, *tail]
    columns = draws.columns(grid.groups[row] for row in tested)
    cell_ = ScoredCell(labels, called.astype(np.float64), columns, draws)
    found = cell_.at_threshold(Threshold(0.5, "youden", "the lesson without the poet"))
    estimates = [
        found[metric].estimate(len(labels), cell_.n_groups, n_unscored)
        for metric in ("macro_f1", "auroc_from_labels")
    ]
    return [*head, *estimates, *tail]


# --- several poems, attacks -------------------------------------------------------------


def several_poems(grid: Grid) -> Table:
    """How much surer of k poems by one author."""
    setting = whole(grid)
    values = {d: v for d in grid.detectors if (v := grid.scores(d, setting)) is not None}
    rows: list[list[Cell]] = []
    for k in SIZES:
        found = of_several(
            values, grid.poems, grid.assignments, k, resamples=grid.resamples, seed=grid.seed
        )
        for detector, of_k in found.items():
            shown = [of_k.metrics[m] for m in OF_SEVERAL]
            rows.append([k, detector, *shown, of_k.n_human, of_k.n_llm, of_k.n_unscored])
    return in_percent(
        "several_poems",
        "Sets of k poems by one author: a poet's, or a generator's to one prompt.",
        ["k", "detector", *(TITLES[m] for m in OF_SEVERAL), *SETS],
        rows,
        notes(
            grid,
            "A set's score is the mean of its poems' scores; the threshold comes from sets of k "
            "of the train fold. Sets are disjoint, of whole authors; numbers are means over 10 "
            "draws of the sets, and counts those of the first.",
        ),
    )


def attacked(run: Run) -> Table:
    """What each attack costs each detector, paired by poem."""
    grid = run.grid
    found = drops(
        run.scores,
        run.attacked,
        grid.poems,
        grid.assignments,
        resamples=grid.resamples,
        seed=grid.seed,
    )
    rows: list[list[Cell]] = []
    for drop in sorted(found, key=lambda d: d.attack):
        numbers = [part[m] for m in DROPS for part in (drop.before, drop.after, drop.lost)]
        first = drop.before["auroc"]
        rows.append(
            [drop.attack, drop.detector, *numbers, drop.n_changed, first.n, first.n_unscored]
        )
    return in_percent(
        "attacks",
        "LLM poems before and after an attack; human poems and threshold stay as they are.",
        [
            "attack",
            "detector",
            *(f"{TITLES[m]}, {when}" for m in DROPS for when in ("before", "after", "lost")),
            "scores changed",
            "poems",
            "unscored",
        ],
        rows,
        notes(
            grid,
            "Lost: before minus after, paired by poem. Scores changed: LLM poems whose score "
            "the attack moved; detectors read the body, so a title that goes moves none.",
        ),
    )
