"""Scores of detectors that learn: K models, each from all but one part of the train fold.

The detector is the mean of the K models. A train poem is scored by the one model that did
not learn from its group, a test poem by all of them. Raw scores of two models do not
compare: how far training drove the one or the other shifts and stretches all its scores,
often by more than what parts two poems. So each model's scores are aligned first, on the
LLM poems of the train fold that it did not learn from; then a threshold fitted on train
poems speaks of test poems too.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from shiyan.config import ReadText
from shiyan.detectors.metrics import CLASSES, lacks
from shiyan.metrics import Floats, Labels
from shiyan.poem import characters, unpunctuated
from shiyan.records import Assignment, DetectorScore, Poem
from shiyan.splits import at_main_temperature

Rows = NDArray[np.intp]
"""Positions in a `Corpus`; ascending."""

Scorer = Callable[[Rows], Floats]
"""Scores of rows, one each; NaN where a row cannot be scored."""

Learner = Callable[[Rows, str], Scorer]
"""Learn from these rows, under this name ("fold 1", …; `WHOLE`: of the whole train fold).

It, or its scorer, raises an UnlearntError where nothing could be learnt.
"""

WHOLE = "all"
ONE_MODEL = "folds: 1, so the one model learnt from it"
"""Why a train poem has no score where nothing is cross-fitted."""
OTHER_TEMPERATURE = "of another temperature than the one that is learnt from"


class UnlearntError(Exception):
    """Why nothing could be learnt from the poems of a part."""


def read_of(poem: Poem, text: ReadText) -> str:
    """What a detector reads of a poem."""
    return unpunctuated(poem.text) if text == "unpunctuated" else poem.text


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
        text: ReadText = "body",
    ) -> "Corpus":
        """Detectors read the body of a poem; one without a character has no score.

        Args:
            text: the body as it is, or without punctuation.
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
            tuple(read_of(poem, text) for poem in poems.values()),
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
class Alignment:
    """Location and scale of a fold model, by which its scores compare with another's.

    Attributes:
        median, spread: of its scores of the held-out LLM poems; spread is the
            interquartile range, above 0.
        n: how many these poems are.
        spread_of: where all their quartiles are equal, the spread is that of all held-out
            poems, and 1 where these do not differ either.
    """

    median: float
    spread: float
    n: int
    spread_of: Literal["LLM poems", "all held-out poems", "none"]

    @classmethod
    def of(cls, scores: Floats, labels: Labels) -> "Alignment":
        """From a model's finite scores of poems that it did not learn from, some by an LLM."""
        of_llm = scores[labels == 1]
        median = float(np.median(of_llm))
        if spread := _interquartile(of_llm):
            return cls(median, spread, len(of_llm), "LLM poems")
        if spread := _interquartile(scores):
            return cls(median, spread, len(of_llm), "all held-out poems")
        return cls(median, 1.0, len(of_llm), "none")

    def __call__(self, scores: Floats) -> Floats:
        return (scores - self.median) / self.spread


def _interquartile(scores: Floats) -> float:
    low, high = np.percentile(scores, (25, 75))
    return float(high - low)


@dataclass(frozen=True)
class FoldModel:
    """One of the K models.

    Attributes:
        name: of the part that was held out, or `WHOLE`.
        raw: its own scores of held-out and test poems, NaN elsewhere; (n,).
        alignment: None where no poem is held out.
    """

    name: str
    raw: Floats
    alignment: Alignment | None

    @property
    def aligned(self) -> Floats:
        return self.alignment(self.raw) if self.alignment else self.raw


@dataclass(frozen=True)
class Fitted:
    """One detector's scores of a whole corpus.

    Attributes:
        scores: aligned; of a test poem the models' mean; NaN where there is none; (n,).
        raw: the same of the models' own scores: who wrote it, by the detector itself.
        reasons: why there is none, by row.
        models: those that learnt something.
    """

    scores: Floats
    raw: Floats
    reasons: dict[int, str]
    models: tuple[FoldModel, ...] = field(default=())

    @classmethod
    def of_nothing(cls, corpus: Corpus, reasons: dict[int, str]) -> "Fitted":
        nothing = np.full(len(corpus), np.nan)
        return cls(nothing, nothing, reasons)


def fit_and_score(learn: Learner, corpus: Corpus, folds: int, seed: int) -> Fitted:
    """Learn `folds` times, each time from all but a part of the train fold, and score all poems.

    With `folds` 1 there is one model of the whole train fold: test poems have its own
    scores, train poems none.
    """
    reasons = {
        row: corpus.reasons[poem_id]
        for row, poem_id in enumerate(corpus.poem_ids)
        if poem_id in corpus.reasons
    }
    train, test = corpus.rows(train=True), corpus.rows(train=False)
    if reason := lacks(corpus.labels[train]):
        every = dict.fromkeys(range(len(corpus)), f"train fold: {reason}")
        return Fitted.of_nothing(corpus, every | reasons)
    models = []
    for name, rest, held_out in _parts(corpus, train, folds, seed):
        try:
            models.append(_fold_model(learn, corpus, name, rest, held_out, test))
        except UnlearntError as error:
            reasons.update(dict.fromkeys(held_out.tolist(), str(error)))
            why = str(error)
    if not models:
        return Fitted.of_nothing(corpus, dict.fromkeys(test.tolist(), why) | reasons)
    if folds == 1:
        reasons |= dict.fromkeys(train.tolist(), ONE_MODEL)
    aligned = _own(corpus, [model.aligned for model in models], test)
    raw = _own(corpus, [model.raw for model in models], test)
    return Fitted(aligned, raw, reasons, tuple(models))


