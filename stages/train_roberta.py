"""Train detectors on the train fold, and score every poem with them."""

import sys
from dataclasses import asdict

from shiyan.config import (
    PathsParams,
    TrainRobertaParams,
    load_models,
    load_params,
)
from shiyan.detectors import identity
from shiyan.detectors.counts import fingerprint, score_counts
from shiyan.detectors.finetune import CURVE_COLUMNS
from shiyan.detectors.lessons import train_lessons
from shiyan.detectors.trained import train_detectors
from shiyan.jsonl import read_by_id, read_records, write_csv, write_records
from shiyan.metrics import write_metrics
from shiyan.records import Assignment, AttackedPoem, GeneratorIdentity, Poem
from shiyan.stage import run_stage
from shiyan.work import WorkCache


def main() -> None:
    params = load_params("train_roberta", TrainRobertaParams)
    paths = load_params("paths", PathsParams)
    poems = read_by_id(Poem, paths.poems, paths.generated)
    assignments = read_by_id(Assignment, paths.splits)
    adapted = params.lora.model if params.lora else None
    models = load_models([adapted] if adapted else [])
    cache = WorkCache()
    attacked = list(read_records(paths.attacked, AttackedPoem))
    trained = train_detectors(poems, assignments, params, models, cache, attacked)
    lessons = train_lessons(poems, assignments, params, models, cache)
    trained.save(paths.trained_models)
    write_records(paths.trained_scores, trained.scores)
    write_records(paths.trained_lessons, lessons)
    write_records(paths.trained_attacked, trained.attacked)
    write_csv(paths.training_curves, CURVE_COLUMNS, map(asdict, trained.curve))
    generators = read_records(paths.generators, GeneratorIdentity)
    weights = identity.described(identity.of_trained(params, models), poems, generators)
    made = {**trained.made, **weights, "split_sha256": fingerprint(assignments)}
    metrics = {
        "scores": score_counts(trained.scores),
        "reading": trained.reading,
        "notices": trained.notices,
        "made": made,
    }
    write_metrics(paths.trained_metrics, metrics)
    for notice in trained.notices:
        sys.stderr.write(f"notice: {notice}\n")
    trained.forget_checkpoints()


if __name__ == "__main__":
    run_stage(main)
