"""Readings of human poems by LLMs, to be judged (Poller, section 4.1).

Where no rated reading exists, a reference is constructed: the reading of another
poem, which deserves 0 for content; it is named so everywhere.
"""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from shiyan import poem as parser
from shiyan.answers import split_thinking
from shiyan.chat import Chat, ChatFailure, ChatReply, ChatRequest, Message, Outcome
from shiyan.config import PromptTexts, UnderstandingParams
from shiyan.errors import UserError
from shiyan.generation import wrapping
from shiyan.generation.prompts import fill
from shiyan.generation.record import reply_record
from shiyan.generation.seeds import derived
from shiyan.records import Poem, Reply, Understanding

PROMPT_ID = "understanding"
ALL = "all"
"""The dimension of a reading of everything at once."""

LEAST_CHINESE = 0.2
"""Share of Han characters under which a text is no Chinese reading."""


@dataclass(frozen=True)
class ReadingTask:
    """One reading that is to exist."""

    item_id: str
    poem: Poem
    reader: str
    prompt: str
    dimension: str = ALL

    def request(self, params: UnderstandingParams, seed: int, attempt: int) -> ChatRequest:
        return ChatRequest(
            messages=(Message("user", self.prompt),),
            temperature=params.temperature,
            top_p=params.top_p,
            max_tokens=params.max_tokens,
            seed=derived(seed, *self._draw(), attempt),
        )

    def _draw(self) -> tuple[str, ...]:
        """Names the draw; a reading of everything keeps the name it always had."""
        one = () if self.dimension == ALL else (self.dimension,)
        return (PROMPT_ID, self.poem.poem_id, *one)


@dataclass(frozen=True)
class Reading:
    """What came of a reading task."""

    understanding: Understanding | None
    reply: Reply


def choose_poems(human: Sequence[Poem], n: int, seed: int, known: Iterable[str]) -> list[Poem]:
    """`n` poems by seed, one an author in turn; authors with a persona (`known`) first.

    Fewer where there are no more.
    """
    drawn = random.Random(derived(seed, "readings"))
    by_author: dict[str, list[Poem]] = {}
    for poem in human:
        by_author.setdefault(poem.author, []).append(poem)
    for poems in by_author.values():
        drawn.shuffle(poems)
    personas = set(known)
    first = [author for author in sorted(by_author) if author in personas]
    rest = [author for author in sorted(by_author) if author not in personas]
    drawn.shuffle(first)
    drawn.shuffle(rest)
    return [*_in_turn(first, by_author), *_in_turn(rest, by_author)][:n]


def _in_turn(authors: Sequence[str], poems: dict[str, list[Poem]]) -> Iterator[Poem]:
    for index in range(max((len(poems[author]) for author in authors), default=0)):
        yield from (poems[author][index] for author in authors if index < len(poems[author]))


def plan_readings(
    poems: Sequence[Poem], params: UnderstandingParams, prompts: PromptTexts
) -> list[ReadingTask]:
    """Every reading that the parameters ask for, readers in order; of one dimension alone
    (Poller, section 8) where `params.dimensions` names one.

    Raises:
        UserError: there is no prompt for a poem's genre, or no question about a dimension.
    """
    asked = dict.fromkeys(params.dimensions)
    return [
        ReadingTask(
            item_id=_item_id(poem, reader, dimension),
            poem=poem,
            reader=reader,
            prompt=_prompt(poem, dimension, prompts.understanding),
            dimension=dimension,
        )
        for reader in params.readers
        for poem in poems
        for dimension in asked
    ]


def _item_id(poem: Poem, reader: str, dimension: str) -> str:
    whole = f"{poem.poem_id}|reading|{reader}"
    return whole if dimension == ALL else f"{whole}|{dimension}"


def _prompt(poem: Poem, dimension: str, texts: Mapping[str, str]) -> str:
    key = poem.genre if dimension == ALL else f"{poem.genre}_one"
    question = f"{poem.genre}_{dimension}"
    if key not in texts:
        raise UserError(
            f"prompts.understanding has no text for genre {poem.genre}; add one under the key "
            f"{key}",
            2,
        )
    if dimension != ALL and question not in texts:
        prefix = f"{poem.genre}_"
        known = [name.removeprefix(prefix) for name in texts if name.startswith(prefix)]
        raise UserError(
            f"generate.understanding.dimensions names {dimension!r}, about which "
            "prompts.understanding asks nothing; allowed are "
            f"{', '.join([ALL, *(name for name in known if name != 'one')])}",
            2,
        )
    fields = {
        "title": poem.title or "无题",
        "poem": parser.normalised(poem.text),
        "cipai": poem.cipai or "",
        "dimension": dimension,
        "question": texts.get(question, ""),
    }
    return fill(texts[key], fields, f"prompts.understanding.{key}")