def _parts(corpus: Corpus, train: Rows, folds: int, seed: int) -> Iterator[tuple[str, Rows, Rows]]:
    """(name, rows to learn from, rows held out) of each model."""
    if folds == 1:
        yield WHOLE, train, train[:0]
        return
    fold_of = group_folds(corpus.labels[train], [corpus.groups[row] for row in train], folds, seed)
    for fold in np.unique(fold_of):
        yield f"fold {fold + 1}", train[fold_of != fold], train[fold_of == fold]


def _fold_model(
    learn: Learner, corpus: Corpus, name: str, rest: Rows, held_out: Rows, test: Rows
) -> FoldModel:
    """Learn from `rest`, score the others, and align.

    Raises:
        UnlearntError: a class is missing, among the rest or to align on; or as `learn`.
    """
    if reason := lacks(corpus.labels[rest]):
        raise UnlearntError(f"rest of the train fold: {reason}")
    if len(held_out) and not corpus.labels[held_out].any():
        raise UnlearntError(f"{name} holds out no LLM poem to align a model's scores on")
    asked = np.concatenate([held_out, test])
    raw = np.full(len(corpus), np.nan)
    raw[asked] = learn(rest, name)(asked)
    if not len(held_out):
        return FoldModel(name, raw, None)
    known = held_out[np.isfinite(raw[held_out])]
    if not corpus.labels[known].any():
        raise UnlearntError("the detector gave no finite score")
    return FoldModel(name, raw, Alignment.of(raw[known], corpus.labels[known]))


def _own(corpus: Corpus, scores: Sequence[Floats], test: Rows) -> Floats:
    """A test poem's mean over the models, a train poem's score by the model without it."""
    found = np.full(len(corpus), np.nan)
    for of_model in scores:
        there = np.isfinite(of_model)
        found[there] = of_model[there]
    # What one model cannot score has no mean.
    found[test] = np.mean([of_model[test] for of_model in scores], axis=0)
    return found


def as_records(
    detector: str, corpus: Corpus, fitted: Fitted, border: float = 0.0
) -> list[DetectorScore]:
    """A record for every poem; one that has no score says why.

    Args:
        border: raw score above which the detector itself says LLM; on it scikit-learn and an
            argmax say human.
    """
    return [
        DetectorScore(
            poem_id=poem_id,
            detector=detector,
            score=float(score) if np.isfinite(score) else None,
            own_label=int(raw > border) if np.isfinite(score) else None,
            unscored_reason=None
            if np.isfinite(score)
            else fitted.reasons.get(row, "the detector gave no finite score"),
        )
        for row, (poem_id, score, raw) in enumerate(
            zip(corpus.poem_ids, fitted.scores, fitted.raw, strict=True)
        )
    ]


def alignment_notices(detector: str, fitted: Fitted) -> list[str]:
    """Where a model's scores do not differ enough to be aligned by the rule."""
    found = []
    for model in fitted.models:
        if model.alignment is not None and model.alignment.spread_of != "LLM poems":
            found.append(
                f"{detector}: the scores of the {model.alignment.n} LLM poems that {model.name} "
                "holds out have an interquartile range of 0, so they are scaled by that of "
                f"{model.alignment.spread_of}"
            )
    return found


def spread_notices(detector: str, fitted: Fitted, rows: Rows) -> list[str]:
    """Where raw scores say which model it was rather than which poem, and where all say the same.

    Args:
        rows: of test poems.
    """
    raw = np.array([model.raw[rows] for model in fitted.models])
    raw = raw[:, np.isfinite(raw).all(axis=0)] if len(raw) else np.empty((0, 0))
    if raw.size == 0:
        return []
    apart = float(np.ptp(np.median(raw, axis=1)))
    within = float(np.median([_interquartile(of_model) for of_model in raw]))
    if within >= apart:
        return []
    return [
        f"{detector}: raw scores of {raw.shape[1]} test poems by one model have an interquartile "
        f"range of {within:.2g}, and the medians of the {len(raw)} models lie {apart:.2g} apart: "
        "it has hardly learnt to part unseen poems, whatever the AUROC"
    ]


def one_label_notices(detector: str, fitted: Fitted, rows: Rows, border: float = 0.0) -> list[str]:
    """Where a detector itself takes all poems of these rows for one class's."""
    raw = fitted.raw[rows]
    called = np.unique((raw[np.isfinite(raw)] > border).astype(int))
    if len(called) != 1 or len(rows) < 2:
        return []
    whose = CLASSES[called[0]]
    return [f"{detector}: by its own labels every one of {len(rows)} test poems is {whose}"]
