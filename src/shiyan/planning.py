"""What the stages that ask LLMs will ask, read from params.yaml.

The one place where generation meets the ci domain. The stages and `shiyan plan` start
from here, so that a plan counts what a run will ask.
"""

from collections.abc import Iterator

from shiyan.chat import Budget, Chat, ChatRequest
from shiyan.ci.form import describe_form, load_catalogue
from shiyan.config import (
    GenerateParams,
    JudgeParams,
    PathsParams,
    PromptTexts,
    load_models,
    load_params,
)
from shiyan.generation import run
from shiyan.generation.generate import CiForms
from shiyan.jsonl import read_records
from shiyan.judging import judge as judging
from shiyan.judging.probes import make_probes
from shiyan.judging.rubric import RUBRICS
from shiyan.records import Persona, Poem, Understanding
from shiyan.work import WorkCache


def planned_generation(paths: PathsParams, cache: WorkCache) -> run.Work:
    """Every poem and reading that params.yaml asks for; nothing is asked.

    Raises:
        UserError: the collect stage has not run, or the parameters do not fit.
    """
    params = load_params("generate", GenerateParams)
    return run.plan(
        list(read_records(paths.poems, Poem)),
        [persona.poet_id for persona in read_records(paths.personas, Persona)],
        params,
        load_models((*params.models, *params.understanding.readers)),
        load_params("prompts", PromptTexts),
        ci_forms(),
        cache,
    )


def ci_forms() -> CiForms:
    """What the ci domain knows of forms and titles, for generation to use."""
    catalogue = load_catalogue()
    return CiForms(
        describe=lambda cipai: describe_form(catalogue.named(cipai)[0]),
        topic=lambda title: catalogue.read_title(title).topic if title else "",
    )


def judge_tasks(paths: PathsParams, params: JudgeParams) -> list[judging.Task]:
    """Every judgment that params.yaml asks for: of readings, of probes, of ci's quality.

    Raises:
        UserError: the stages before have not run, or the parameters do not fit.
    """
    prompts = load_params("prompts", PromptTexts)
    poems = [poem for path in (paths.poems, paths.generated) for poem in read_records(path, Poem)]
    readings = list(read_records(paths.understandings, Understanding))
    probes = make_probes(params.probes, readings, RUBRICS[params.prompt_set])
    tasks = judging.plan_readings(
        params,
        judging.texts_of(prompts, params.prompt_set),
        poems,
        read_records(paths.personas, Persona),
        [*readings, *(probe.reading for probe in probes)],
    )
    if params.quality_poems:
        tasks += judging.plan_quality(params, judging.texts_of(prompts, "ci_quality"), poems)
    return tasks


def planned_judging(
    paths: PathsParams, cache: WorkCache
) -> Iterator[tuple[Chat, list[ChatRequest], list[ChatRequest]]]:
    """Of every judge: its first requests, and the next ones that the cache does not settle."""
    params = load_params("judge", JudgeParams)
    tasks = [task for task in judge_tasks(paths, params) if task.obstacle is None]
    budget = Budget(params.budget, "judge.budget")
    for name, model in load_models(params.models).items():
        chat = Chat(name, model, cache=cache, at_once=params.requests_at_once, budget=budget)
        own = [task for task in tasks if task.judge == name]
        first = dict.fromkeys(judging.first_request(task, params) for task in own)
        yield chat, list(first), judging.still_to_ask(own, chat, params)
