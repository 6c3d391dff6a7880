"""Every number of every detector, from stored scores."""

import sys

from shiyan.config import EvaluateParams, PathsParams, load_params
from shiyan.detectors.evaluation.evaluate import evaluate_scores
from shiyan.detectors.evaluation.stored import stored_run
from shiyan.jsonl import write_csv
from shiyan.metrics import write_metrics
from shiyan.stage import run_stage

ROC_COLUMNS = ("detector", "false_positive_rate", "true_positive_rate")
DISTRIBUTION_COLUMNS = ("poem_id", "detector", "label", "fold", "score")


def main() -> None:
    params = load_params("evaluate", EvaluateParams)
    paths = load_params("paths", PathsParams)
    matrix, made = stored_run(paths)
    evaluation = evaluate_scores(matrix, params, made)
    matrix.write(paths.score_matrix)
    write_metrics(paths.detection_metrics, evaluation.as_metrics(), levels=4)
    # A line a row: a table changed is a diff one can read.
    write_metrics(paths.detection_cells, evaluation.as_cells(), levels=4)
    write_csv(paths.detection_roc, ROC_COLUMNS, evaluation.roc_rows)
    write_csv(paths.detection_distributions, DISTRIBUTION_COLUMNS, evaluation.distribution_rows)
    for notice in evaluation.notices:
        sys.stderr.write(f"notice: {notice}\n")


if __name__ == "__main__":
    run_stage(main)
