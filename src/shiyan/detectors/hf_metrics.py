"""The project's metrics as modules of the `evaluate` library, without its hub scripts.

`evaluate.load("f1")` fetches a script from the hub; these classes stand in its
place and need no network. Importing `evaluate` takes seconds, so only what trains
a network imports this module.
"""

from collections.abc import Sequence
from typing import Any

import datasets
import evaluate
import numpy as np

from shiyan import metrics
from shiyan.metrics import Floats, Labels

SOURCE = "Definitions as in scikit-learn 1.9, sklearn.metrics."


def _info(description: str | None, prediction: str) -> evaluate.MetricInfo:
    features = {"predictions": datasets.Value(prediction), "references": datasets.Value("int32")}
    return evaluate.MetricInfo(
        description=description or "",
        citation=SOURCE,
        inputs_description="references: 1 = LLM",
        features=datasets.Features(features),
    )


class MacroF1(evaluate.Metric):  # type: ignore[misc]
    """Mean of both classes' F1; every poem weighs the same; 0 for a class never found."""

    def _info(self) -> evaluate.MetricInfo:
        return _info(self.__doc__, "int32")

    def _compute(self, predictions: Sequence[int], references: Sequence[int]) -> dict[str, float]:
        truth, called = np.asarray(references), np.asarray(predictions)
        counts = [((truth == t) & (called == c)).sum() for t, c in ((1, 1), (0, 1), (1, 0), (0, 0))]
        return {"macro_f1": float(metrics.macro_f1(*counts))}


class Auroc(evaluate.Metric):  # type: ignore[misc]
    """Area under the ROC curve of scores; ties count half.

    Raises:
        ValueError: one class only.
    """

    def _info(self) -> evaluate.MetricInfo:
        return _info(self.__doc__, "float64")

    def _compute(self, predictions: Sequence[float], references: Sequence[int]) -> dict[str, float]:
        labels = np.asarray(references, np.int_)
        if reason := metrics.lacks(labels):
            raise ValueError(f"no AUROC: {reason}")
        return {"auroc": metrics.auroc(labels, np.asarray(predictions, np.float64))}


def held_out_metrics(labels: Labels, log_odds: Floats) -> dict[str, float | None]:
    """Macro-F1 at log-odds 0 and AUROC; None where a class is missing."""
    if metrics.lacks(labels):
        return {"macro_f1": None, "auroc": None}
    called = (log_odds >= 0).astype(int)
    found: dict[str, Any] = {}
    for metric, predictions in ((MacroF1, called), (Auroc, log_odds)):
        module = metric(keep_in_memory=True)
        found |= module.compute(predictions=predictions.tolist(), references=labels.tolist())
    return {name: float(value) for name, value in found.items()}
