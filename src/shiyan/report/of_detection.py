"""AIGenPoetry's tables of detectors: Tables 2-6, and what the paper leaves open.

All from stored scores: a table is a choice of poems to learn from and poems to test on,
and needs no model. The paper's number stands beside ours where it has one, and controls
without a language model stand in every table.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from shiyan.config import PathsParams, TrainRobertaParams, load_params
from shiyan.detectors.attack_drops import DROPS, drops
from shiyan.detectors.evaluate import MADE, OWN_LABELS, CellResult, measured
from shiyan.detectors.grid import Grid, Stored
from shiyan.detectors.several import METRICS as OF_SEVERAL
from shiyan.detectors.several import SIZES, of_several
from shiyan.errors import UserError
from shiyan.jsonl import read_records
from shiyan.metrics import Estimate
from shiyan.poem import lines
from shiyan.records import Assignment, DetectorScore, Poem, Record
from shiyan.report.detection_cells import (
    ALL_METRICS,
    COUNTS,
    THRESHOLD,
    TITLES,
    counts,
    in_percent,
    notes,
    number,
    threshold_from,
    whole,
)
from shiyan.report.detection_subsets import against_baseline, merged, table_2, table_3
from shiyan.report.detection_transfer import (
    table_4,
    temperatures,
    transfer,
    without_generator,
    without_poet,
)
from shiyan.report.figures import draw
from shiyan.report.table import Cell, Table
from shiyan.splits import at_main_temperature

R = TypeVar("R", bound=Record)

SHORTEST = 3
"""Lines; what shorter replies change is shown in a table of its own."""
SETS = ("human sets", "LLM sets", "unscored sets")


def tables(paths: PathsParams) -> Iterator[Table]:
    """Every table that the last run's poems and scores allow.

    Raises:
        UserError: a stage whose scores are needed has not run.
    """
    run = Run.read(paths)
    # The matrices are small: threads would mostly wait for each other.
    with threadpool_limits(1):
        yield from (table for table in every_table(run) if table.rows)


def every_table(run: "Run") -> Iterator[Table]:
    """In the order of the report; one whose setting the poems do not allow has no rows."""
    grid = run.grid
    yield all_detectors(grid)
    yield by_reply_length(grid)
    yield table_2(grid)
    yield table_3(grid)
    yield merged(grid)
    yield against_baseline(grid)
    yield table_4(grid)
    yield from temperatures(grid)
    yield transfer(grid)
    yield without_generator(grid)
    yield without_poet(grid)
    yield detector_differences(grid)
    yield several_poems(grid)
    yield attacked(run)


def figures(paths: PathsParams, folder: Path) -> Iterator[Path]:
    """ROC curves and score distributions of both stages."""
    plots = {
        paths.zero_shot_roc: paths.zero_shot_scores,
        paths.trained_roc: paths.trained_scores,
        paths.zero_shot_distributions: paths.zero_shot_scores,
        paths.trained_distributions: paths.trained_scores,
    }
    for plot, scores in plots.items():
        if plot.exists():
            folder.mkdir(parents=True, exist_ok=True)
            if drawn := draw(plot, folder / f"{plot.stem}.png"):
                yield drawn
        elif scores.exists():
            sys.stderr.write(
                f"notice: {plot} is not there, so {plot.stem}.png is not drawn; `dvc checkout` "
                "brings it back\n"
            )


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


# --- all generators and prompts ----------------------------------------------------------


def all_detectors(grid: Grid) -> Table:
    """Every metric of every detector on the whole test fold."""
    setting = whole(grid)
    rows: list[list[Cell]] = []
    for detector in grid.detectors:
        cell = grid.cell(detector, setting)
        inverted = "yes" if cell and cell.threshold and cell.threshold.inverted else ""
        metrics = [number(cell, metric) for metric in ALL_METRICS]
        own = number(cell, OWN_LABELS) if detector in grid.trained else None
        rows.append([detector, *metrics, own, inverted, threshold_from(cell), *counts(cell)])
    titles = [TITLES[m] for m in (*ALL_METRICS, OWN_LABELS)]
    columns = ["detector", *titles, "inverted", THRESHOLD, *COUNTS]
    return in_percent(
        "detectors",
        "Every detector on the whole test fold: all generators and prompts.",
        columns,
        rows,
        notes(
            grid,
            "Inverted: on the train fold human poems score higher (AUROC under 50), or no "
            "threshold does better than calling every poem a person's.",
            f"Calibration: {MADE['calibration']}; TPR: {MADE['tpr_at_fpr']}.",
            f"Own labels: {MADE[OWN_LABELS]}; where this is far above macro-F1, the networks that "
            "scored the train fold for the threshold do not score like the one that learnt from "
            "all of it.",
        ),
        titles,
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
    estimates = [
        f"{TITLES[metric]}, {which}"
        for which in ("all", f"{SHORTEST} lines or more")
        for metric in ("macro_f1", "auroc")
    ]
    return in_percent(
        "reply_length",
        f"With and without the {n_short} LLM poems of the test fold of under {SHORTEST} lines.",
        ["detector", *estimates, *COUNTS],
        rows,
        notes(grid, "Counts: without the short ones. The threshold is that of all replies."),
        estimates,
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
        ("macro-F1", "AUROC"),
    )


def _better(a: str, b: str, difference: Estimate | None) -> str:
    if difference is None or difference.low is None or difference.high is None:
        return ""
    return a if difference.low > 0 else b if difference.high < 0 else ""


# --- several poems, attacks --------------------------------------------------------------


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
    titles = [TITLES[m] for m in OF_SEVERAL]
    return in_percent(
        "several_poems",
        "Sets of k poems by one author: a poet's, or a generator's to one prompt.",
        ["k", "detector", *titles, *SETS],
        rows,
        notes(
            grid,
            "A set's score is the mean of its poems' scores; the threshold comes from sets of k "
            "of the train fold. Sets are disjoint; numbers are means over 10 draws of the sets, "
            "counts those of the first. Resampled are the groups of the split, as one where a "
            "set ties them together.",
            *_nameless(grid),
        ),
        titles,
    )


def _nameless(grid: Grid) -> list[str]:
    """How many human poems are in no set, since nobody is named who wrote them."""
    poems = (grid.poems[poem_id] for poem_id in whole(grid).test)
    n = sum(poem.generation is None and not poem.author for poem in poems)
    told = f"Human poems of the test fold that name no author: {n}, in no set of two or more."
    return [told] if n else []


def attacked(run: Run) -> Table:
    """What each attack costs each detector, paired by poem."""
    grid = run.grid
    main = {poem.poem_id for poem in at_main_temperature(grid.poems.values())}
    found = drops(
        [score for score in run.scores if score.poem_id in main],
        [score for score in run.attacked if score.poem_id in main],
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
            [
                drop.attack,
                drop.detector,
                *numbers,
                drop.n_changed,
                drop.n_human,
                drop.n_llm,
                first.n_unscored,
            ]
        )
    titles = [f"{TITLES[m]}, {when}" for m in DROPS for when in ("before", "after", "lost")]
    return in_percent(
        "attacks",
        "LLM poems before and after an attack; human poems and threshold stay as they are.",
        ["attack", "detector", *titles, "scores changed", *COUNTS],
        rows,
        notes(
            grid,
            "Lost: before minus after, paired by poem. Scores changed: LLM poems whose score "
            "the attack moved: none where a detector does not read what the attack changes.",
        ),
        titles,
    )
