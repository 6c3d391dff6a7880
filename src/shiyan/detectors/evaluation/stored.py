"""A run as its stages left it, as one score matrix."""

import json
from itertools import chain
from pathlib import Path
from typing import Any

from shiyan.config import PathsParams
from shiyan.detectors.counts import fingerprint, score_counts
from shiyan.detectors.evaluation.matrix import ScoreMatrix
from shiyan.detectors.evaluation.poems import evaluated_poems, with_attacked
from shiyan.errors import UserError
from shiyan.jsonl import read_by_id, read_records
from shiyan.records import Assignment, AttackedPoem, DetectorScore, Memorisation, Poem


def stored_run(paths: PathsParams) -> tuple[ScoreMatrix, dict[str, Any]]:
    """Every score of a run, and how the scores were made.

    Raises:
        UserError: scores of other poems or of another split than the run's.
    """
    poems = read_by_id(Poem, paths.poems, paths.generated)
    assignments = read_by_id(Assignment, paths.splits)
    own = {
        "zero_shot": (paths.zero_shot_metrics, paths.zero_shot_scores, "zero_shot_score"),
        "trained": (paths.trained_metrics, paths.trained_scores, "train_roberta"),
    }
    made, scores = {}, {}
    for name, (metrics, path, stage) in own.items():
        document = _metrics(metrics, stage)
        scores[name] = _scores(path)
        _refuse_others(path, score_counts(scores[name]), document["scores"], stage)
        made[name] = _made(document["made"], metrics, assignments, stage)
    attacked = [(item.of, item.attack) for item in read_records(paths.attacked, AttackedPoem)]
    memorised = {m.poem_id for m in read_records(paths.memorisation, Memorisation) if m.flagged}
    evaluated = with_attacked(evaluated_poems(poems, assignments, memorised), attacked)
    untrained = chain(scores["zero_shot"], _scores(paths.zero_shot_attacked))
    further = (_scores(path) for path in (paths.trained_lessons, paths.trained_attacked))
    trained = chain(scores["trained"], *further)
    return ScoreMatrix.of(evaluated, untrained, trained), made


def _scores(path: Path) -> list[DetectorScore]:
    return list(read_records(path, DetectorScore))


def _metrics(path: Path, stage: str) -> dict[str, Any]:
    """What a scorer told of its scores.

    Raises:
        UserError: its metrics file is missing or spoilt.
    """
    again = f"run `dvc repro {stage}` again"
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        document["scores"], document["made"]["split_sha256"]
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); {again}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is no metrics file of {stage}; {again}") from error
    return document


def _refuse_others(path: Path, found: dict[str, Any], told: dict[str, Any], stage: str) -> None:
    """A detector or a score more or less than the scorer left is another number.

    Raises:
        UserError: names the first detector whose scores are not those that were told of.
    """
    for detector in dict.fromkeys((*told, *found)):
        if found.get(detector) != told.get(detector):
            counts = [_amount(counts.get(detector)) for counts in (found, told)]
            raise UserError(
                f"{path} holds {counts[0]} by {detector}, and {stage} left {counts[1]}; run "
                f"`dvc repro {stage}` again, or `dvc checkout` brings its scores back"
            )


def _amount(counts: dict[str, Any] | None) -> str:
    if counts is None:
        return "no score"
    reasons = ", ".join(counts["unscored_reasons"])
    told = f"{counts['n_scored']} scores and {counts['n_unscored']} unscored poems"
    return f"{told} ({reasons})" if reasons else told


def _made(
    made: dict[str, Any], path: Path, assignments: dict[str, Assignment], stage: str
) -> dict[str, Any]:
    """How a stage's scores were made.

    Raises:
        UserError: they rest on another split.
    """
    if made["split_sha256"] != fingerprint(assignments):
        raise UserError(
            f"the scores of {stage} rest on another split than the run's, as {path} tells; run "
            f"`dvc repro {stage}` again"
        )
    return {key: value for key, value in made.items() if key != "split_sha256"}
