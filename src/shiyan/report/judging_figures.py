"""Judge error by dimension: a panel a judge, a mark a prompt."""

from collections.abc import Mapping
from pathlib import Path

from shiyan.report.fonts import Labels, chosen_font

MARKS = ("o", "s", "^", "D", "v")
STEP = 0.15
"""Between two marks of one dimension, in rows."""
COLUMNS = 3
NO_FONT = "no font with Chinese characters was found: dimensions are numbered in the tables' order"


def errors_by_dimension(
    series: Mapping[str, Mapping[str, Mapping[str, float]]], to: Path
) -> Path | None:
    """Draw panel -> prompt -> dimension -> error as a PNG; None where there is no error."""
    if not series:
        return None
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    dimensions = list(
        dict.fromkeys(name for panel in series.values() for of in panel.values() for name in of)
    )
    prompts = sorted({prompt for panel in series.values() for prompt in panel})
    middle = (len(prompts) - 1) / 2
    largest = max(
        error for panel in series.values() for of in panel.values() for error in of.values()
    )
    font = chosen_font()
    columns = min(COLUMNS, len(series))
    lines = -(-len(series) // columns)
    with mpl.rc_context({"font.family": font.families, "axes.unicode_minus": False}):
        height = lines * (0.7 + 0.32 * len(dimensions)) + 0.7
        figure = Figure(figsize=(3.4 * columns + 0.6, height), layout="constrained")
        FigureCanvasAgg(figure)
        labels = Labels(font)
        for place, (panel, of_panel) in enumerate(series.items(), start=1):
            axes = figure.add_subplot(lines, columns, place)
            for index, prompt in enumerate(prompts):
                errors = of_panel.get(prompt, {})
                axes.plot(
                    list(errors.values()),
                    # Marks of one dimension lie below each other, so that none is hidden.
                    [dimensions.index(name) + STEP * (index - middle) for name in errors],
                    MARKS[index % len(MARKS)],
                    markersize=4.5,
                    color=f"C{index}",
                    label=prompt,
                )
            axes.set_yticks(range(len(dimensions)), [labels(name) for name in dimensions])
            axes.tick_params(labelsize=8)
            axes.set_ylim(len(dimensions) - 0.5, -0.5)
            axes.set_xlim(0, 1.06 * largest or 1)
            axes.grid(axis="y", color="0.92", linewidth=6, zorder=0)
            axes.set_axisbelow(True)
            axes.set_title(labels(panel), fontsize=9)
        handles, names = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, names, ncols=len(names), fontsize=8, loc="outside upper center")
        figure.supxlabel("error against the reference (points of 100)", fontsize=9)
        if labels.are_numbered:
            figure.text(0.01, 0.005, NO_FONT, fontsize=7)
        to.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(to, dpi=130)
    return to
