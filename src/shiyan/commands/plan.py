"""Say what a run would ask of each LLM and train, beforehand: replies, tokens, money, hours.

Counts are exact for what a first attempt needs; a reply that is no poem is asked for
again, at most `attempts` times. Lengths, money and hours are measured on the model's
replies that are kept already; where there are none of a kind, `max_tokens` is the upper
bound, and the hours follow from the model's tokens a second in other work, if any.
Trainings are counted for whole epochs; how long they take is measured by the last one.
"""

import argparse
import dataclasses
import json
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console
from rich.table import Table

from shiyan import planning
from shiyan.chat import Budget, Chat, ChatReply, ChatRequest, price
from shiyan.config import (
    ApiModelParams,
    FilesParams,
    GenerateParams,
    JudgeParams,
    PathsParams,
    PromptTexts,
    SongciParams,
    SplitParams,
    TrainRobertaParams,
    load_corpus,
    load_models,
    load_params,
    project_root,
)
from shiyan.detectors import power
from shiyan.errors import UserError
from shiyan.generation import run as generation
from shiyan.generation.finished import read_finished
from shiyan.generation.generate import Task
from shiyan.generation.run import Work
from shiyan.generation.understand import ReadingTask, construct
from shiyan.jsonl import read_records
from shiyan.judging import judge as judging
from shiyan.judging.plan import Material, plan
from shiyan.records import Assignment, Generation, Persona, Poem, Understanding
from shiyan.splits import assign_folds, group_poems
from shiyan.work import WorkCache

if TYPE_CHECKING:
    from shiyan.detectors.lessons import Training

WIDTH = 118
TOKENS_A_CHARACTER = 1.0
"""Of a prompt, where nothing is measured; Chinese mostly takes less."""


@dataclass(frozen=True)
class Row:
    """What one model is to do for one stage.

    Attributes:
        needed: replies that the stage rests on.
        kept: of these, settled by what is in the work cache.
        to_ask: requests that a run would send, further attempts apart.
        prompt_tokens, completion_tokens: of those requests; None where they are not known.
        money: in `currency`; None where the model's prices are not given.
        hours: None where nothing of the model is measured yet.
        measured_on: kept replies that the lengths and hours come from.
    """

    stage: str
    model: str
    what: str
    needed: int
    kept: int
    to_ask: int
    prompt_tokens: int | None
    completion_tokens: int | None
    money: float | None
    currency: str | None
    hours: float | None
    measured_on: int


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one object a line")


def run(arguments: argparse.Namespace) -> int:
    paths, cache = load_params("paths", PathsParams), WorkCache()
    speeds: Speeds = {}
    other = other_corpus(paths)
    try:
        rows = [*rows_of_generate(paths, cache, speeds), *rows_of_judge(paths, cache, speeds)]
    except UserError as error:
        raise UserError(other, 2) if other else error from None
    if other:
        sys.stderr.write(f"notice: {other}\n")
    folds = planned_folds(paths, cache)
    trainings = trainings_of(folds, cache)
    if arguments.json:
        told = [dataclasses.asdict(row) for row in rows]
        told += [{"stage": "train_roberta", **dataclasses.asdict(t)} for t in trainings]
        for one in told:
            print(json.dumps(one, ensure_ascii=False))
    else:
        console = Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)
        console.print(table_of(rows))
        if trainings:
            console.print(training_table(trainings))
        if sentence := power_line(folds):
            console.print(sentence)
    for notice in budget_notices(rows):
        sys.stderr.write(f"notice: {notice}\n")
    return 0


Folds = tuple[dict[str, Poem], dict[str, Assignment]]
"""Poems and their folds by id."""


def power_line(folds: Folds) -> str:
    """What the test fold can show of detectors, before money is spent; "" without both classes."""
    poems, assignments = folds
    tested = [assignments[i] for i, poem in poems.items() if assignments[i].fold == "test"]
    human = [a for a in tested if poems[a.poem_id].generation is None]
    n_llm = len(tested) - len(human)
    groups = len({a.group_id for a in human})
    return f"Power: {power.told(groups, n_llm / groups)}." if groups and n_llm else ""


