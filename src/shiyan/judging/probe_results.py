"""What judges gave doctored readings: which probes they passed, and by how much scores fell."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from shiyan.config import ProbeName
from shiyan.judging.probes import CONTENT, Probe
from shiyan.metrics import Kind, mean_estimate
from shiyan.records import Judgment

Given = Mapping[str, float | None]
"""Dimension -> score as a judgment has it; empty where it has none."""

Row = tuple[Probe, Given, Given]
"""A probe, what the true reading was given and what the doctored one was."""


def passes(name: ProbeName, true: Given, doctored: Given) -> bool | None:
    """Did the judge notice (or, of orders, stay unmoved)? None where what the rule needs was
    not scored: 内容 of praise, else every dimension of both."""
    if name == "praise":
        content = doctored.get(CONTENT)
        return None if content is None else content < 50
    falls = _falls(true, doctored)
    if falls is None:
        return None
    if name in ("other_poem", "empty"):
        return all(fall >= 30 for fall in falls.values())
    if name == "swapped_content":
        rest = [abs(fall) for dimension, fall in falls.items() if dimension != CONTENT]
        return falls[CONTENT] >= 20 and max(rest) <= 10
    if name == "first_sentence":
        return fmean(falls.values()) > 0
    return max(map(abs, falls.values())) <= 5


def _falls(true: Given, doctored: Given) -> dict[str, float] | None:
    """Dimension -> by how much it fell; None where one of the two lacks a score."""
    falls = {name: _fall(true, doctored, name) for name in true}
    known = {name: fall for name, fall in falls.items() if fall is not None}
    return known if known and len(known) == len(falls) else None


def _fall(true: Given, doctored: Given, name: str) -> float | None:
    before, after = true.get(name), doctored.get(name)
    return None if before is None or after is None else before - after


def evaluate_probes(
    probes: Sequence[Probe], judgments: Sequence[Judgment], *, resamples: int, seed: int
) -> dict[str, Any]:
    """Judge -> prompt -> probe -> share passed, and by how much content and mean fell.

    Paired with the true reading's judgment of the same repeat; a pair that lacks a score
    which a number needs is unscored there.
    """
    of = {(j.judge, j.prompt_id, j.item_id, j.sample_index): j for j in judgments}
    probe_of = {probe.reading.item_id: probe for probe in probes}
    found: dict[str, dict[str, dict[str, list[Row]]]] = {}
    for judgment in judgments:
        probe = probe_of.get(judgment.item_id)
        if probe is None:
            continue
        true = of.get((judgment.judge, judgment.prompt_id, probe.true_item, judgment.sample_index))
        row = (probe, (true.scores if true else None) or {}, judgment.scores or {})
        of_judge = found.setdefault(judgment.judge, {})
        of_judge.setdefault(judgment.prompt_id, {}).setdefault(probe.name, []).append(row)
    return {
        judge: {
            prompt: {
                name: _summary(rows, resamples=resamples, seed=seed)
                for name, rows in of_prompt.items()
            }
            for prompt, of_prompt in of_judge.items()
        }
        for judge, of_judge in found.items()
    }


def _summary(rows: Sequence[Row], *, resamples: int, seed: int) -> dict[str, Any]:
    poems = [probe.poem_id for probe, _, _ in rows]
    columns: dict[str, list[float | None]] = {"passed": [], "content_fall": [], "mean_fall": []}
    for probe, true, doctored in rows:
        passed, falls = passes(probe.name, true, doctored), _falls(true, doctored)
        columns["passed"].append(None if passed is None else float(passed))
        columns["content_fall"].append(_fall(true, doctored, CONTENT))
        columns["mean_fall"].append(None if falls is None else fmean(falls.values()))
    kinds: dict[str, Kind] = {"passed": "share"}
    return {
        key: mean_estimate(
            values, poems, resamples=resamples, seed=seed, kind=kinds.get(key, "mean")
        ).as_dict()
        for key, values in columns.items()
    }
