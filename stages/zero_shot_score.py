"""Score every poem by every detector that needs no training."""

import sys
from itertools import chain

from shiyan import lost
from shiyan.config import (
    AttackParams,
    PathsParams,
    PromptTexts,
    ZeroShotScoreParams,
    load_models,
    load_params,
)
from shiyan.detectors.attacks import attacked_poems, paraphrased, unmet_prompts
from shiyan.detectors.evaluate import evaluate_scores, write_plots
from shiyan.detectors.untrained import score_untrained
from shiyan.jsonl import read_records, write_records
from shiyan.metrics import write_metrics
from shiyan.records import Assignment, Poem
from shiyan.stage import run_stage
from shiyan.token_statistics import write_statistics
from shiyan.work import WorkCache


def main() -> None:
    params = load_params("zero_shot_score", ZeroShotScoreParams)
    attacks = load_params("attacks", AttackParams)
    paths = load_params("paths", PathsParams)
    texts = load_params("prompts", PromptTexts).detection
    both = chain.from_iterable(read_records(p, Poem) for p in (paths.poems, paths.generated))
    poems = {poem.poem_id: poem for poem in both}
    assignments = {a.poem_id: a for a in read_records(paths.splits, Assignment)}
    asked = params.asked.models if params.asked else ()
    models = load_models([*asked, *filter(None, (attacks.paraphraser,))])
    cache = WorkCache()
    reworded = paraphrased(poems, assignments, attacks, models, texts, cache)
    attacked = attacked_poems(poems, assignments, attacks, reworded)
    found = score_untrained(poems, assignments, params, models, texts, cache, attacked)
    evaluation = evaluate_scores(
        found.scores, poems, assignments, resamples=params.resamples, seed=params.seed
    )
    of_asked = [score for score in found.scores if score.detector.startswith("asked_")]
    kinds = (lost.kind_in(score.unscored_reason) for score in of_asked)
    requests = lost.counted(len(of_asked), kinds)
    lost.tell("zero_shot_score", requests)
    write_statistics(paths.statistics, found.statistics)
    write_records(paths.zero_shot_scores, found.scores)
    write_records(paths.zero_shot_attacked, found.attacked)
    write_plots(evaluation, paths.zero_shot_roc, paths.zero_shot_distributions)
    metrics = evaluation.as_metrics(found.made)
    metrics["requests"] = requests
    metrics["notices"] = [*unmet_prompts(poems, assignments, attacks), *evaluation.notices]
    write_metrics(paths.zero_shot_metrics, metrics)
    for notice in metrics["notices"]:
        sys.stderr.write(f"notice: {notice}\n")


if __name__ == "__main__":
    run_stage(main)