def other_corpus(paths: PathsParams) -> str:
    """What to do where the collected poems are no poems of the corpus that is set; else ""."""
    corpus = load_corpus()
    genre = "ci" if isinstance(corpus, SongciParams) else "modern"
    genre = corpus.genre if isinstance(corpus, FilesParams) else genre
    collected = {poem.genre for poem in read_records(paths.poems, Poem)}
    if not collected or genre in collected:
        return ""
    return (
        f"{paths.poems} holds poems of another corpus (genre {', '.join(sorted(collected))}; "
        f"params.yaml sets one of genre {genre}): run `dvc repro collect` first, then plan again"
    )


Speeds = dict[str, float]
"""Model -> seconds a reply's token takes with the others at work, as measured."""


def rows_of_generate(paths: PathsParams, cache: WorkCache, speeds: Speeds) -> list[Row]:
    """Poems and readings of every model, as the generate stage would ask for them."""
    work = planning.planned_generation(paths, cache)
    params = work.params
    if params.replies is not None:
        sys.stderr.write(f"notice: poems are read from {params.replies} and not asked for\n")
    rows = []
    for name, chat in work.chats.items():
        tasks, reading_tasks = work.of(name)
        poems, readings = generation.still_to_ask(work, name)
        first = [task.request(params.sampling, params.seed, 0) for task in tasks]
        read = [task.request(params.understanding, params.seed, 0) for task in reading_tasks]
        if tasks:
            rows.append(row("generate", chat, "poems", first, poems, speeds))
        if reading_tasks:
            rows.append(row("generate", chat, "readings", read, readings, speeds))
    return rows


def rows_of_judge(paths: PathsParams, cache: WorkCache, speeds: Speeds) -> list[Row]:
    """Judgments of every judge; of readings and ci that are not there yet, an upper bound."""
    params = load_params("judge", JudgeParams)
    models = load_models(params.judges)
    material = material_of(paths, cache, params)
    prompts = load_params("prompts", PromptTexts)
    tasks = [t for t in plan(params, prompts, models, material).tasks if t.obstacle is None]
    budget = Budget(params.budget, "asking.judge.budget")
    rows = []
    for name, model in models.items():
        chat = Chat(name, model, cache=cache, at_once=params.requests_at_once, budget=budget)
        own = [task for task in tasks if task.judge == name]
        first = list(dict.fromkeys(judging.first_request(task, params) for task in own))
        if first:
            to_ask = judging.still_to_ask(own, chat, params, cache)
            rows.append(row("judge", chat, "judgments", first, to_ask, speeds))
    if models and not rows:
        sys.stderr.write("notice: there is no reading, hence nothing for the judges\n")
    return rows


def material_of(paths: PathsParams, cache: WorkCache, params: JudgeParams) -> Material:
    """What will be judged; the longest readings and ci that may come stand in for those to come."""
    work = planning.planned_generation(paths, cache)
    poems = list(work.human)
    if params.quality_poems:
        poems += poems_of(paths, work)
    personas = list(read_records(paths.personas, Persona))
    return Material(poems, personas, readings_of(paths, work))


def readings_of(paths: PathsParams, work: Work) -> list[Understanding]:
    """Every reading that the judges will get."""
    given = list(read_records(paths.collected_understandings, Understanding))
    there = _there(paths.understandings, Understanding)
    own = None if there is None else [r.item_id for r in there if r.source == "generated"]
    tasks, wanted = work.reading_tasks, work.params.understanding
    lacks = lack("reading", own, [task.item_id for task in tasks])
    if there is not None and not lacks:
        return [*given, *there]
    if tasks:
        sys.stderr.write(
            f"notice: {paths.understandings} {lacks}; every reading is taken to have "
            f"generate.understanding.max_tokens ({wanted.max_tokens}) tokens\n"
        )
    longest = [longest_reading(task, wanted.max_tokens) for task in tasks]
    wrong = construct(longest) if wanted.constructed else []
    return [*given, *longest, *wrong]


