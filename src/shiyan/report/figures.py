"""Figures of the stages' plot files, for MLflow: a CSV's columns say which figure it is."""

import csv
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from shiyan.report.fonts import Labels, chosen_font

Row = Mapping[str, str]
Axes = Any
INCH_PER_BAR = 0.14
NO_FONT = "no font with Chinese characters was found: names are numbered in the CSV's order"


def draw(plot: Path, to: Path) -> Path | None:
    """Draw the figure of a plot's CSV as a PNG; None for a CSV without rows or of another kind."""
    with plot.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    drawing = next((d for needs, d in FIGURES.items() if rows and needs <= rows[0].keys()), None)
    if drawing is None:
        return None
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    font = chosen_font()
    with mpl.rc_context({"font.family": font.families, "axes.unicode_minus": False}):
        # No pyplot: a stage has no window, and a figure should not outlive its file.
        figure = Figure(layout="constrained")
        FigureCanvasAgg(figure)
        labels = Labels(font)
        drawing(figure, rows, labels)
        if labels.are_numbered:
            figure.text(0.01, 0.005, NO_FONT, fontsize=7)
        figure.savefig(to, dpi=120)
    return to


def grouped(rows: Sequence[Row], *columns: str) -> dict[tuple[str, ...], list[Row]]:
    """Rows by the values of these columns, in the order in which they appear."""
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[column] for column in columns)].append(row)
    return dict(groups)


def column(rows: Sequence[Row], name: str) -> list[float]:
    """A column's numbers; an empty cell (unscored) is left out."""
    return [float(row[name]) for row in rows if row[name] != ""]


def roc_curves(figure: Any, rows: Sequence[Row], labels: Labels) -> None:
    """True over false positive rate, a step curve a detector; the diagonal is guessing."""
    figure.set_size_inches(6.4, 5.6)
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], color="0.7", linestyle=":", linewidth=1)
    for (detector,), points in grouped(rows, "detector").items():
        x, y = column(points, "false_positive_rate"), column(points, "true_positive_rate")
        axes.plot(x, y, label=labels(detector))
    axes.set(xlabel="false positive rate", ylabel="true positive rate", title="ROC, test fold")
    axes.set_aspect("equal")
    axes.legend(fontsize=8, loc="lower right")


def score_distributions(figure: Any, rows: Sequence[Row], labels: Labels) -> None:
    """Histograms of each detector's scores, human and LLM over each other; test fold.

    Each class sums to 1: beside hundreds of imitations a few human poems would else not be seen.
    """
    by_detector = grouped([row for row in rows if row["fold"] == "test"] or rows, "detector")
    columns = min(3, len(by_detector))
    lines = -(-len(by_detector) // columns)
    figure.set_size_inches(3.6 * columns, 2.7 * lines)
    for place, ((detector,), scores) in enumerate(by_detector.items(), start=1):
        axes = figure.add_subplot(lines, columns, place)
        values = {name: column(part, "score") for (name,), part in grouped(scores, "label").items()}
        axes.hist(
            list(values.values()),
            bins=15,
            weights=[[1 / len(v)] * len(v) for v in values.values()],
            histtype="stepfilled",
            alpha=0.55,
            label=[f"{name} (n={len(v)})" for name, v in values.items()],
        )
        axes.set_title(labels(detector), fontsize=9)
        axes.legend(fontsize=7)
        axes.tick_params(labelsize=7)
    figure.supxlabel("score (higher: more likely an LLM's)", fontsize=9)
    figure.supylabel("share of the class's poems", fontsize=9)


def ci_by_cipai(figure: Any, rows: Sequence[Row], labels: Labels) -> None:
    """Share of ci that keep one of their cipai's structures, a bar a cipai and source."""
    bars(figure, rows, labels, of="cipai", by=("source",), length="structure_any")
    figure.axes[0].set(xlabel="share with a documented structure", xlim=(0, 1))


def judge_errors(figure: Any, rows: Sequence[Row], labels: Labels) -> None:
    """Mean absolute error of each judge and prompt by dimension; constructed ones named so."""
    bars(figure, rows, labels, of="dimension", by=("judge", "prompt", "source"), length="error")
    figure.axes[0].set(xlabel="mean absolute error against the reference")


def bars(
    figure: Any,
    rows: Sequence[Row],
    labels: Labels,
    of: str,
    by: tuple[str, ...],
    length: str,
) -> None:
    """Horizontal bars in groups: a group for each value of `of`, a bar in it for each of `by`."""
    names = list(dict.fromkeys(row[of] for row in rows))
    series = grouped(rows, *by)
    figure.set_size_inches(7.2, 1.4 + INCH_PER_BAR * len(names) * len(series))
    axes = figure.add_subplot()
    thickness = 0.8 / len(series)
    for index, (key, members) in enumerate(series.items()):
        known = {row[of]: float(row[length]) for row in members if row[length] != ""}
        places = [names.index(name) + (index + 0.5) * thickness - 0.4 for name in known]
        label = labels(" · ".join(dict.fromkeys(key)))
        axes.barh(places, list(known.values()), height=thickness, label=label)
    axes.set_yticks(range(len(names)), [labels(name) for name in names], fontsize=8)
    axes.set_ylim(len(names) - 0.5, -0.5)
    figure.legend(fontsize=8, loc="outside upper center")


def training_curves(figure: Any, rows: Sequence[Row], labels: Labels) -> None:
    """Loss over optimiser steps, a line for each detector, fold, and batch or held-out poems."""
    figure.set_size_inches(6.4, 4.2)
    axes = figure.add_subplot()
    parts = [name for name in ("detector", "part", "fold") if name in rows[0]]
    for key, points in grouped(rows, *parts).items():
        kept = [row for row in points if row["loss"] != ""]
        label = labels(" · ".join(key))
        axes.plot(column(kept, "step"), column(kept, "loss"), label=label, linewidth=1)
    axes.set(xlabel="step", ylabel="loss (nats)")
    axes.legend(fontsize=7)


FIGURES: Mapping[frozenset[str], Callable[[Any, Sequence[Row], Labels], None]] = {
    frozenset({"detector", "false_positive_rate", "true_positive_rate"}): roc_curves,
    frozenset({"detector", "label", "fold", "score"}): score_distributions,
    frozenset({"cipai", "source", "structure_any"}): ci_by_cipai,
    frozenset({"judge", "prompt", "dimension", "source", "error"}): judge_errors,
    frozenset({"step", "loss"}): training_curves,
}
