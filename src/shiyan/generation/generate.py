"""Which poems are asked of which LLM, the asking, and what came of it.

A modern poem is asked for once per human poem, prompt and sample (AIGenPoetry,
section 4); a ci once per cipai, theme, prompt and sample (CCiV, section 2.2).
"""

import hashlib
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from shiyan import poem as parser
from shiyan.chat import Chat, ChatFailure, ChatRequest, Message, Outcome
from shiyan.config import GenerateParams, PromptTexts, SamplingParams
from shiyan.errors import UserError
from shiyan.generation.clean import Asked, Cleaned, clean
from shiyan.generation.prompts import OWN_TITLE, fill, modern_fields, template_of
from shiyan.generation.record import reply_record
from shiyan.generation.seeds import derived
from shiyan.records import Generation, Poem, Reply

ThemeSource = Literal["title", "topic", "list"]

ASKED_AGAIN = frozenset(
    {"empty", "refusal", "thinking_only", "title_only", "echo_only", "not_chinese", "loop"}
    | {"truncated", "copy_of_seed", "reasoning_only", "no_answer"}
)
"""Reasons that another seed may mend. A filter, a prompt that is too long and a server
that stays silent are not among them."""


@dataclass(frozen=True)
class CiForms:
    """What the ci domain lends to generation."""

    describe: Callable[[str], str]
    """The standard form of a cipai in Chinese: line lengths, tones, rhymes."""
    topic: Callable[[str], str]
    """What a title says beside the cipai's name; "" where it says nothing."""
    longest: Callable[[str], int]
    """Characters of the longest form of a cipai."""


@dataclass(frozen=True)
class Theme:
    """What a ci is asked to be about."""

    text: str
    source: ThemeSource
    poem: Poem | None
    """The human ci whose title it is; None where it came from the list."""


@dataclass(frozen=True)
class Task:
    """One poem that is to exist."""

    poem_id: str
    generator: str
    prompt_id: str
    prompt: str
    """The whole text that is sent."""
    asked: Asked
    sample_index: int
    draw: tuple[str | int, ...]
    """Names the draw; its seed is derived from this and the stage's seed."""
    max_tokens: int
    theme: Theme | None = None

    @property
    def seed_poem_id(self) -> str | None:
        return self.asked.human.poem_id if self.asked.human else None

    def request(self, sampling: SamplingParams, seed: int, attempt: int) -> ChatRequest:
        """The request of an attempt (from 0); each draws with a seed of its own."""
        return ChatRequest(
            messages=(Message("user", self.prompt),),
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            max_tokens=self.max_tokens,
            seed=derived(seed, *self.draw, attempt),
            sample=self.sample_index,
        )


@dataclass(frozen=True)
class Written:
    """What came of a task: the poem, if there is one, and the last reply."""

    poem: Poem | None
    reply: Reply
    prompt_tokens: int = 0
    """Of all attempts."""
    completion_tokens: int = 0
    failures: tuple[str, ...] = ()
    """Kinds of the requests that failed, of all attempts."""


# --- the plan -----------------------------------------------------------------------


def plan_poems(
    human: Sequence[Poem], params: GenerateParams, prompts: PromptTexts, forms: CiForms
) -> list[Task]:
    """Every poem that the parameters ask for, models in order.

    Raises:
        UserError: no human poems, an unknown prompt, or a prompt of another genre.
    """
    if not human:
        raise UserError("there are no human poems to write by; collect some first")
    modern = [poem for poem in human if poem.genre == "modern"]
    ci = [poem for poem in human if poem.genre == "ci"]
    genre = dict.fromkeys(prompts.ci, "ci") | dict.fromkeys(prompts.modern, "modern")
    tasks: list[Task] = []
    for generator in params.models:
        for prompt_id in params.prompts:
            default = "ci" if ci else "modern"
            if genre.get(prompt_id, default) == "ci":
                template = template_of(prompt_id, "ci" if ci else "modern", prompts)
                tasks += _ci_tasks(ci, generator, prompt_id, template, params, forms)
            else:
                template = template_of(prompt_id, "modern" if modern else "ci", prompts)
                tasks += _modern_tasks(modern, generator, prompt_id, template, params)
    return tasks


def _modern_tasks(
    human: Sequence[Poem], generator: str, prompt_id: str, template: str, params: GenerateParams
) -> Iterator[Task]:
    for poem in human:
        prompt = fill(template, modern_fields(poem), f"prompts.modern.{prompt_id}")
        title = None if prompt_id in OWN_TITLE else poem.title or None
        request = prompt.replace(parser.normalised(poem.text), "")
        for sample in range(params.samples):
            yield Task(
                poem_id=f"{generator}|{prompt_id}|{poem.poem_id}|{sample}",
                generator=generator,
                prompt_id=prompt_id,
                prompt=prompt,
                asked=Asked("modern", title, request, poem),
                sample_index=sample,
                draw=(prompt_id, poem.poem_id, sample),
                max_tokens=params.sampling.max_tokens,
            )