def longest_reading(task: ReadingTask, max_tokens: int) -> Understanding:
    """In sections, of which every probe can be made; no other reads alike, since a request is
    counted once. A character is a token at least, of Chinese and of these models."""
    return Understanding(
        item_id=task.item_id,
        poem_id=task.poem.poem_id,
        reader=task.reader,
        text=f"内容：{task.item_id}。\n语言：{task.item_id}{'。' * max_tokens}",
        dimension=task.dimension,
    )


def poems_of(paths: PathsParams, work: Work) -> list[Poem]:
    """Every ci by an LLM that may be rated."""
    if work.params.replies is not None:
        path = project_root() / Path(work.params.replies).expanduser()
        written = read_finished(path, work.human, work.prompts, work.forms)
        return [one.poem for one in written if one.poem is not None]
    there = _there(paths.generated, Poem)
    tasks = [task for task in work.tasks if task.asked.genre == "ci"]
    ids = None if there is None else [poem.poem_id for poem in there]
    lacks = lack("poem", ids, [task.poem_id for task in work.tasks])
    if there is not None and not lacks:
        return there
    if tasks:
        sys.stderr.write(
            f"notice: {paths.generated} {lacks}; every ci is taken to be there and as long as its "
            "reply may be\n"
        )
    return [longest(task) for task in tasks]


def planned_folds(paths: PathsParams, cache: WorkCache) -> Folds:
    """The poems that are there or will be, and their folds; none where nothing can be held out."""
    work = planning.planned_generation(paths, cache)
    there = _there(paths.generated, Poem)
    ids = None if there is None else [poem.poem_id for poem in there]
    if there is None or lack("poem", ids, [task.poem_id for task in work.tasks]):
        there = [longest(task) for task in work.tasks]
    poems = [*work.human, *there]
    split = load_params("split", SplitParams)
    try:
        assignments = assign_folds(poems, group_poems(poems), split.test_share, split.seed)
    except UserError as error:
        sys.stderr.write(f"notice: no training is planned: {error}\n")
        return {}, {}
    return {poem.poem_id: poem for poem in poems}, {a.poem_id: a for a in assignments}


def trainings_of(folds: Folds, cache: WorkCache) -> "list[Training]":
    """What each network's trainings take."""
    from shiyan.detectors.lessons import planned_trainings

    if not folds[0]:
        return []
    return planned_trainings(*folds, load_params("train_roberta", TrainRobertaParams), cache)


def longest(task: Task) -> Poem:
    """Stands in for a poem to come, as long as its reply may be."""
    return Poem(
        poem_id=task.poem_id,
        title=task.asked.title or "",
        text=f"{task.poem_id}{'。' * task.max_tokens}",
        genre=task.asked.genre,
        author=task.generator,
        cipai=task.asked.cipai,
        generation=Generation(
            generator=task.generator,
            prompt_id=task.prompt_id,
            seed_poem_id=task.seed_poem_id,
            sample_index=task.sample_index,
            theme=task.theme.text if task.theme else None,
            reply_sha256="",
        ),
    )


R = TypeVar("R", Understanding, Poem)


def _there(path: Path, model: type[R]) -> list[R] | None:
    return list(read_records(path, model)) if path.exists() else None


def lack(what: str, there: Collection[str] | None, planned: Collection[str]) -> str:
    """Why a file is not what the judges will get, by the ids that it holds; "" where it is."""
    if there is None:
        return "is not there yet"
    if set(there) - set(planned):
        return f"holds {what}s of another run"
    return "" if there or not planned else f"holds no {what}"


