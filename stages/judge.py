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
from shiyan.judging.judge import judge, made, plan_readings, texts_of
from shiyan.judging.rubric import RUBRICS
from shiyan.metrics import write_metrics
from shiyan.records import HumanRating, Persona, Poem, Understanding
from shiyan.stage import run_stage
from shiyan.work import WorkCache


def main() -> None:
    params = load_params("judge", JudgeParams)
    paths = load_params("paths", PathsParams)
    texts = texts_of(load_params("prompts", PromptTexts), params.prompt_set)
    poems = [poem for path in (paths.poems, paths.generated) for poem in read_records(path, Poem)]
    readings = list(read_records(paths.understandings, Understanding))
    tasks = plan_readings(params, texts, poems, read_records(paths.personas, Persona), readings)
    models = load_models(params.models)
    budget = Budget(params.budget, "judge.budget")
    judgments = judge(tasks, params, texts, models, WorkCache(), budget)
    evaluation = Evaluation(
        judgments,
        readings,
        read_records(paths.ratings, HumanRating),
        RUBRICS[params.prompt_set],
        {name: model.family for name, model in load_models(list(read_params()["models"])).items()},
        resamples=params.resamples,
        seed=params.seed,
    )
    for notice in evaluation.notices():
        sys.stderr.write(f"notice: {notice}\n")
    write_records(paths.judgments, judgments)
    write_metrics(paths.judge_metrics, evaluation.metrics(made(params, texts, models)))
    write_error_table(paths.judge_errors, evaluation.error_rows())


if __name__ == "__main__":
    run_stage(main)
