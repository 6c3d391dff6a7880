"""Everything that is said of detectors, computed once: metrics files, tables and plots.

Metrics are of the test fold; thresholds and calibrations come from the training set. A
trained detector's scores of train poems must be cross-fitted (each poem scored by a model
that did not learn from its group): scores of poems that a model has learnt by heart would
put the threshold wrong.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tqdm import tqdm

from shiyan.config import EvaluateParams
from shiyan.detectors.evaluation.cells import unusable
from shiyan.detectors.evaluation.evaluator import Evaluator
from shiyan.detectors.evaluation.matrix import ScoreMatrix
from shiyan.detectors.evaluation.rows import nested
from shiyan.detectors.evaluation.tables import TABLES
from shiyan.detectors.metrics import CLASSES, FEWEST_ACCUSED, roc
from shiyan.detectors.protocol import EVERYBODY, Setting, generators_of
from shiyan.metrics import INTERVAL
from shiyan.splits import at_main_temperature, main_temperatures

MADE = {
    "score": "higher: more likely an LLM's",
    "learnt_from": "threshold: the detector is not trained and learns its threshold alone; all: it "
    "learnt from the whole train fold, every prompt and generator",
    "threshold_rule": "Youden's J on the training set, midway between scores",
    "macro_f1": "classes weigh equally; macro_f1_unweighted and accuracy: as they occur",
    "macro_f1_of_own_labels": "by the labels that a trained detector gives itself, no threshold "
    "chosen: the rule of papers that report hard labels",
    "macro_f1_with_choice": "the same, its interval with the choice of the threshold in it",
    "tpr_at_fpr": "point of the test fold's ROC curve, not interpolated; an interval where "
    f"{FEWEST_ACCUSED} human poems or more may be accused",
    "tpr_at_train_fpr": "both rates on the test fold, by a cut from the training set's human poems",
    "calibration": "logistic (Platt, 1999) on the training set; ece: 10 equal bins, beside it what "
    "a calibrated detector of these probabilities would show (mean, 95th percentile)",
    "interval": f"{INTERVAL} groups; none where simulation shows that it leaves the truth out",
    "surely_better": "the simultaneous 95 % interval of all pairs of detectors leaves 0 out",
    "conditional_on": "these replies, this split, one training and one threshold; these generators "
    "and prompts; other processors give other replies by the same model and seed",
    "values": "by the project's module of the library `evaluate`, scikit-learn inside; the "
    "bootstrap's own values equal them to 1e-12",
}


IN_SHORT = (
    "learnt_from",
    "scorer_is_generator",
    "n_human",
    "n_llm",
    "n_unscored",
    "n_left_out",
    "auroc",
    "auroc_change",
    "macro_f1",
    "macro_f1_change",
)
"""What the short metrics file tells of places but the whole test fold: MLflow and `dvc metrics`
show a column a number."""
MOST_PLACES = 5
"""That a notice names."""


@dataclass(frozen=True)
class Evaluation:
    """What detectors achieve.

    Attributes:
        tables: table -> place -> detector -> facts and estimates.
        roc_rows: detector, false_positive_rate, true_positive_rate; main setting.
        distribution_rows: poem_id, detector, label, fold, score; unscored ones are absent.
        notices: what a reader should know before trusting a number.
        made: how the numbers were made.
    """

    tables: dict[str, dict[str, dict[str, Any]]]
    roc_rows: list[dict[str, str | float]]
    distribution_rows: list[dict[str, str | float]]
    notices: list[str]
    made: dict[str, Any]

    def headlines(self) -> dict[str, Any]:
        """detector -> "all" with everything, each generator and each choice of poems in short."""
        found: dict[str, dict[str, Any]] = {}
        for detector, numbers in self.tables["detectors"].get(EVERYBODY, {}).items():
            found[detector] = {EVERYBODY: numbers}
        places = dict(self.tables["restricted"])
        for place, of_place in self.tables["in_domain"].items():
            subset, _, generator = place.partition(" / ")
            if subset == EVERYBODY and generator != EVERYBODY:
                places[generator] = of_place
        for place, of_place in places.items():
            for detector, numbers in of_place.items():
                short = {key: numbers[key] for key in IN_SHORT if key in numbers}
                found[detector][place] = short
        return found

    def as_metrics(self) -> dict[str, Any]:
        """The short metrics file."""
        return {"detectors": self.headlines(), "notices": self.notices, "made": self.made}

    def as_cells(self) -> dict[str, Any]:
        """Every cell of every table."""
        return {"tables": self.tables, "notices": self.notices, "made": self.made}


def evaluate_scores(
    matrix: ScoreMatrix, params: EvaluateParams, made: Mapping[str, Mapping[str, Any]]
) -> Evaluation:
    """Every table, from stored scores: no model, no training, no text.

    Args:
        made: scorer -> what it knows of how its scores were made.
    """
    from threadpoolctl import threadpool_limits

    relations = {
        detector: of_detector
        for stage in made.values()
        for detector, of_detector in stage.get("scorer_is_generator", {}).items()
    }
    evaluator = Evaluator(matrix, params, relations)
    # The matrices are small: threads would mostly wait for each other.
    with threadpool_limits(1):
        tables = {
            name: nested(table(evaluator))
            for name, table in tqdm(
                TABLES.items(), "evaluate", unit="table", file=sys.stderr, leave=False
            )
        }
        plots = list(_roc_rows(evaluator)), list(_distribution_rows(evaluator))
    notices = [*_notices(tables["in_domain"]), *evaluator.notices()]
    own = {
        "generators": generators_of(matrix.poems.values()),
        **params.model_dump(mode="json"),
        **_temperatures(evaluator),
        **evaluator.fusion_made,
    }
    return Evaluation(tables, *plots, notices, {**MADE, **own, **made})


def _temperatures(evaluator: Evaluator) -> dict[str, Any]:
    """At which temperature a generator's poems were written, where it wrote at several."""
    poems = [poem for poem in evaluator.poems.values() if poem.attack is None]
    if len(at_main_temperature(poems)) == len(poems):
        return {}
    main: dict[str, set[float]] = {}
    for (generator, _), temperature in main_temperatures(poems).items():
        main.setdefault(generator, set()).add(temperature)
    return {"main_temperatures": {g: sorted(found) for g, found in sorted(main.items())}}


