"""The project's metrics as a module of the `evaluate` library, without its hub scripts.

`evaluate.load("f1")` fetches a script from the hub; this class stands in its place and
needs no network. Importing `evaluate` takes seconds, so only what computes metrics of
detectors imports this module, and the class is made once.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import datasets
import evaluate
import numpy as np

from shiyan.detectors.metrics import lacks
from shiyan.metrics import Floats, Labels
from shiyan.splits import class_weights

SOURCE = "Definitions as in scikit-learn 1.9, sklearn.metrics."
FEATURES = {
    "references": datasets.Value("int32"),
    "predictions": datasets.Value("int32"),
    "scores": datasets.Value("float64"),
    "probabilities": datasets.Value("float64"),
}


class DetectionMetrics(evaluate.Metric):  # type: ignore[misc]
    """AUROC, accuracy, Brier score and macro-F1 of a detector; 1 = LLM.

    macro_f1 and brier let both classes weigh equally, macro_f1_unweighted and accuracy every
    poem. A class never found has F1 0; ties count half in the AUROC.
    """

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=self.__doc__ or "",
            citation=SOURCE,
            inputs_description="references and predictions: 1 = LLM; probabilities: of an LLM",
            features=datasets.Features(FEATURES),
        )

    def _compute(
        self,
        references: Sequence[int],
        predictions: Sequence[int],
        scores: Sequence[float],
        probabilities: Sequence[float],
    ) -> dict[str, float]:
        from sklearn.metrics import accuracy_score, brier_score_loss, f1_score, roc_auc_score

        truth, called = np.asarray(references), np.asarray(predictions)
        weights = class_weights(truth.tolist())
        macro = {"average": "macro", "zero_division": 0.0, "labels": [0, 1]}
        found = {
            "auroc": roc_auc_score(truth, np.asarray(scores)),
            "macro_f1": f1_score(truth, called, sample_weight=weights, **macro),
            "macro_f1_unweighted": f1_score(truth, called, **macro),
            "accuracy": accuracy_score(truth, called),
            "brier": brier_score_loss(truth, np.asarray(probabilities), sample_weight=weights),
        }
        return {name: float(value) for name, value in found.items()}


@cache
def _module() -> DetectionMetrics:
    return DetectionMetrics(keep_in_memory=True)


def detection_metrics(
    labels: Labels, scores: Floats, called: Labels | None, probabilities: Floats | None
) -> dict[str, float]:
    """The module's values of n poems of both classes; what needs labels or probabilities that
    there are not is absent.

    Raises:
        ValueError: one class only.
    """
    if reason := lacks(labels, scores):
        raise ValueError(f"no metrics: {reason}")
    nothing = np.zeros(len(labels))
    found: dict[str, Any] = _module().compute(
        references=labels,
        predictions=nothing.astype(int) if called is None else called,
        scores=scores,
        probabilities=nothing if probabilities is None else probabilities,
    )
    absent = {"macro_f1", "macro_f1_unweighted", "accuracy"} if called is None else set()
    absent |= {"brier"} if probabilities is None else set()
    return {name: float(value) for name, value in found.items() if name not in absent}


def held_out_metrics(labels: Labels, log_odds: Floats) -> dict[str, float | None]:
    """Macro-F1 (every poem the same weight) at log-odds 0 and AUROC; None where a class lacks."""
    if lacks(labels):
        return {"macro_f1": None, "auroc": None}
    found = detection_metrics(labels, log_odds, (log_odds >= 0).astype(int), None)
    return {"macro_f1": found["macro_f1_unweighted"], "auroc": found["auroc"]}
