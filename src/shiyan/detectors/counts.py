"""What the scorers tell of their scores in their metrics files."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from shiyan.records import Assignment, DetectorScore


def score_counts(scores: Iterable[DetectorScore]) -> dict[str, dict[str, Any]]:
    """Detector -> how many poems it scored, how many not, and why not."""
    by_detector: dict[str, list[DetectorScore]] = {}
    for score in scores:
        by_detector.setdefault(score.detector, []).append(score)
    return {detector: _counted(own) for detector, own in by_detector.items()}


def _counted(scores: Iterable[DetectorScore]) -> dict[str, Any]:
    reasons = Counter(
        score.unscored_reason or "no reason given" if score.score is None else ""
        for score in scores
    )
    n_scored = reasons.pop("", 0)
    return {
        "n_scored": n_scored,
        "n_unscored": reasons.total(),
        "unscored_reasons": dict(reasons.most_common()),
    }


def fingerprint(assignments: Mapping[str, Assignment]) -> str:
    """Of a split: scores that rest on two of them must not stand in one evaluation."""
    lines = (f"{a.poem_id}\t{a.group_id}\t{a.fold}" for a in assignments.values())
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