def _roc_rows(evaluator: Evaluator) -> Iterator[dict[str, str | float]]:
    setting: Setting = evaluator.main
    for detector in evaluator.detectors:
        if evaluator.scores(detector, setting) is None:
            continue
        test = evaluator.scored(detector, setting, setting.test, evaluator.draws)
        if unusable(test.labels, test.scores):
            continue
        false, true, _ = roc(test.labels, test.scores)
        for f, t in zip(false.tolist(), true.tolist(), strict=True):
            yield {"detector": detector, "false_positive_rate": f, "true_positive_rate": t}


def _distribution_rows(evaluator: Evaluator) -> Iterator[dict[str, str | float]]:
    """The scores that the main setting's numbers are made of."""
    setting, matrix = evaluator.main, evaluator.matrix
    chosen = (*evaluator.protocol.lessons[setting.lesson].train, *setting.test)
    for detector in evaluator.detectors:
        scores = evaluator.scores(detector, setting)
        for poem_id in chosen if scores is not None else ():
            assert scores is not None
            score = float(scores[matrix.row_of[poem_id]])
            if np.isfinite(score):
                yield {
                    "poem_id": poem_id,
                    "detector": detector,
                    "label": CLASSES[matrix.poems[poem_id].label],
                    "fold": matrix.poems[poem_id].fold,
                    "score": score,
                }


def _notices(in_domain: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """An AUROC under a half and an inverted threshold stand as they are, and are named; so is a
    threshold that there is not."""
    by_detector: dict[str, dict[str, Any]] = {}
    for place, of_place in in_domain.items():
        for detector, cell in of_place.items():
            by_detector.setdefault(detector, {})[place] = cell
    for detector, cells in by_detector.items():
        yield from _notices_of(detector, cells)


def _notices_of(detector: str, cells: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    thresholds = {place: cell["threshold"] for place, cell in cells.items() if "threshold" in cell}
    lacking = dict.fromkeys(t["reason"] for t in thresholds.values() if t.get("reason"))
    if lacking:
        yield f"{detector}: {_first(list(lacking), '; ')}"
    under = [
        f"{place} {100 * cell['auroc']['value']:.1f}"
        for place, cell in cells.items()
        if cell["auroc"]["value"] is not None and cell["auroc"]["value"] < 0.5
    ]
    if under:
        yield f"{detector}: AUROC under 50, and left so, on {_first(under)}"
    useless = [p for p, t in thresholds.items() if t["inverted"] and t["value"] is None]
    if useless:
        yield (
            f"{detector}: no threshold of the train fold helps, so every poem is called a "
            f"person's, on {_first(useless)}"
        )


def _first(places: Sequence[str], between: str = ", ") -> str:
    """The first few by name; a grid has hundreds."""
    more = len(places) - MOST_PLACES
    return between.join(places[:MOST_PLACES]) + (f" and {more} more" if more > 0 else "")
