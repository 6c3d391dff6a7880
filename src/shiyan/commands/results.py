"""Print the last run's numbers as a short table, each with its 95 % interval and counts."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from shiyan import lost
from shiyan.config import PathsParams, load_params
from shiyan.errors import UserError
from shiyan.report import documents, headlines

WIDTH = 118
"""Of the tables where the output is a file or a pipe."""
WHERE = """\
make ui            every run, its params, numbers and figures (MLflow)
metrics/           all numbers, by subset, with how each was made
dvc plots show     ROC, score distributions, structure by cipai, judge error by dimension"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one object a number, one a line")


def run(arguments: argparse.Namespace) -> int:
    paths = load_params("paths", PathsParams)
    files = {
        "evaluate": paths.detection_metrics,
        "generate": paths.generate_metrics,
        "eval_ci": paths.ci_metrics,
        "judge": paths.judge_metrics,
    }
    read = {stage: documents.metrics_of(path) for stage, path in files.items()}
    found = {stage: document for stage, document in read.items() if document is not None}
    for stage, path in files.items():
        if stage not in found:
            sys.stderr.write(f"{path} is not there yet; `dvc repro {stage}` writes it\n")
    for _, told in lost.told_in(found):
        sys.stderr.write(f"notice: {told}\n")
    if not found.keys() - {"generate"}:
        raise UserError("there are no results yet; `make run` runs the pipeline", 1)
    if arguments.json:
        for stage, document in found.items():
            for name, estimate in headlines.estimates(document):
                line = {"stage": stage, "name": "/".join(name), **estimate}
                print(json.dumps(line, ensure_ascii=False))
        return 0
    console = Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)
    for table in tables(found):
        # Printed apart: a title inside would be wrapped to the table's own width.
        title, table.title = table.title, None
        console.print(title, style="bold")
        console.print(table)
        console.print()
    console.print(WHERE)
    return 0


def tables(documents: Mapping[str, Mapping[str, Any]]) -> Iterator[Table]:
    """A table each for detectors, ci and judges, of what there is."""
    detection = documents.get("evaluate", {})
    if detectors := list(headlines.of_detectors(detection)):
        kinds = {
            detector: "zero-shot" if found["all"]["learnt_from"] == "threshold" else "trained"
            for detector, found in detection["detectors"].items()
        }
        yield detector_table(detectors, kinds)
    if ci := list(headlines.of_ci(documents.get("eval_ci", {}))):
        yield ci_table(ci)
    if judges := list(headlines.of_judges(documents.get("judge", {}))):
        yield judge_table(judges)


def new_table(title: str, *columns: str) -> Table:
    table = Table(title=title, box=None, padding=(0, 1))
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right", no_wrap=index > 0)
    return table


def pivoted(
    found: list[tuple[headlines.Path, Mapping[str, Any]]],
) -> dict[headlines.Path, dict[str, Mapping[str, Any]]]:
    """What is measured (all of a path but its end) -> metric -> estimate."""
    rows: dict[headlines.Path, dict[str, Mapping[str, Any]]] = {}
    for path, estimate in found:
        rows.setdefault(path[:-1], {})[path[-1]] = estimate
    return rows


def detector_table(
    found: list[tuple[headlines.Path, Mapping[str, Any]]], kinds: Mapping[str, str]
) -> Table:
    table = new_table(
        "Human or LLM? (test fold)", "detector", "kind", "AUROC", "macro-F1", "n", "unscored"
    )
    for (detector,), row in pivoted(found).items():
        cells = [shown(row.get(metric)) for metric in headlines.DETECTION]
        table.add_row(detector, kinds[detector], *cells, *counts(row))
    return table


def ci_table(found: list[tuple[headlines.Path, Mapping[str, Any]]]) -> Table:
    columns = ("structure_standard", "structure_any", "tonal_any")
    table = new_table(
        "Ci that keep their form, strictly: 读 is a line break (tone: of all characters, 0 where "
        "it is broken)",
        "written by",
        "standard form",
        "any form",
        "tone, any form",
        "n",
        "unscored",
    )
    for path, row in pivoted(found).items():
        name = " · ".join(path[1:])
        table.add_row(name, *(shown(row.get(column)) for column in columns), *counts(row))
    return table


ERRORS = {
    "constructed_absolute_error": "error of 内容 (constructed)",
    "human_error": "error (people)",
    "published_error": "error (published)",
}


def judge_table(found: list[tuple[headlines.Path, Mapping[str, Any]]]) -> Table:
    rows = pivoted(found)
    errors = {
        name: title for name, title in ERRORS.items() if any(name in r for r in rows.values())
    }
    table = new_table(
        "Judges of readings: absolute error on a scale of 0-100; constructed: the reading of "
        "another poem, which deserves 0 for content",
        "judge",
        *errors.values(),
        "replies read whole",
        "n",
        "unscored",
    )
    for path, row in rows.items():
        cells = [shown(row.get(name), digits=1) for name in errors]
        of_errors = {name: row[name] for name in errors if name in row}
        table.add_row(" · ".join(path[1:]), *cells, shown(row.get("parsed"), 2), *counts(of_errors))
    return table


def counts(row: Mapping[str, Mapping[str, Any]]) -> tuple[str, str]:
    """n and how many are unscored, of a row whose estimates rest on the same items."""
    if not row:
        return "—", "—"
    first = next(iter(row.values()))
    return str(first["n"]), str(first["n_unscored"])


def shown(estimate: Mapping[str, Any] | None, digits: int = 3) -> str:
    """0.912 [0.850, 0.961]; a dash where there is no value."""
    if estimate is None or estimate["value"] is None:
        return "—"
    value = f"{estimate['value']:.{digits}f}"
    if estimate["low"] is None or estimate["high"] is None:
        return f"{value} [—]"
    return f"{value} [{estimate['low']:.{digits}f}, {estimate['high']:.{digits}f}]"
