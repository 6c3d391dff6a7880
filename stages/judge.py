"""Let LLMs judge readings of poems, with and without the poet's persona."""

import sys

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
from shiyan.judging.evaluate import Evaluation, write_error_table
from shiyan.judging.judge import judge, made, plan_quality, plan_readings, texts_of
from shiyan.judging.probes import evaluate_probes, make_probes
from shiyan.judging.quality import evaluate_quality
from shiyan.judging.rubric import RUBRICS
from shiyan.metrics import write_metrics
from shiyan.records import HumanRating, Persona, Poem, Understanding
from shiyan.stage import run_stage
from shiyan.work import WorkCache


def main() -> None:
    params = load_params("judge", JudgeParams)
    paths = load_params("paths", PathsParams)
    prompts, rubric = load_params("prompts", PromptTexts), RUBRICS[params.prompt_set]
    poems = [poem for path in (paths.poems, paths.generated) for poem in read_records(path, Poem)]
    readings = list(read_records(paths.understandings, Understanding))
    personas = list(read_records(paths.personas, Persona))
    ratings = read_records(paths.ratings, HumanRating)
    probes = make_probes(params.probes, readings, rubric)
    judged = [*readings, *(probe.reading for probe in probes)]
    tasks = plan_readings(params, texts_of(prompts, params.prompt_set), poems, personas, judged)
    if params.quality_poems:
        tasks += plan_quality(params, texts_of(prompts, "ci_quality"), poems)
    models = load_models(params.models)
    budget = Budget(params.budget, "judge.budget")
    judgments = judge(tasks, params, models, WorkCache(), budget)
    everyone = load_models(list(read_params()["models"]))
    families = {name: model.family for name, model in everyone.items()}
    drawn = {"resamples": params.resamples, "seed": params.seed}
    found = Evaluation(judgments, readings, ratings, rubric, families, **drawn)
    for notice in found.notices():
        sys.stderr.write(f"notice: {notice}\n")
    metrics = found.metrics(made(params, prompts, models))
    metrics["probes"] = evaluate_probes(probes, judgments, **drawn)
    metrics["ci_quality"] = evaluate_quality(judgments, poems, **drawn)
    write_records(paths.judgments, judgments)
    write_metrics(paths.judge_metrics, metrics)
    write_error_table(paths.judge_errors, found.error_rows())


if __name__ == "__main__":
    run_stage(main)
