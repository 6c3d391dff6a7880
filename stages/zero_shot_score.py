"""Score every poem by every detector that needs no training."""

import sys

from shiyan import lost
from shiyan.config import (
    PathsParams,
    PromptTexts,
    ZeroShotScoreParams,
    load_models,
    load_params,
)
from shiyan.detectors import identity, memorisation
from shiyan.detectors.counts import fingerprint, score_counts
from shiyan.detectors.untrained import named, score_untrained, weights_of
from shiyan.jsonl import read_by_id, read_records, write_records
from shiyan.metrics import write_metrics
from shiyan.records import Assignment, AttackedPoem, GeneratorIdentity, Poem
from shiyan.stage import run_stage
from shiyan.token_statistics import write_statistics
from shiyan.work import WorkCache


def main() -> None:
    params = load_params("zero_shot_score", ZeroShotScoreParams)
    paths = load_params("paths", PathsParams)
    texts = load_params("prompts", PromptTexts).detection
    poems = read_by_id(Poem, paths.poems, paths.generated)
    assignments = read_by_id(Assignment, paths.splits)
    models = load_models(named(params))
    generators = list(read_records(paths.generators, GeneratorIdentity))
    attacked = list(read_records(paths.attacked, AttackedPoem))
    found = score_untrained(poems, assignments, params, models, texts, WorkCache(), attacked)
    of_asked = [score for score in found.scores if score.detector.startswith("asked_")]
    requests = lost.counted(len(of_asked), (lost.kind_in(s.unscored_reason) for s in of_asked))
    if params.asked:
        lost.check("zero_shot_score", requests, params.asked.most_failed)
    write_statistics(paths.statistics, found.statistics)
    write_records(paths.zero_shot_scores, found.scores)
    write_records(paths.zero_shot_attacked, found.attacked)
    write_records(paths.memorisation, found.memorised)
    notices = memorisation.told(found.memorised)
    metrics = {
        "scores": score_counts(found.scores),
        "memorisation": memorisation.counted(found.memorised, poems),
        "requests": requests,
        "notices": notices,
        "made": {
            **found.made,
            **identity.described(weights_of(params, models), poems, generators),
            "split_sha256": fingerprint(assignments),
        },
    }
    write_metrics(paths.zero_shot_metrics, metrics)
    for notice in notices:
        sys.stderr.write(f"notice: {notice}\n")


if __name__ == "__main__":
    run_stage(main)
