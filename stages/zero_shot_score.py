"""Score every poem once a model, then by every zero-shot detector."""

import sys
from itertools import chain

from shiyan.config import PathsParams, ZeroShotScoreParams, load_params
from shiyan.detectors.evaluate import evaluate_scores, write_plots
from shiyan.detectors.zero_shot import ZeroShot
from shiyan.jsonl import read_records, write_records
from shiyan.metrics import write_metrics
from shiyan.records import Assignment, Poem
from shiyan.stage import run_stage
from shiyan.token_statistics import write_statistics
from shiyan.work import WorkCache


def main() -> None:
    params = load_params("zero_shot_score", ZeroShotScoreParams)
    paths = load_params("paths", PathsParams)
    both = chain.from_iterable(read_records(p, Poem) for p in (paths.poems, paths.generated))
    poems = {poem.poem_id: poem for poem in both}
    assignments = {a.poem_id: a for a in read_records(paths.splits, Assignment)}
    zero_shot = ZeroShot.of(params)
    statistics = zero_shot.measure(poems.values(), WorkCache())
    scores = zero_shot.score(poems.values(), statistics)
    evaluation = evaluate_scores(
        scores, poems, assignments, resamples=params.resamples, seed=params.seed
    )
    write_statistics(paths.statistics, statistics)
    write_records(paths.zero_shot_scores, scores)
    write_plots(evaluation, paths.zero_shot_roc, paths.zero_shot_distributions)
    write_metrics(paths.zero_shot_metrics, evaluation.as_metrics(zero_shot.made))
    for notice in evaluation.notices:
        sys.stderr.write(f"notice: {notice}\n")


if __name__ == "__main__":
    run_stage(main)
