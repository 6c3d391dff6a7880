"""A run as its stages left it, as one score matrix."""

import json
from itertools import chain
from pathlib import Path
from typing import Any

from shiyan.config import PathsParams
from shiyan.detectors.counts import fingerprint
from shiyan.detectors.evaluation.matrix import ScoreMatrix
from shiyan.detectors.evaluation.poems import evaluated_poems, with_attacked
from shiyan.errors import UserError
from shiyan.jsonl import read_records
from shiyan.records import Assignment, AttackedPoem, DetectorScore, Memorisation, Poem


def stored_run(paths: PathsParams) -> tuple[ScoreMatrix, dict[str, Any]]:
    """Every score of a run, and how the scores were made.

    Raises:
        UserError: scores of other poems or of another split than the run's.
    """
    both = chain.from_iterable(read_records(p, Poem) for p in (paths.poems, paths.generated))
    poems = {poem.poem_id: poem for poem in both}
    assignments = {a.poem_id: a for a in read_records(paths.splits, Assignment)}
    made = {
        "zero_shot": _made(paths.zero_shot_metrics, assignments, "zero_shot_score"),
        "trained": _made(paths.trained_metrics, assignments, "train_roberta"),
    }
    attacked = [(item.of, item.attack) for item in read_records(paths.attacked, AttackedPoem)]
    memorised = {m.poem_id for m in read_records(paths.memorisation, Memorisation) if m.flagged}
    evaluated = with_attacked(evaluated_poems(poems, assignments, memorised), attacked)
    untrained = chain(_scores(paths.zero_shot_scores), _scores(paths.zero_shot_attacked))
    trained = chain.from_iterable(
        _scores(path)
        for path in (paths.trained_scores, paths.trained_lessons, paths.trained_attacked)
    )
    return ScoreMatrix.of(evaluated, untrained, trained), made


def _scores(path: Path) -> list[DetectorScore]:
    return list(read_records(path, DetectorScore))


def _made(path: Path, assignments: dict[str, Assignment], stage: str) -> dict[str, Any]:
    """How a stage's scores were made.

    Raises:
        UserError: they rest on another split.
    """
    made: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["made"]
    if made.pop("split_sha256") != fingerprint(assignments):
        raise UserError(
            f"the scores of {stage} rest on another split than the run's, as {path} tells; run "
            f"`dvc repro {stage}` again"
        )
    return made
