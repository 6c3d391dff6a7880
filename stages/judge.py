"""Let LLMs judge readings of poems, with and without the poet's persona."""

import sys

from shiyan import lost
from shiyan.chat import Budget
from shiyan.config import (
    JudgeParams,
    PathsParams,
    PromptTexts,
    load_models,
    load_params,
    read_params,
)
from shiyan.jsonl import read_records, write_records
from shiyan.judging.evaluate import Evaluation, checked, write_error_table
from shiyan.judging.judge import judge, made
from shiyan.judging.plan import plan, read_material
from shiyan.judging.probe_results import evaluate_probes
from shiyan.judging.quality import evaluate_quality
from shiyan.judging.rubric import RUBRICS
from shiyan.metrics import write_metrics
from shiyan.records import HumanRating
from shiyan.stage import run_stage
from shiyan.work import WorkCache


def main() -> None:
    params = load_params("judge", JudgeParams)
    paths = load_params("paths", PathsParams)
    prompts, rubric = load_params("prompts", PromptTexts), RUBRICS[params.prompt_set]
    material, models = read_material(paths), load_models(params.judges)
    ratings = list(read_records(paths.ratings, HumanRating))
    # Before anything is asked: what cannot be used would be found out after it was paid for.
    checked(ratings, {r.item_id: r for r in material.readings}, rubric)
    planned = plan(params, prompts, models, material)
    budget = Budget(params.budget, "asking.judge.budget")
    judgments = judge(planned.tasks, params, models, WorkCache(), budget)
    asked = sum(task.obstacle is None for task in planned.tasks)
    requests = lost.counted(asked, (lost.kind_in(j.unscored_reason) for j in judgments))
    lost.check("judge", requests, params.most_failed)
    families = read_params()["families"] | params.other_readers
    drawn = {"resamples": params.resamples, "seed": params.seed}
    found = Evaluation(judgments, material.readings, ratings, rubric, families, **drawn)
    for notice in [*planned.notices, *found.notices()]:
        sys.stderr.write(f"notice: {notice}\n")
    metrics = found.metrics(made(params, prompts, models))
    metrics["probes"] = evaluate_probes(planned.probes, judgments, **drawn)
    metrics["ci_quality"] = evaluate_quality(judgments, material.poems, **drawn)
    metrics["requests"] = requests
    metrics["money"] = {"spent": budget.spent, "currency": budget.currency}
    write_records(paths.judgments, judgments)
    write_metrics(paths.judge_metrics, metrics)
    write_error_table(paths.judge_errors, found.error_rows())


if __name__ == "__main__":
    run_stage(main)