def _ci_tasks(
    human: Sequence[Poem],
    generator: str,
    prompt_id: str,
    template: str,
    params: GenerateParams,
    forms: CiForms,
) -> Iterator[Task]:
    joins = joins_stanzas(human)
    by_cipai: dict[str, list[Poem]] = {}
    for poem in human:
        if poem.cipai:
            by_cipai.setdefault(poem.cipai, []).append(poem)
    for cipai, poems in by_cipai.items():
        limit = longest_reply(params, cipai, forms)
        fields = {"cipai": cipai, "form": forms.describe(cipai) if "{form}" in template else ""}
        for theme in themes_of(cipai, poems, params, forms):
            key = theme.poem.poem_id if theme.poem else f"{cipai}-{theme.text}"
            prompt = fill(template, fields | {"theme": theme.text}, f"prompts.ci.{prompt_id}")
            for sample in range(params.samples):
                yield Task(
                    poem_id=f"{generator}|{prompt_id}|{key}|{sample}",
                    generator=generator,
                    prompt_id=prompt_id,
                    prompt=prompt,
                    asked=Asked("ci", theme.text, prompt, theme.poem, cipai, joins),
                    sample_index=sample,
                    draw=(prompt_id, cipai, key, sample),
                    max_tokens=limit,
                    theme=theme,
                )


TITLE_TOKENS = 40
"""For a ci's title line, and what a model says before it."""
SHORTEST_LIMIT = 160
"""Tokens; leaves room for a tune of the same name that is longer (浪淘沙令 for 浪淘沙)."""


def longest_reply(params: GenerateParams, cipai: str, forms: CiForms) -> int:
    """Tokens that a reply with a ci to this cipai may have.

    Raises:
        UserError: the limit goes by its forms, and nobody knows the cipai.
    """
    most = params.sampling.max_tokens
    if params.tokens_per_character is None:
        return most
    wanted = math.ceil(params.tokens_per_character * forms.longest(cipai)) + TITLE_TOKENS
    return min(most, max(SHORTEST_LIMIT, wanted))


def joins_stanzas(human: Iterable[Poem]) -> bool:
    """Have the corpus's ci no blank line, so that one would tell an LLM's from a poet's?"""
    return not any(len(parser.stanzas(poem.text)) > 1 for poem in human if poem.genre == "ci")


LONGEST_THEME = 20
"""Characters; a longer title is a preface and not a theme."""


def themes_of(
    cipai: str, poems: Sequence[Poem], params: GenerateParams, forms: CiForms
) -> list[Theme]:
    """The themes of a cipai, drawn by seed, the same for every model and prompt.

    Titles and topics of its own human ci come first (CCiV, section 2.1); where there
    are too few, the list of common themes fills up.
    """
    own: dict[str, Theme] = {}
    for poem in poems:
        topic = forms.topic(poem.title).strip()
        if topic and topic != cipai and len(topic) <= LONGEST_THEME:
            source: ThemeSource = "title" if topic == poem.title else "topic"
            own.setdefault(topic, Theme(topic, source, poem))
    drawn = random.Random(derived(params.seed, "themes", cipai))
    chosen = [
        own[text] for text in drawn.sample(sorted(own), min(len(own), params.titles_per_cipai))
    ]
    common = [text for text in params.themes if text not in own]
    missing = params.titles_per_cipai - len(chosen)
    if missing > len(common):
        raise UserError(
            f"generate.titles_per_cipai asks for {params.titles_per_cipai} themes, but {cipai} has "
            f"{len(own)} titles of its own and generate.themes {len(common)} more; "
            "add themes or ask for fewer",
            2,
        )
    return chosen + [Theme(text, "list", None) for text in drawn.sample(common, missing)]


# --- asking -------------------------------------------------------------------------


def attempts_of(params: GenerateParams) -> int:
    """At temperature 0 another seed draws the same reply: one attempt is all there is."""
    return params.attempts if params.sampling.temperature > 0 else 1


