"""Poller's Tables 3 and 10 from means alone: errors, their average, reductions against P0."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from shiyan.errors import UserError
from shiyan.judging.prompts import BASELINE

AVERAGE = "Avg"
LOWEST, HIGHEST = 0, 100


@dataclass(frozen=True)
class Row:
    """One judge with one prompt.

    Attributes:
        errors: dimension -> |mean of the judge - mean of the people|; with `Avg`, the mean
            of the errors. None where the file has no mean.
        reductions: percent by which P0's error shrinks, from errors rounded to two decimals
            as the paper prints and uses them; None for P0 and where there is no P0.
        exact_reductions: the same from unrounded errors.
    """

    judge: str
    prompt: str
    errors: Mapping[str, float | None]
    reductions: Mapping[str, float | None]
    exact_reductions: Mapping[str, float | None]


def read_table(path: Path) -> list[Row]:
    """The rows of a JSON file with `human` {dimension: mean} and `judge_means`
    [{evaluator, prompt_id, scores {dimension: mean}}]; nothing else in it is read.

    Raises:
        UserError: no such file, no JSON, a key that is missing, no judge at all, a mean that is
            no number of the scale, a judge and prompt that stand twice.
    """
    value = _load(path)
    human = {name: _mean(path, "human", name, mean) for name, mean in value["human"].items()}
    absent = [name for name, mean in human.items() if mean is None]
    if absent or not human:
        raise UserError(f"{path}: human has no mean of {', '.join(absent) or 'any dimension'}")
    if not value["judge_means"]:
        raise UserError(f"{path}: judge_means is empty; it needs a judge and prompt with its means")
    errors: dict[tuple[str, str], dict[str, float | None]] = {}
    for position, entry in enumerate(value["judge_means"]):
        where = f"judge_means[{position}]"
        judge, prompt, scores = _entry(path, where, entry)
        if (judge, prompt) in errors:
            raise UserError(f"{path}: {where} is {judge} with {prompt} a second time; keep one")
        unknown = [name for name in scores if name not in human]
        if unknown:
            raise UserError(f"{path}: {where} scores {unknown[0]!r}, which human does not")
        errors[judge, prompt] = _errors(path, where, human, scores)
    return [
        Row(
            judge,
            prompt,
            of_row,
            _reductions(of_row, errors.get((judge, BASELINE)), prompt, digits=2),
            _reductions(of_row, errors.get((judge, BASELINE)), prompt, digits=None),
        )
        for (judge, prompt), of_row in errors.items()
    ]


def best(rows: list[Row]) -> dict[str, Row]:
    """Dimension (and Avg) -> the row with the least error, the first of equals."""
    names = rows[0].errors if rows else {}
    found = {}
    for name in names:
        known = [row for row in rows if row.errors[name] is not None]
        if known:
            found[name] = min(known, key=lambda row: float(row.errors[name] or 0.0))
    return found


def _load(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; check the path", 2) from None
    except OSError as error:
        raise UserError(f"{path} could not be read: {error.strerror}", 2) from error
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8; save it as UTF-8 and run again") from None
    except ValueError as error:
        raise UserError(f"{path} is not valid JSON: {error}") from None
    except RecursionError:
        raise UserError(f"{path} is nested too deeply to be a table of judges") from None
    shapes = {"human": dict, "judge_means": list}
    for key, shape in shapes.items():
        if not isinstance(value, dict) or not isinstance(value.get(key), shape):
            raise UserError(
                f"{path} has no {key}; it needs human {{dimension: mean}} and judge_means "
                "[{evaluator, prompt_id, scores}]"
            )
    return dict(value)


def _entry(path: Path, where: str, entry: Any) -> tuple[str, str, dict[str, Any]]:
    if not isinstance(entry, dict):
        raise UserError(f"{path}: {where} is no object with evaluator, prompt_id and scores")
    for key, shape in (("evaluator", str), ("prompt_id", str), ("scores", dict)):
        if not isinstance(entry.get(key), shape):
            raise UserError(f"{path}: {where} has no {key}")
    return entry["evaluator"], entry["prompt_id"], entry["scores"]


def _mean(path: Path, where: str, name: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UserError(f"{path}: {where} has {name} {value!r}, a number is wanted")
    if not LOWEST <= value <= HIGHEST:
        raise UserError(f"{path}: {where} has {name} {value:g}; allowed is {LOWEST} to {HIGHEST}")
    return float(value)


def _errors(
    path: Path, where: str, human: Mapping[str, float | None], scores: Mapping[str, Any]
) -> dict[str, float | None]:
    errors: dict[str, float | None] = {}
    for name, mean in human.items():
        judged = _mean(path, where, name, scores.get(name))
        # Differences of decimals leave dust in the 15th place.
        errors[name] = None if judged is None or mean is None else round(abs(judged - mean), 10)
    known = [error for error in errors.values() if error is not None]
    return errors | {AVERAGE: fmean(known) if len(known) == len(errors) else None}


def _reductions(
    errors: Mapping[str, float | None],
    baseline: Mapping[str, float | None] | None,
    prompt: str,
    digits: int | None,
) -> dict[str, float | None]:
    if baseline is None or prompt == BASELINE:
        return dict.fromkeys(errors)
    reductions: dict[str, float | None] = {}
    for name, error in errors.items():
        first = baseline[name]
        if error is None or first is None:
            reductions[name] = None
            continue
        if digits is not None:
            error, first = round(error, digits), round(first, digits)
        reductions[name] = 100 * (1 - error / first) if first else None
    return reductions
