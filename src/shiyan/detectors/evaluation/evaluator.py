"""Any detector in any setting: the one function that gives a cell of any table.

A detector without training learns a threshold from a setting's training set. The fusion of
such detectors is fitted anew on each training set. A detector that learns has scores for each
training set that the stage train_roberta gave it; where it learnt from the whole train fold
only, it is shown in-domain, named so, and in no setting that must not have seen the poems it
learnt from.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import get_args

import numpy as np

from shiyan.config import EvaluateParams, ZeroShotDetector
from shiyan.detectors import fusion
from shiyan.detectors.crossfit import Corpus
from shiyan.detectors.evaluation.cells import CellResult, Scored, measured
from shiyan.detectors.evaluation.matrix import THRESHOLD_ONLY, Rows, ScoreMatrix
from shiyan.detectors.protocol import EVERYBODY, Protocol, Setting, generators_of
from shiyan.metrics import Draws, Floats
from shiyan.records import EvaluatedPoem

FUSED = frozenset(get_args(ZeroShotDetector))


@dataclass(frozen=True)
class Restriction:
    """A choice of a cell's poems.

    Attributes:
        name: what is kept, as a table names it.
        keeps: whether a poem stays.
        in_training: the training set is chosen from too.
    """

    name: str
    keeps: Callable[[EvaluatedPoem], bool]
    in_training: bool = False


class Evaluator:
    """Detectors x settings; a cell is computed when it is asked for, and kept.

    All settings on the test fold share their resamples, so that any two cells there are paired.
    """

    def __init__(
        self,
        matrix: ScoreMatrix,
        params: EvaluateParams,
        relations: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    ) -> None:
        """Nothing is computed yet.

        Args:
            relations: detector -> generator -> whether the detector's language model is the
                generator's (`detectors.identity`); absent for one that looks at no such model.
        """
        self.matrix = matrix
        self.relations = relations
        self.params = params
        self.poems = matrix.poems
        self.protocol = Protocol.of(matrix.poems)
        self._fused: dict[str, fusion.Fusion] = {}
        self._fused_scores: dict[str, Floats] = {}
        self._cells: dict[tuple[str, ...], CellResult | None] = {}

    # --- what there is ------------------------------------------------------------------

    @cached_property
    def untrained(self) -> list[str]:
        return self.matrix.detectors(THRESHOLD_ONLY)

    @cached_property
    def parts(self) -> list[str]:
        """Detectors that are fused."""
        return [d for d in self.untrained if d in FUSED] if self.params.fusion_folds else []

    @cached_property
    def detectors(self) -> list[str]:
        """Those without training first, then their fusion, then those that learn."""
        fused = [fusion.NAME] if len(self.parts) >= fusion.FEWEST else []
        learning = [d for d in self.matrix.detectors() if d not in self.untrained]
        return [*self.untrained, *fused, *learning]

    @cached_property
    def main(self) -> Setting:
        """The whole test fold by what was learnt from the whole train fold."""
        return next(s for s in self.protocol.of_kind("in_domain") if s.lesson == EVERYBODY)

    @cached_property
    def draws(self) -> Draws:
        """Over the groups of the test fold."""
        return self.drawn(p.group_id for p in self.poems.values() if p.fold == "test")

    @cached_property
    def poet_draws(self) -> Draws:
        """Over the poets of the test fold."""
        rows = [row for row, p in enumerate(self.poems.values()) if p.fold == "test"]
        return self.drawn(self.matrix.clusters[row] for row in rows)

    def drawn(self, groups: Iterable[str]) -> Draws:
        return Draws.of(groups, self.params.resamples, self.params.seed)

    # --- cells --------------------------------------------------------------------------

    def learnt_from(self, detector: str, setting: Setting) -> str | None:
        """A detector's training set in a setting; None where it has no scores for it."""
        if detector in self.untrained:
            return THRESHOLD_ONLY
        if detector == fusion.NAME or (setting.lesson, detector) in self.matrix.scores:
            return setting.lesson
        if (EVERYBODY, detector) in self.matrix.scores and setting.kind == "in_domain":
            return EVERYBODY
        return None

    def relation(self, detector: str, generator: str) -> str | None:
        """Whether a detector's language model wrote the poems; None for one without such a model.

        Of several generators, each relation with the generators that it is true of.
        """
        known = self.relations.get(detector)
        if known is None or generator in known:
            return known[generator] if known else None
        by_relation: dict[str, list[str]] = {}
        for name in generators_of(self.poems.values()):
            by_relation.setdefault(known.get(name, "unknown"), []).append(name)
        if len(by_relation) == 1:
            return next(iter(by_relation))
        return "; ".join(f"{told}: {', '.join(names)}" for told, names in by_relation.items())

    def facts(self, detector: str, setting: Setting) -> dict[str, str | None]:
        """What a number in a setting rests on, beside its counts."""
        return {
            "learnt_from": self.learnt_from(detector, setting),
            "scorer_is_generator": self.relation(detector, setting.generator),
        }

    def scores(self, detector: str, setting: Setting) -> Floats | None:
        """A detector's scores of all poems in a setting, (n,), NaN where there is none."""
        learnt_from = self.learnt_from(detector, setting)
        if learnt_from is None:
            return None
        if detector == fusion.NAME:
            return self.fused(setting.lesson)
        return self.matrix.scores[learnt_from, detector]

    def cell(
        self,
        detector: str,
        setting: Setting,
        restriction: Restriction | None = None,
        test: tuple[str, ...] | None = None,
    ) -> CellResult | None:
        """A detector's metrics in a setting; None where it has no scores for it.

        Args:
            test: other poems than the setting's.
        """
        chosen = restriction.name if restriction else ""
        key = (detector, setting.kind, setting.lesson, chosen, *(test or setting.test))
        if key not in self._cells:
            self._cells[key] = self._measured(detector, setting, restriction, test or setting.test)
        return self._cells[key]

    def _measured(
        self,
        detector: str,
        setting: Setting,
        restriction: Restriction | None,
        test: tuple[str, ...],
    ) -> CellResult | None:
        if self.scores(detector, setting) is None:
            return None
        draws = self.draws
        if setting.kind == "poet_left_out":
            draws = self.drawn(self.poems[poem_id].group_id for poem_id in test)
        train = self.protocol.lessons[setting.lesson].train
        if restriction:
            test = self.kept(test, restriction)
            train = self.kept(train, restriction) if restriction.in_training else train
        learnt, tested = (self.scored(detector, setting, ids, draws) for ids in (train, test))
        return measured(learnt, tested, draws, f"train:{setting.lesson}")

    def kept(self, poem_ids: Iterable[str], restriction: Restriction) -> tuple[str, ...]:
        return tuple(p for p in poem_ids if restriction.keeps(self.poems[p]))

    def scored(
        self,
        detector: str,
        setting: Setting,
        poem_ids: Iterable[str],
        draws: Draws,
        units: tuple[str, ...] | None = None,
    ) -> Scored:
        """The scored poems among some; a unit that is not drawn has column -1.

        Args:
            units: of all poems what is drawn; their groups if not said.
        """
        values = self.scores(detector, setting)
        assert values is not None
        units = units or self.matrix.groups
        rows = self.matrix.rows(poem_ids)
        finite = np.isfinite(values[rows])
        kept = rows[finite]
        columns = np.array([draws.column_of.get(units[row], -1) for row in kept], np.intp)
        own = self._own_labels(detector, setting, kept)
        n_unscored = int((~finite).sum())
        return Scored(self.matrix.labels[kept], values[kept], columns, own, n_unscored)

    def _own_labels(self, detector: str, setting: Setting, rows: Rows) -> Floats:
        learnt_from = self.learnt_from(detector, setting) or ""
        labels = self.matrix.own_labels.get((learnt_from, detector))
        return np.full(len(rows), np.nan) if labels is None else labels[rows]

    # --- the fusion ---------------------------------------------------------------------

    def fused(self, training_set: str) -> Floats:
        """Fused scores of all poems, (n,), by what was learnt from a training set."""
        if training_set not in self._fused_scores:
            lesson = self.protocol.lessons[training_set]
            train = set(lesson.train)
            further = (p.poem_id for p in self.poems.values() if p.attack is not None)
            chosen = list(dict.fromkeys((*lesson.train, *lesson.test, *further)))
            rows = self.matrix.rows(chosen)
            corpus = Corpus(
                tuple(chosen),
                ("",) * len(chosen),
                self.matrix.labels[rows],
                tuple(self.matrix.groups[row] for row in rows),
                np.array([poem_id in train for poem_id in chosen], np.bool_),
                {},
            )
            table = {d: self.matrix.scores[THRESHOLD_ONLY, d][rows] for d in self.parts}
            found = fusion.fused(table, corpus, self.params.fusion_folds, self.params.seed)
            values = np.full(len(self.poems), np.nan)
            values[rows] = [np.nan if s.score is None else s.score for s in found.scores]
            self._fused[training_set], self._fused_scores[training_set] = found, values
        return self._fused_scores[training_set]

    @property
    def fusion_made(self) -> dict[str, str]:
        """How the scores of the main setting were fused."""
        if fusion.NAME not in self.detectors:
            return {}
        self.fused(EVERYBODY)
        return self._fused[EVERYBODY].made

    def notices(self) -> list[str]:
        """What could not be fused, and why; a sentence a reason."""
        reasons = {found.reason: name for name, found in self._fused.items() if found.reason}
        return [f"{fusion.NAME}, learnt from {name}: {why}" for why, name in reasons.items()]
