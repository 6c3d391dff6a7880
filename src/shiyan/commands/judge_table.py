"""Errors of judges against people, and what each prompt changes against P0, from means alone.

FILE is JSON with `human` {dimension: mean} and `judge_means` [{evaluator, prompt_id,
scores {dimension: mean}}]. Error: |mean of the judge - mean of the people|; Avg: the mean
of the errors; reduction: percent of P0's error, from errors rounded to two decimals.
"""

import argparse
import json
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from shiyan.judging.table import Row, best, read_table


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a JSON file of means")
    parser.add_argument("--json", action="store_true", help="one object a line, a row each")


def run(arguments: argparse.Namespace) -> int:
    rows = read_table(arguments.file)
    if arguments.json:
        for row in rows:
            print(json.dumps(as_object(row, rows), ensure_ascii=False))
        return 0
    print_table("Error", rows, [row.errors for row in rows])
    changed = [row for row in rows if any(v is not None for v in row.reductions.values())]
    if changed:
        print()
        print_table("Reduction against P0, %", changed, [row.reductions for row in changed])
    print()
    for name, row in best(rows).items():
        print(f"least error, {name}: {row.judge} {row.prompt} ({row.errors[name]:.2f})")
    return 0


def as_object(row: Row, rows: list[Row]) -> dict[str, object]:
    return {
        "judge": row.judge,
        "prompt": row.prompt,
        "errors": row.errors,
        "reduction_percent": row.reductions,
        "reduction_percent_unrounded": row.exact_reductions,
        "least_error_of": [name for name, first in best(rows).items() if first is row],
    }


def print_table(title: str, rows: list[Row], values: Sequence[object]) -> None:
    names = list(rows[0].errors)
    table = [[title, "", *names]]
    for row, numbers in zip(rows, values, strict=True):
        assert isinstance(numbers, dict)
        cells = ["—" if numbers[name] is None else f"{numbers[name]:.2f}" for name in names]
        table.append([row.judge, row.prompt, *cells])
    widths = [max(width(line[i]) for line in table) for i in range(len(table[0]))]
    for line in table:
        left = [padded(cell, w) for cell, w in zip(line[:2], widths[:2], strict=True)]
        right = [padded(cell, w, "right") for cell, w in zip(line[2:], widths[2:], strict=True)]
        print("  ".join([*left, *right]).rstrip())


def width(text: str) -> int:
    """Columns on a terminal: a Chinese character takes two."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def padded(text: str, columns: int, side: str = "left") -> str:
    blanks = " " * (columns - width(text))
    return text + blanks if side == "left" else blanks + text
