"""A table of numbers, written as CSV for machines, LaTeX for papers and text for people."""

import csv
import io
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shiyan.jsonl import replacing
from shiyan.metrics import Estimate

Cell = str | int | float | None | Estimate
PARTS = ("low", "high", "n", "n_unscored", "reason")
"""What follows an estimate in the CSV."""
DASH = "—"
ESCAPES = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        DASH: "--",
        "·": r"\textperiodcentered{}",
    }
)


@dataclass(frozen=True)
class Table:
    """One table of the report.

    Attributes:
        name: its file's stem, such as `table_2`.
        caption: one sentence: what is counted, on what, and after which table.
        columns: one name a column; the first columns name the row.
        rows: a cell a column. An Estimate is shown with its interval; None and a number that
            is not finite as a dash.
        notes: how the numbers were made, a sentence each.
        estimates: the columns that hold estimates. They are named here, not read off the rows,
            so that the header of the CSV is the same whatever a run could measure.
        digits: decimals of a float and of an estimate.
        scale: what a float and an estimate are multiplied with, 100 for percent.
    """

    name: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = field(default=())
    estimates: Collection[str] = field(default=(), kw_only=True)
    digits: int = 2
    scale: float = 1.0

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{self.name}: {len(row)} cells, {len(self.columns)} columns")
            for column, cell in zip(self.columns, row, strict=True):
                if isinstance(cell, Estimate) and column not in self.estimates:
                    raise ValueError(f"{self.name}: column {column!r} is not among its estimates")

    def shown(self, cell: Cell) -> str:
        """A cell as text: 91.2 [85.0, 96.1]."""
        if cell is None or _is_no_number(cell):
            return DASH
        if isinstance(cell, Estimate):
            value, low, high = (self.shown(v) for v in (cell.value, cell.low, cell.high))
            return value if DASH in (value, low, high) else f"{value} [{low}, {high}]"
        if isinstance(cell, float):
            return f"{cell * self.scale:.{self.digits}f}"
        return str(cell)

    def csv(self) -> str:
        """Unrounded; each of `estimates` is followed by its low, high, n, n_unscored and reason."""
        estimated = [column in self.estimates for column in self.columns]
        header = [
            name
            for column, wide in zip(self.columns, estimated, strict=True)
            for name in ([column, *(f"{column} {part}" for part in PARTS)] if wide else [column])
        ]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(header)
        for row in self.rows:
            writer.writerow(
                value
                for cell, wide in zip(row, estimated, strict=True)
                for value in self._values(cell, wide)
            )
        return text.getvalue()

    def _values(self, cell: Cell, wide: bool) -> list[Any]:
        if isinstance(cell, Estimate):
            scaled = [self._scaled(v) for v in (cell.value, cell.low, cell.high)]
            return [*scaled, cell.n, cell.n_unscored, cell.reason or ""]
        return [self._scaled(cell), *[""] * len(PARTS)] if wide else [self._scaled(cell)]

    def _scaled(self, cell: Cell) -> Any:
        if cell is None or _is_no_number(cell):
            return ""
        return cell * self.scale if isinstance(cell, float) else cell

    def latex(self) -> str:
        """A booktabs table; Chinese in it needs xelatex or lualatex with ctex."""
        width = len(self.columns)
        lines = [" & ".join(escaped(c) for c in self.columns)]
        lines += [" & ".join(escaped(self.shown(cell)) for cell in row) for row in self.rows]
        head, *body = [f"    {_guarded(line)} \\\\" for line in lines]
        notes = [f"  \\par\\footnotesize {escaped(note)}" for note in self.notes]
        return "\n".join(
            [
                "\\begin{table}",
                "  \\centering",
                f"  \\caption{{{escaped(self.caption)}}}",
                f"  \\label{{tab:{self.name}}}",
                f"  \\begin{{tabular}}{{l{'r' * (width - 1)}}}",
                "    \\toprule",
                head,
                "    \\midrule",
                *body,
                "    \\bottomrule",
                "  \\end{tabular}",
                *notes,
                "\\end{table}",
                "",
            ]
        )

    def markdown(self) -> str:
        """With caption and notes, for reading as it is or rendered."""
        rows = [
            [str(c) for c in self.columns],
            *[[self.shown(c) for c in row] for row in self.rows],
        ]
        cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
        head, *body = [f"| {' | '.join(row)} |" for row in cells]
        rule = "|" + "|".join([" --- ", *[" ---: "] * (len(self.columns) - 1)]) + "|"
        notes = [f"- {note}" for note in self.notes]
        blank = [""] if notes else []
        return "\n".join([f"**{self.caption}**", "", head, rule, *body, *blank, *notes, ""])

    def write(self, folder: Path) -> list[Path]:
        """Write NAME.csv, NAME.tex and NAME.md, each in one rename."""
        written = []
        for suffix, text in (("csv", self.csv()), ("tex", self.latex()), ("md", self.markdown())):
            path = folder / f"{self.name}.{suffix}"
            with replacing(path) as file:
                file.write(text)
            written.append(path)
        return written


def _is_no_number(cell: Cell) -> bool:
    """NaN or an infinity, which would be printed as a word."""
    return isinstance(cell, float) and not math.isfinite(cell)


def _guarded(line: str) -> str:
    """A row of LaTeX that is not read as an argument of the line break or rule before it."""
    return f"{{}}{line}" if line.lstrip().startswith(("[", "*")) else line


def escaped(text: str) -> str:
    """Text that LaTeX prints as it stands."""
    return text.translate(ESCAPES)


def estimate(found: Mapping[str, Any] | None) -> Estimate | None:
    """An estimate as it was read from a metrics file; None where there is none."""
    if found is None:
        return None
    return Estimate(
        found["value"],
        found["low"],
        found["high"],
        found["n"],
        found["n_unscored"],
        found.get("reason"),
    )
