"""Compute published numbers of detectors again, from scores by poem id and without texts."""

import argparse
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from shiyan.config import EvaluateParams, validated
from shiyan.errors import UserError
from shiyan.report import documents

MATRIX, HEADLINES, CELLS = "matrix.jsonl", "detection.json", "detection_cells.json"
CLOSE = 1e-6
"""Processors round sums and the fusion's regression differently, far below a printed digit."""
SHOWN = 5


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder",
        type=Path,
        help=f"holds {MATRIX} and {HEADLINES} as the stage evaluate wrote them; {CELLS} is "
        "compared too where it is there",
    )


def run(arguments: argparse.Namespace) -> int:
    """Compare every number with the published one; 1 where any differs.

    Raises:
        UserError: a file is missing or malformed.
    """
    from shiyan.detectors.evaluation.evaluate import evaluate_scores
    from shiyan.detectors.evaluation.matrix import ScoreMatrix

    folder: Path = arguments.folder
    names = [HEADLINES, *([CELLS] if (folder / CELLS).exists() else [])]
    published = {name: _document(folder / name) for name in names}
    made = published[HEADLINES]["made"]
    known = {name: made.get(name) for name in EvaluateParams.model_fields}
    params = validated("made", EvaluateParams, known, str(folder / HEADLINES))
    scorers = {name: made[name] for name in ("zero_shot", "trained") if name in made}
    evaluation = evaluate_scores(ScoreMatrix.read(folder / MATRIX), params, scorers)
    found = {HEADLINES: evaluation.as_metrics(), CELLS: evaluation.as_cells()}
    n_equal, apart = 0, list[str]()
    for name, document in published.items():
        for path, ours, theirs in _numbers(_plain(found[name]), document):
            if _is_close(ours, theirs):
                n_equal += 1
            else:
                apart.append(f"{name}: {'/'.join(path)} is {ours}, published is {theirs}")
    for line in apart[:SHOWN]:
        print(line)
    if len(apart) > SHOWN:
        print(f"and {len(apart) - SHOWN} more")
    compared = " and ".join(published)
    print(f"{n_equal} numbers are equal, {len(apart)} differ ({compared} of {folder})")
    return 1 if apart else 0


def _document(path: Path) -> documents.Document:
    found = documents.metrics_of(path)
    if found is None or "made" not in found:
        raise UserError(
            f"{path} is not there or was not written by the stage evaluate; a folder of results "
            f"holds {MATRIX} and {HEADLINES}"
        )
    return found


def _plain(document: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(document))


def _numbers(ours: Any, theirs: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[Any, Any, Any]]:
    """(path, ours, published) of every number and null of either."""
    if isinstance(ours, Mapping) or isinstance(theirs, Mapping):
        sides = [side if isinstance(side, Mapping) else {} for side in (ours, theirs)]
        for key in dict.fromkeys((*sides[0], *sides[1])):
            yield from _numbers(sides[0].get(key), sides[1].get(key), (*path, str(key)))
    elif not isinstance(ours, str | list) or not isinstance(theirs, str | list):
        yield path, ours, theirs


def _is_close(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, int | float) and isinstance(theirs, int | float):
        return math.isclose(ours, theirs, rel_tol=CLOSE, abs_tol=CLOSE)
    return bool(ours == theirs)