def row(
    stage: str,
    chat: Chat,
    what: str,
    first: Sequence[ChatRequest],
    to_ask: Sequence[ChatRequest],
    speeds: Speeds,
) -> Row:
    """Count and measure: `first` are all first requests, `to_ask` what is not kept.

    What is measured of the model goes into `speeds`.
    """
    known = [(request, chat.kept(request)) for request in first]
    replies = [(request, kept) for request, kept in known if isinstance(kept, ChatReply)]
    ratios = [
        kept.prompt_tokens / max(characters(request), 1)
        for request, kept in replies
        if kept.prompt_tokens
    ]
    lengths = [kept.completion_tokens for _, kept in replies if kept.completion_tokens]
    ratio = mean(ratios) if ratios else TOKENS_A_CHARACTER
    prompt = sum(characters(request) for request in to_ask) * ratio
    completion = sum(mean(lengths) if lengths else chat.most_tokens(request) for request in to_ask)
    seconds = sum(kept.seconds for _, kept in replies if kept.completion_tokens)
    if seconds:
        speeds[chat.name] = seconds / sum(lengths)
    speed = speeds.get(chat.name)
    priced = (
        isinstance(chat.params, ApiModelParams)
        and chat.params.price_per_million_prompt is not None
        and chat.params.price_per_million_completion is not None
    )
    free = not isinstance(chat.params, ApiModelParams)
    return Row(
        stage=stage,
        model=chat.name,
        what=what,
        needed=len(first),
        kept=len(first) - len(to_ask),
        to_ask=len(to_ask),
        prompt_tokens=round(prompt),
        completion_tokens=round(completion),
        money=price(chat.params, prompt, completion) if priced or free else None,
        currency=chat.params.currency if isinstance(chat.params, ApiModelParams) else None,
        hours=0.0 if not to_ask else speed and speed * completion / chat.at_once / 3600,
        measured_on=len(replies),
    )


def characters(request: ChatRequest) -> int:
    return sum(len(message.content) for message in request.messages)


def table_of(rows: Sequence[Row]) -> Table:
    table = Table(title="What a run would ask", title_justify="left")
    for name in ("stage", "model", "what"):
        table.add_column(name)
    for name in ("needed", "kept", "to ask", "prompt tokens", "reply tokens", "money", "hours"):
        table.add_column(name, justify="right")
    for row in rows:
        bound = "" if row.measured_on or not row.to_ask else "≤ "
        money = "?" if row.money is None else f"{row.money:.2f} {row.currency or ''}".strip()
        hours = "?" if row.hours is None else f"{row.hours:.2f}"
        table.add_row(
            row.stage,
            row.model,
            row.what,
            f"{row.needed:,}",
            f"{row.kept:,}",
            f"{row.to_ask:,}",
            "?" if row.prompt_tokens is None else f"{row.prompt_tokens:,}",
            "?" if row.completion_tokens is None else f"{bound}{row.completion_tokens:,}",
            money,
            hours,
        )
    return table


def training_table(trainings: "Sequence[Training]") -> Table:
    table = Table(title="What a run would train", title_justify="left")
    table.add_column("network")
    for name in ("trainings", "poems x epochs", "minutes"):
        table.add_column(name, justify="right")
    for one in trainings:
        minutes = "?" if one.minutes is None else f"{one.minutes:.0f}"
        table.add_row(one.network, f"{one.trainings:,}", f"{one.passes:,}", minutes)
    return table


def budget_notices(rows: Sequence[Row]) -> list[str]:
    """One sentence a stage whose budget would not do, and one a model without prices."""
    limits = {
        "generate": load_params("generate", GenerateParams).budget,
        "judge": load_params("judge", JudgeParams).budget,
    }
    notices = []
    for stage, limit in limits.items():
        own = [row for row in rows if row.stage == stage and row.to_ask]
        needed = sum(row.money or 0.0 for row in own)
        if limit is not None and needed > limit:
            notices.append(
                f"asking.{stage}.budget is {limit:g}, and {needed:.2f} are needed; the stage would "
                "stop before it is done, keeping what was finished"
            )
        for name in sorted({row.model for row in own if row.money is None and row.prompt_tokens}):
            notices.append(
                f"models.{name} has no prices, so that {stage}'s money is not known; give it "
                "price_per_million_prompt and price_per_million_completion"
            )
    return notices
