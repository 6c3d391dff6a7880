"""Scores of detectors that learn, without letting a poem be scored by what learnt it.

A test poem is scored by the detector that learnt from the whole train fold. A
train poem is scored by one that learnt from the other groups of the train fold:
from such scores a threshold can be fitted, whereas a detector that has learnt its
poems by heart parts them perfectly and puts the threshold anywhere.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shiyan.detectors.metrics import lacks
from shiyan.metrics import Floats, Labels
from shiyan.poem import characters
from shiyan.records import Assignment, DetectorScore, Poem
from shiyan.splits import at_main_temperature

Rows = NDArray[np.intp]
"""Positions in a `Corpus`; ascending."""

Scorer = Callable[[Rows], Floats]
"""Scores of rows, one each; NaN where a row cannot be scored."""

Learner = Callable[[Rows, str], Scorer]
"""Learn from these rows, under this name ("all", "fold 1", …).

It, or its scorer, raises an UnlearntError where nothing could be learnt.
"""


OTHER_TEMPERATURE = "of another temperature than the one that is learnt from"


class UnlearntError(Exception):
    """Why nothing could be learnt from the poems of a part."""


@dataclass(frozen=True)
class Corpus:
    """The poems that detectors learn from and score, in the order of the records.

    Attributes:
        poem_ids, texts: one a poem; the text is the body.
        labels: 1 = LLM; (n,).
        groups: the group that is never parted.
        is_train: (n,).
        reasons: why a poem cannot be scored, by poem id.
    """

    poem_ids: tuple[str, ...]
    texts: tuple[str, ...]
    labels: Labels
    groups: tuple[str, ...]
    is_train: NDArray[np.bool_]
    reasons: Mapping[str, str]

    @classmethod
    def of(
        cls,
        poems: Mapping[str, Poem],
        assignments: Mapping[str, Assignment],
        *,
        one_temperature: bool = False,
    ) -> "Corpus":
        """Detectors read the body of a poem; one without a character has no score.

        Args:
            one_temperature: LLM poems of the train fold at another temperature than
                `splits.at_main_temperature` keeps are neither learnt from nor scored.
        """
        reasons = {
            poem.poem_id: "no Chinese character" if poem.text.strip() else "empty"
            for poem in poems.values()
            if not characters(poem.text)
        }
        if one_temperature:
            main = {poem.poem_id for poem in at_main_temperature(poems.values())}
            for poem_id in poems:
                if poem_id not in main and assignments[poem_id].fold == "train":
                    reasons.setdefault(poem_id, OTHER_TEMPERATURE)
        return cls(
            tuple(poems),
            tuple(poem.text for poem in poems.values()),
            np.array([poem.label for poem in poems.values()], np.int_),
            tuple(assignments[poem_id].group_id for poem_id in poems),
            np.array([assignments[poem_id].fold == "train" for poem_id in poems], np.bool_),
            reasons,
        )

    def __len__(self) -> int:
        return len(self.poem_ids)

    def rows(self, train: bool) -> Rows:
        """Rows of a fold that can be scored."""
        scorable = np.array([poem_id not in self.reasons for poem_id in self.poem_ids], np.bool_)
        return np.flatnonzero((self.is_train == train) & scorable)

    def texts_of(self, rows: Rows) -> list[str]:
        return [self.texts[row] for row in rows]


def group_folds(labels: Labels, groups: Sequence[str], folds: int, seed: int) -> NDArray[np.intp]:
    """A fold number for each item: whole groups, dealt so that folds are alike in classes.

    There are no more folds than groups.
    """
    sizes: dict[str, list[int]] = {}
    for label, group in zip(labels, groups, strict=True):
        sizes.setdefault(group, [0, 0])[int(label)] += 1
    names = sorted(sizes)
    order = np.random.default_rng(seed).permutation(len(names))
    # Groups of a kind are dealt one after the other, so each kind spreads over all folds.
    dealt = sorted((names[i] for i in order), key=lambda name: [n > 0 for n in sizes[name]])
    fold_of = {name: place % min(folds, len(names)) for place, name in enumerate(dealt)}
    return np.array([fold_of[group] for group in groups], np.intp)


@dataclass(frozen=True)
class Fitted:
    """One detector's scores of a whole corpus.

    Attributes:
        scores: NaN where there is none; (n,).
        reasons: why, by row.
        scorer: the detector that learnt from the whole train fold; None if it could not.
    """

    scores: Floats
    reasons: dict[int, str]
    scorer: Scorer | None


def fit_and_score(learn: Learner, corpus: Corpus, folds: int, seed: int) -> Fitted:
    """Learn once from the train fold and `folds` times from a part of it, and score all poems."""
    scores = np.full(len(corpus), np.nan)
    reasons = {
        row: corpus.reasons[poem_id]
        for row, poem_id in enumerate(corpus.poem_ids)
        if poem_id in corpus.reasons
    }
    train, test = corpus.rows(train=True), corpus.rows(train=False)
    if reason := lacks(corpus.labels[train]):
        return Fitted(
            scores, dict.fromkeys(range(len(corpus)), f"train fold: {reason}") | reasons, None
        )

    def learnt(rows: Rows, name: str, asked: Rows) -> Scorer | None:
        try:
            scorer = learn(rows, name)
            scores[asked] = scorer(asked)
        except UnlearntError as error:
            reasons.update(dict.fromkeys(asked.tolist(), str(error)))
            return None
        return scorer

    fold_of = group_folds(corpus.labels[train], [corpus.groups[row] for row in train], folds, seed)
    for fold in np.unique(fold_of):
        rest, held_out = train[fold_of != fold], train[fold_of == fold]
        if reason := lacks(corpus.labels[rest]):
            reasons |= dict.fromkeys(held_out.tolist(), f"rest of the train fold: {reason}")
        else:
            learnt(rest, f"fold {fold + 1}", held_out)
    return Fitted(scores, reasons, learnt(train, "all", test))


def as_records(detector: str, corpus: Corpus, fitted: Fitted) -> list[DetectorScore]:
    """A record for every poem; one that has no score says why."""
    return [
        DetectorScore(
            poem_id=poem_id,
            detector=detector,
            score=float(fitted.scores[row]) if np.isfinite(fitted.scores[row]) else None,
            unscored_reason=None
            if np.isfinite(fitted.scores[row])
            else fitted.reasons.get(row, "the detector gave no finite score"),
        )
        for row, poem_id in enumerate(corpus.poem_ids)
    ]
