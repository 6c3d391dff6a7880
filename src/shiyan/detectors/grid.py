"""Every detector in every setting, from stored scores: no model, no training.

A detector without training keeps its scores and learns a threshold in each lesson. The
fusion of such detectors is fitted anew in each lesson. A detector that learns has scores
for each lesson that the stage train_roberta gave it; where it learnt from the whole train
fold only, it is shown in-domain, named so, and in no setting that must not have seen the
poems it learnt from.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from shiyan.config import ZeroShotDetector
from shiyan.detectors import fusion
from shiyan.detectors.crossfit import Corpus, Rows
from shiyan.detectors.evaluate import BORDERS, CellResult, Scored, measured, refuse_leaks
from shiyan.detectors.protocol import EVERYBODY, Protocol, Setting
from shiyan.errors import UserError
from shiyan.metrics import Draws, Floats, Sampled
from shiyan.records import Assignment, DetectorScore, Poem

THRESHOLD_ONLY = "threshold"
"""What a detector without training learns in a lesson."""
FUSION_FOLDS = 5
FUSED = frozenset(get_args(ZeroShotDetector))


@dataclass(frozen=True)
class Stored:
    """Scores as the stages left them.

    Attributes:
        untrained: of the zero-shot detectors, their fusion and asked LLMs.
        trained: of detectors that learnt from the whole train fold.
        lessons: of detectors that learnt in a lesson; `setting` names it.
    """

    untrained: Iterable[DetectorScore]
    trained: Iterable[DetectorScore]
    lessons: Iterable[DetectorScore] = ()


class Grid:
    """Detectors x settings; a cell is computed when it is asked for, and kept.

    Args:
        resamples, seed: of the bootstrap over groups; all settings on the test fold share
            their resamples, so that any two cells there are paired.

    Raises:
        UserError: a split that leaks, or a score of an unknown poem.
    """

    def __init__(
        self,
        poems: Mapping[str, Poem],
        assignments: Mapping[str, Assignment],
        stored: Stored,
        *,
        resamples: int,
        seed: int,
    ) -> None:
        refuse_leaks(poems, assignments)
        self.poems = poems
        self.assignments = assignments
        self.resamples = resamples
        self.seed = seed
        self.protocol = Protocol.of(poems, assignments)
        self.row_of = {poem_id: row for row, poem_id in enumerate(poems)}
        self.labels = np.array([poem.label for poem in poems.values()], np.int_)
        self.groups = tuple(assignments[poem_id].group_id for poem_id in poems)
        self._seen: dict[tuple[str, str | None], NDArray[np.bool_]] = {}
        self.untrained = self._columns(stored.untrained)
        self.trained = self._columns(stored.trained)
        self.lessons = self._by_lesson(stored.lessons)
        self._is_fused = self.untrained.pop(fusion.NAME, None) is not None
        self._fused: dict[str, tuple[Floats, str]] = {}
        self._cells: dict[tuple[str, str, tuple[str, ...]], CellResult | None] = {}

    @property
    def detectors(self) -> list[str]:
        """Those without training first, then their fusion, then those that learn."""
        fused = [fusion.NAME] if self._is_fused else []
        learning = dict.fromkeys(
            (*self.trained, *(d for found in self.lessons.values() for d in found))
        )
        return [*self.untrained, *fused, *learning]

    @cached_property
    def draws(self) -> Draws:
        """Over the groups of the test fold."""
        test = (a.group_id for a in self.assignments.values() if a.fold == "test")
        return Draws.of(test, self.resamples, self.seed)

    def learnt_on(self, detector: str, setting: Setting) -> str | None:
        """What a detector learnt from in a setting; None where it has no scores for it."""
        if detector in self.untrained:
            return THRESHOLD_ONLY
        if detector == fusion.NAME or detector in self.lessons.get(setting.lesson, {}):
            return setting.lesson
        if detector in self.trained and setting.kind == "in_domain":
            return EVERYBODY
        return None

    def cell(self, detector: str, setting: Setting) -> CellResult | None:
        """A detector's metrics in a setting; None where it has no scores for it."""
        return self.cell_of(detector, setting, setting.test)

    def cell_of(self, detector: str, setting: Setting, test: tuple[str, ...]) -> CellResult | None:
        """The same on a choice of poems to test."""
        key = (detector, f"{setting.kind}/{setting.lesson}", test)
        if key not in self._cells:
            self._cells[key] = self._measured(detector, setting, test)
        return self._cells[key]

    def _measured(
        self, detector: str, setting: Setting, test: tuple[str, ...]
    ) -> CellResult | None:
        values = self.scores(detector, setting)
        if values is None:
            return None
        draws = self.draws
        if setting.kind == "poet_left_out":
            of_poet = [self.groups[self.row_of[poem_id]] for poem_id in test]
            draws = Draws.of(of_poet, self.resamples, self.seed)
        lesson = self.protocol.lessons[setting.lesson]
        train, tested = (self.scored(values, self.rows(ids), draws) for ids in (lesson.train, test))
        border = BORDERS.get(detector, 0.0)
        return measured(train, tested, draws, f"train:{lesson.name}", border)

    def scores(self, detector: str, setting: Setting) -> Floats | None:
        """A detector's scores of all poems in a setting, (n,), NaN where there is none."""
        if detector == fusion.NAME:
            return self._fused_in(setting.lesson)[0]
        if detector in self.untrained:
            return self.untrained[detector]
        if self.learnt_on(detector, setting) == EVERYBODY and detector in self.trained:
            return self.trained[detector]
        return self.lessons.get(setting.lesson, {}).get(detector)

    def rows(self, poem_ids: Iterable[str]) -> Rows:
        return np.array([self.row_of[poem_id] for poem_id in poem_ids], np.intp)

    def scored(self, values: Floats, rows: Rows, draws: Draws) -> Scored:
        """The scored poems among rows; a group that is not drawn has column -1."""
        finite = np.isfinite(values[rows])
        kept = rows[finite]
        columns = np.array([draws.column_of.get(self.groups[row], -1) for row in kept], np.intp)
        return Scored(self.labels[kept], values[kept], columns, int((~finite).sum()))

    def difference(
        self, cell: CellResult | None, other: CellResult | None, metric: str
    ) -> Sampled | None:
        """A cell's metric minus another's, on the same resamples; None where one has none."""
        if cell is None or other is None:
            return None
        mine, theirs = cell.sampled.get(metric), other.sampled.get(metric)
        return mine.minus(theirs) if mine and theirs else None

    def notices(self) -> list[str]:
        """What could not be fused, and why; a sentence a reason."""
        reasons = {reason: lesson for lesson, (_, reason) in self._fused.items() if reason}
        return [f"{fusion.NAME}, learnt from {lesson}: {why}" for why, lesson in reasons.items()]

    def _fused_in(self, lesson_name: str) -> tuple[Floats, str]:
        """(scores, why there are none) of the fusion that learnt in a lesson."""
        if lesson_name not in self._fused:
            lesson = self.protocol.lessons[lesson_name]
            train = set(lesson.train)
            chosen = [*lesson.train, *(p for p in lesson.test if p not in train)]
            assignments = {
                poem_id: self.assignments[poem_id].model_copy(
                    update={"fold": "train" if poem_id in train else "test"}
                )
                for poem_id in chosen
            }
            corpus = Corpus.of({p: self.poems[p] for p in chosen}, assignments)
            rows = self.rows(chosen)
            parts = {n: values[rows] for n, values in self.untrained.items() if n in FUSED}
            found = fusion.fused(parts, corpus, FUSION_FOLDS, self.seed)
            values = np.full(len(self.poems), np.nan)
            values[rows] = [np.nan if s.score is None else s.score for s in found.scores]
            self._fused[lesson_name] = values, found.reason
        return self._fused[lesson_name]

    def _columns(self, scores: Iterable[DetectorScore]) -> dict[str, Floats]:
        found: dict[str, Floats] = {}
        for score in scores:
            self._put(found, score)
        return found

    def _by_lesson(self, scores: Iterable[DetectorScore]) -> dict[str, dict[str, Floats]]:
        found: dict[str, dict[str, Floats]] = {}
        for score in scores:
            self._put(found.setdefault(score.setting or EVERYBODY, {}), score)
        return found

    def _put(self, columns: dict[str, Floats], score: DetectorScore) -> None:
        if score.poem_id not in self.row_of:
            raise UserError(
                f"{score.detector} scored poem {score.poem_id!r}, which is not among the poems; "
                "score again"
            )
        column = columns.setdefault(score.detector, np.full(len(self.poems), np.nan))
        row = self.row_of[score.poem_id]
        seen = self._seen.setdefault(
            (score.detector, score.setting), np.zeros(len(self.poems), np.bool_)
        )
        if seen[row]:
            raise UserError(
                f"{score.detector} scored poem {score.poem_id!r} twice; score again, or keep one"
            )
        seen[row] = True
        if score.score is not None:
            column[row] = score.score
