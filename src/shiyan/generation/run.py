"""The whole of generation: poems and readings, one model after the other."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shiyan.chat import AnyModelParams, Budget, Chat
from shiyan.config import GenerateParams, PromptTexts, project_root
from shiyan.generation import finished
from shiyan.generation import generate as poems
from shiyan.generation import understand as readings
from shiyan.generation.generate import CiForms, Task, Written
from shiyan.generation.understand import Reading, ReadingTask
from shiyan.records import Poem, Reply, Understanding
from shiyan.work import WorkCache


@dataclass(frozen=True)
class Work:
    """What a run is to bring about, before anything is asked."""

    params: GenerateParams
    prompts: PromptTexts
    human: Sequence[Poem]
    forms: CiForms
    chats: Mapping[str, Chat]
    """One a model, in the order in which they will be asked."""
    budget: Budget
    tasks: Sequence[Task]
    """Empty where finished replies are read instead."""
    reading_tasks: Sequence[ReadingTask]

    def of(self, name: str) -> tuple[list[Task], list[ReadingTask]]:
        """What is asked of one model."""
        return (
            [task for task in self.tasks if task.generator == name],
            [task for task in self.reading_tasks if task.reader == name],
        )


@dataclass(frozen=True)
class Generated:
    """What a run brought about."""

    written: Sequence[Written]
    readings: Sequence[Reading]
    constructed: Sequence[Understanding]

    @property
    def poems(self) -> list[Poem]:
        return [item.poem for item in self.written if item.poem is not None]

    @property
    def replies(self) -> list[Reply]:
        return [item.reply for item in self.written] + [item.reply for item in self.readings]

    @property
    def understandings(self) -> list[Understanding]:
        own = [item.understanding for item in self.readings if item.understanding is not None]
        return [*own, *self.constructed]


def plan(
    human: Sequence[Poem],
    personas: Iterable[str],
    params: GenerateParams,
    models: Mapping[str, AnyModelParams],
    prompts: PromptTexts,
    forms: CiForms,
    cache: WorkCache,
) -> Work:
    """Everything that will be asked; nothing is asked or started.

    Args:
        personas: the poets who have one; their poems are read first.

    Raises:
        UserError: parameters that do not fit each other or the poems.
    """
    budget = Budget(params.budget, "asking.generate.budget")
    chosen = readings.choose_poems(human, params.understanding.poems, params.seed, personas)
    reading_tasks = readings.plan_readings(chosen, params.understanding, prompts)
    tasks = poems.plan_poems(human, params, prompts, forms) if params.replies is None else []
    names = [task.generator for task in tasks] + [task.reader for task in reading_tasks]
    chats = {
        name: Chat(name, models[name], cache=cache, at_once=params.requests_at_once, budget=budget)
        for name in dict.fromkeys(names)
    }
    return Work(params, prompts, human, forms, chats, budget, tasks, reading_tasks)


def carry_out(work: Work) -> Generated:
    """Ask for what is not kept yet, clean it, and construct references.

    Raises:
        UserError: as `Chat.ask_all`, or a file of finished replies that cannot be read.
    """
    params = work.params
    written: list[Written] = []
    if params.replies is not None:
        path = project_root() / Path(params.replies)
        written = finished.read_finished(path, work.human, work.prompts, work.forms)
    for name, chat in work.chats.items():
        if any(still_to_ask(work, name)):
            chat.check_ready()
    read: list[Reading] = []
    for name, chat in work.chats.items():
        tasks, reading_tasks = work.of(name)
        with chat:
            written += poems.write_poems(tasks, chat, params)
            read += readings.read_poems(
                reading_tasks, chat, params.understanding, params.seed, params.attempts
            )
    own = [item.understanding for item in read if item.understanding is not None]
    constructed = readings.construct(own) if params.understanding.constructed else []
    return Generated(written, read, constructed)


def still_to_ask(work: Work, name: str) -> tuple[list[Any], list[Any]]:
    """The next requests for poems, and for readings, that the cache does not settle yet."""
    params, chat = work.params, work.chats[name]
    tasks, reading_tasks = work.of(name)
    return (
        poems.still_to_ask(tasks, chat, params),
        readings.still_to_ask(
            reading_tasks, chat, params.understanding, params.seed, params.attempts
        ),
    )