def read_poems(
    tasks: Sequence[ReadingTask], chat: Chat, params: UnderstandingParams, seed: int, attempts: int
) -> list[Reading]:
    """Ask one reader for its readings, in rounds as poems are asked for.

    A reading that the token limit cut is kept with the flag `truncated`: what it says
    can be judged, and another attempt would mostly be cut as well.

    Raises:
        UserError: as `Chat.ask_all`; finished replies are kept.
    """
    settled: dict[str, Reading] = {}
    waiting = list(tasks)
    for attempt in range(attempts if params.temperature > 0 else 1):
        asked = {task.request(params, seed, attempt): task for task in waiting}
        what = "readings" if attempt == 0 else f"readings, attempt {attempt + 1}"
        for request, outcome in chat.ask_all(list(asked), what):
            task = asked[request]
            settled[task.item_id] = judged(task, outcome, attempt + 1)
        waiting = [task for task in waiting if _is_worth_another(settled[task.item_id])]
        if not waiting:
            break
    return [settled[task.item_id] for task in tasks]


def still_to_ask(
    tasks: Sequence[ReadingTask], chat: Chat, params: UnderstandingParams, seed: int, attempts: int
) -> list[ChatRequest]:
    """The next request of every reading that the cache does not settle yet."""
    requests: list[ChatRequest] = []
    for task in tasks:
        for attempt in range(attempts if params.temperature > 0 else 1):
            request = task.request(params, seed, attempt)
            outcome = chat.kept(request)
            if outcome is None:
                requests.append(request)
                break
            if not _is_worth_another(judged(task, outcome, attempt + 1)):
                break
    return requests


_ASKED_AGAIN = frozenset({"empty", "thinking_only", "not_chinese", "no_answer", "reasoning_only"})


def _is_worth_another(reading: Reading) -> bool:
    return reading.reply.missing_reason in _ASKED_AGAIN


def judged(task: ReadingTask, outcome: Outcome, attempts: int) -> Reading:
    """What an outcome is: a reading, or missing by a reason."""
    if isinstance(outcome, ChatFailure):
        return Reading(None, _reply(task, outcome, attempts, None))
    thinking, answer = split_thinking(outcome.text)
    text = wrapping.without_special_tokens(answer, lambda _: None).strip()
    if not text:
        missing = "thinking_only" if thinking is not None else "empty"
        return Reading(None, _reply(task, outcome, attempts, missing))
    if len(parser.characters(text)) < LEAST_CHINESE * len(text):
        return Reading(None, _reply(task, outcome, attempts, "not_chinese"))
    understanding = Understanding(
        item_id=task.item_id,
        poem_id=task.poem.poem_id,
        reader=task.reader,
        text=text,
        dimension=task.dimension,
    )
    return Reading(understanding, _reply(task, outcome, attempts, None))


def _reply(task: ReadingTask, outcome: Outcome, attempts: int, missing: str | None) -> Reply:
    is_cut = outcome.finish_reason == "length" and isinstance(outcome, ChatReply)
    return reply_record(
        "understanding",
        task.item_id,
        generator=task.reader,
        prompt_id=PROMPT_ID,
        seed_poem_id=task.poem.poem_id,
        outcome=outcome,
        attempts=attempts,
        missing=missing,
        flags=("truncated",) if is_cut and missing is None else (),
    )


def construct(readings: Sequence[Understanding]) -> list[Understanding]:
    """Every read poem with the reading of another one, by the same reader; of everything,
    since another poem's rhetoric may be rightly described as this one's.

    The readings follow each other as the poems were chosen, author by author in turn,
    so the next poem's reading is another author's where there are several.
    """
    constructed: list[Understanding] = []
    for reader in dict.fromkeys(reading.reader for reading in readings):
        own = [r for r in readings if r.reader == reader and r.dimension == ALL]
        if len(own) < 2:
            continue
        for reading, other in zip(own, [*own[1:], own[0]], strict=True):
            constructed.append(
                Understanding(
                    item_id=f"{reading.poem_id}|reading-of|{other.poem_id}|{reader}",
                    poem_id=reading.poem_id,
                    reader=reader,
                    text=other.text,
                    source="constructed",
                )
            )
    return constructed