def write_poems(tasks: Sequence[Task], chat: Chat, params: GenerateParams) -> list[Written]:
    """Ask for every poem of one model, in rounds: what failed is asked again by another seed.

    Raises:
        UserError: as `Chat.ask_all`; finished replies are kept.
    """
    settled: dict[str, Written] = {}
    waiting = list(tasks)
    for attempt in range(attempts_of(params)):
        # A prompt's later samples come when its first has been read, and kept, by the server.
        ordered = sorted(waiting, key=lambda task: task.sample_index)
        asked = {task.request(params.sampling, params.seed, attempt): task for task in ordered}
        what = "poems" if attempt == 0 else f"poems, attempt {attempt + 1}"
        for request, outcome in chat.ask_all(list(asked), what):
            task = asked[request]
            settled[task.poem_id] = _added(
                settled.get(task.poem_id), judged(task, request, outcome, attempt + 1)
            )
        waiting = [task for task in waiting if _is_worth_another(settled[task.poem_id])]
        if not waiting:
            break
    return [settled[task.poem_id] for task in tasks]


def still_to_ask(tasks: Sequence[Task], chat: Chat, params: GenerateParams) -> list[ChatRequest]:
    """The next request of every task that the cache does not settle yet; nothing is asked."""
    requests: list[ChatRequest] = []
    for task in tasks:
        for attempt in range(attempts_of(params)):
            request = task.request(params.sampling, params.seed, attempt)
            outcome = chat.kept(request)
            if outcome is None:
                requests.append(request)
                break
            if not _is_worth_another(judged(task, request, outcome, attempt + 1)):
                break
    return requests


def _is_worth_another(written: Written) -> bool:
    return written.poem is None and written.reply.missing_reason in ASKED_AGAIN


def _added(before: Written | None, now: Written) -> Written:
    """The later attempt, with what the earlier ones used up."""
    if before is None:
        return now
    return replace(
        now,
        prompt_tokens=before.prompt_tokens + now.prompt_tokens,
        completion_tokens=before.completion_tokens + now.completion_tokens,
        failures=before.failures + now.failures,
    )


def judged(task: Task, request: ChatRequest, outcome: Outcome, attempts: int) -> Written:
    """What an outcome is: a poem, or missing by a reason."""
    used = (outcome.prompt_tokens or 0, outcome.completion_tokens or 0)
    if isinstance(outcome, ChatFailure):
        return Written(None, _reply(task, outcome, attempts, None), *used, failures=(outcome.kind,))
    cleaned = clean(outcome.text, task.asked, outcome.finish_reason)
    reply = _reply(task, outcome, attempts, cleaned)
    if cleaned.missing:
        return Written(None, reply, *used)
    generation = Generation(
        generator=task.generator,
        prompt_id=task.prompt_id,
        seed_poem_id=task.seed_poem_id,
        sample_index=task.sample_index,
        theme=task.theme.text if task.theme else None,
        theme_source=task.theme.source if task.theme else None,
        temperature=request.temperature,
        top_p=request.top_p,
        seed=request.seed,
        reply_sha256=sha256(outcome.text),
        finish_reason=outcome.finish_reason,
        flags=cleaned.flags,
    )
    return Written(poem_of(task.poem_id, task.asked, cleaned, generation), reply, *used)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def poem_of(poem_id: str, asked: Asked, cleaned: Cleaned, generation: Generation) -> Poem:
    """The record of a cleaned reply; dates and notes stand beside the verse, as a poet's do."""
    verse, beside = (cleaned.body, ()) if asked.genre == "ci" else parser.parts(cleaned.body)
    kinds = dict.fromkeys(apart.kind for apart in beside)
    return Poem(
        poem_id=poem_id,
        title=title_of(asked, cleaned),
        text=verse,
        genre="ci" if asked.genre == "ci" else "modern",
        author=generation.generator,
        cipai=asked.cipai,
        generation=generation,
        beside={
            kind: tuple(apart.line for apart in beside if apart.kind == kind) for kind in kinds
        },
    )


def title_of(asked: Asked, cleaned: Cleaned) -> str:
    """The reply's own title, or the one that was asked for.

    A ci is titled as the corpus titles its ci: as the human one whose theme it has, or
    by its cipai; otherwise the title alone would tell who wrote it.
    """
    if asked.cipai:
        return asked.human.title if asked.human else asked.cipai
    return cleaned.title or asked.title or ""


def _reply(task: Task, outcome: Outcome, attempts: int, cleaned: Cleaned | None) -> Reply:
    return reply_record(
        "poem",
        task.poem_id,
        generator=task.generator,
        prompt_id=task.prompt_id,
        seed_poem_id=task.seed_poem_id,
        cipai=task.asked.cipai,
        outcome=outcome,
        attempts=attempts,
        missing=cleaned.missing if cleaned else None,
        flags=cleaned.flags if cleaned else (),
        removed=cleaned.removed if cleaned else (),
    )
