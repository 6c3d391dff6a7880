"""Several detectors' scores as one: a logistic regression on them, fitted on train poems.

The regressions are cross-fitted as every detector that learns is (`crossfit`). A poem that
one of the fused detectors could not score has no fused score: a value put in its place
would be a failure turned into data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shiyan.detectors.crossfit import Corpus, Learner, Rows, Scorer, as_records, fit_and_score
from shiyan.detectors.metrics import lacks
from shiyan.metrics import Floats
from shiyan.records import DetectorScore

NAME = "fusion"
FEWEST = 2
"""Detectors; of one there is nothing to fuse."""


@dataclass(frozen=True)
class Fusion:
    """The fused score of every poem, and what it was fused from.

    Attributes:
        parts: the detectors that were fused.
        left_out: detector -> why it was not.
        weights: detector -> its weight for a score one standard deviation above the
            mean, the mean over the cross-fitted regressions.
        reason: why there is no fusion at all; else empty.
    """

    scores: list[DetectorScore]
    parts: tuple[str, ...]
    left_out: Mapping[str, str]
    weights: Mapping[str, float]
    reason: str = ""

    @property
    def made(self) -> dict[str, str]:
        """How it was made, for a signature."""
        if self.reason:
            return {NAME: f"none, {self.reason}"}
        weights = ", ".join(f"{name} {self.weights[name]:+.2f}" for name in self.parts)
        without = "".join(f"; without {name}: {why}" for name, why in self.left_out.items())
        return {
            NAME: "logistic regressions on standardised scores, cross-fitted by group on the "
            f"train fold and aligned; mean weights {weights}{without}"
        }


def fused(table: Mapping[str, Floats], corpus: Corpus, folds: int, seed: int) -> Fusion:
    """Fuse the scores of detectors; every poem has a record, null with a reason if unscored.

    Args:
        table: detector -> (n,), NaN where there is none.
        folds: parts of the train fold for its own scores.
    """
    left_out = _left_out(table, corpus)
    parts = tuple(name for name in table if name not in left_out)
    if len(parts) < FEWEST:
        told = "; ".join(f"{name}: {why}" for name, why in left_out.items())
        reason = f"{len(parts)} detectors to fuse, {FEWEST} are needed"
        reason += f" ({told})" if told else ""
        return Fusion(_unscored(corpus, reason), parts, left_out, {}, reason)
    matrix = np.stack([table[name] for name in parts], axis=1)
    scorable = _without_gaps(corpus, matrix, parts)
    if reason := lacks(scorable.labels[scorable.rows(train=True)]):
        reason = f"train fold: {reason}"
        return Fusion(_unscored(corpus, reason), parts, left_out, {}, reason)
    of_each: list[Floats] = []
    found = fit_and_score(_learner(matrix, scorable, seed, of_each), scorable, folds, seed)
    if not found.models:
        reason = next(iter(found.reasons.values()))
        return Fusion(_unscored(corpus, reason), parts, left_out, {}, reason)
    weights = dict(zip(parts, np.mean(of_each, axis=0).tolist(), strict=True))
    return Fusion(as_records(NAME, scorable, found), parts, left_out, weights)


def _left_out(table: Mapping[str, Floats], corpus: Corpus) -> dict[str, str]:
    """Detectors that tell the train poems nothing, and why; they would silence all others."""
    train = corpus.rows(train=True)
    found = {}
    for name, column in table.items():
        scored = column[train][np.isfinite(column[train])]
        if not len(scored) or len(scored) < len(train) / 2:
            found[name] = f"{len(scored)} of {len(train)} train poems are scored"
        elif np.ptp(scored) == 0:
            found[name] = "all its scores of train poems are equal"
    return found


def _without_gaps(corpus: Corpus, matrix: Floats, parts: Sequence[str]) -> Corpus:
    """The corpus in which a poem that a part could not score is unscored, with the reason."""
    reasons = dict(corpus.reasons)
    for row in np.flatnonzero(~np.isfinite(matrix).all(1)).tolist():
        silent = [n for n, v in zip(parts, matrix[row], strict=True) if not np.isfinite(v)]
        reasons.setdefault(corpus.poem_ids[row], f"no score by {', '.join(silent)}")
    return Corpus(
        corpus.poem_ids, corpus.texts, corpus.labels, corpus.groups, corpus.is_train, reasons
    )


def _learner(matrix: Floats, corpus: Corpus, seed: int, weights: list[Floats]) -> Learner:
    def learn(rows: Rows, fold: str) -> Scorer:
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        regression = LogisticRegression(class_weight="balanced", max_iter=1000, random_state=seed)
        model = make_pipeline(StandardScaler(), regression)
        model.fit(matrix[rows], corpus.labels[rows])
        weights.append(regression.coef_[0])

        def score(asked: Rows) -> Floats:
            if not len(asked):
                return np.zeros(0)
            return np.asarray(model.decision_function(matrix[asked]), np.float64)

        return score

    return learn


def _unscored(corpus: Corpus, reason: str) -> list[DetectorScore]:
    return [
        DetectorScore(poem_id=poem_id, detector=NAME, score=None, unscored_reason=reason)
        for poem_id in corpus.poem_ids
    ]
