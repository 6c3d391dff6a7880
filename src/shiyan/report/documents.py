"""JSON that reports rest on: metrics files of a run, and the facts that come with the package."""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from shiyan.errors import UserError

Document = Mapping[str, Any]


def metrics_of(path: Path) -> Document | None:
    """A metrics file; None where its stage has not run.

    Raises:
        UserError: the file is no JSON object.
    """
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path} is not valid JSON ({error}); `dvc repro` writes it anew") from None
    if not isinstance(found, dict) or not found:
        raise UserError(f"{path} holds no metrics; `dvc repro` writes it anew")
    return found


def needed_metrics_of(path: Path, stage: str) -> Document:
    """`metrics_of`, or a sentence that names the stage that has not run."""
    found = metrics_of(path)
    if found is None:
        raise UserError(
            f"{path} does not exist; the stage {stage} writes it, so run `dvc repro {stage}` first"
        )
    return found


@cache
def packaged(name: str) -> Document:
    """A JSON document of the package's data folder, such as `published/cciv.json`."""
    found: Document = json.loads((files("shiyan") / "data" / name).read_text(encoding="utf-8"))
    return found


def flat_tables(document: Any) -> dict[str, dict[str, list[Any]]]:
    """Table -> column -> values, of a file of tables (table -> place -> detector -> numbers).

    An estimate takes a column of its own and one each for its ends, n and reason; a table
    without rows is left out, and any other document has none.
    """
    tables = document.get("tables", {}) if isinstance(document, Mapping) else {}
    found = {}
    for name, places in tables.items():
        rows = [
            _flat({"detector": detector, **numbers})
            for of_place in places.values()
            for detector, numbers in of_place.items()
        ]
        columns = dict.fromkeys(column for row in rows for column in row)
        if rows:
            found[name] = {column: [row.get(column) for row in rows] for column in columns}
    return found


def _flat(numbers: Document) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in numbers.items():
        if isinstance(value, Mapping):
            parts = {f"{name} {part}": inner for part, inner in value.items() if part != "value"}
            found |= {name: value.get("value"), **parts}
        else:
            found[name] = value
    return found
