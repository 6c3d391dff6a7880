"""Finished replies, a user's own or public ones, through the same cleaning as live ones."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shiyan.answers import finish_of
from shiyan.config import PromptTexts
from shiyan.errors import UserError
from shiyan.generation.clean import Asked, clean
from shiyan.generation.generate import CiForms, Written, joins_stanzas, poem_of, sha256
from shiyan.generation.prompts import OUTPUT, OWN_TITLE
from shiyan.jsonl import describe, read_objects
from shiyan.records import Generation, Poem, Reply

UNKNOWN = "unknown"


class FinishedReply(BaseModel):
    """One line of such a file. Only `text` must be there; what is unknown is null."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    text: str | None
    """The raw reply; null where the server gave none."""
    seed_poem_id: str | None = None
    prompt_id: str | None = None
    generator: str | None = None
    title: str | None = None
    """The title that was asked for; by default the seed poem's."""
    cipai: str | None = None
    theme: str | None = None
    temperature: float | None = Field(default=None, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    seed: int | None = None
    finish_reason: str | None = None
    reasoning: str | None = None
    prompt_tokens: int | None = Field(default=None, ge=0)
    completion_tokens: int | None = Field(default=None, ge=0)


def read_finished(
    path: Path, human: Sequence[Poem], prompts: PromptTexts, forms: CiForms
) -> list[Written]:
    """The poems of a JSONL file of finished replies.

    They are an LLM's whatever is unknown about them. Two replies to one request are
    samples 0 and 1, in the order of the file.

    Raises:
        UserError: the file is missing or empty, or a line is no such reply, by file:line.
    """
    known = {poem.poem_id: poem for poem in human}
    joins = joins_stanzas(human)
    seen: Counter[tuple[str, ...]] = Counter()
    ignored: Counter[str] = Counter()
    strangers: Counter[str] = Counter()
    written: list[Written] = []
    for number, value in read_objects(path):
        ignored.update(value.keys() - FinishedReply.model_fields.keys())
        reply = _validated(path, number, value)
        if reply.seed_poem_id is not None and reply.seed_poem_id not in known:
            strangers[reply.seed_poem_id] += 1
        asked = _asked(reply, known.get(reply.seed_poem_id or ""), prompts, forms, joins)
        key = (
            reply.generator or UNKNOWN,
            reply.prompt_id or UNKNOWN,
            reply.seed_poem_id or "-".join(filter(None, (reply.cipai, reply.theme))) or UNKNOWN,
        )
        written.append(_written(reply, asked, key, seen[key]))
        seen[key] += 1
    if not written:
        raise UserError(f"{path} holds no reply; generate.replies wants one JSON object a line")
    _tell(path, ignored, strangers)
    return written


def _validated(path: Path, number: int, value: Mapping[str, Any]) -> FinishedReply:
    try:
        return FinishedReply.model_validate(value)
    except ValidationError as error:
        raise UserError(f"{path}:{number} is not a finished reply: {describe(error)}") from error


def _asked(
    reply: FinishedReply,
    seed_poem: Poem | None,
    prompts: PromptTexts,
    forms: CiForms,
    joins: bool,
) -> Asked:
    """What the reply answers, from its own fields and the seed poem."""
    prompt_id = reply.prompt_id or ""
    cipai = reply.cipai or (seed_poem.cipai if seed_poem else None)
    is_ci = cipai is not None or (prompt_id in prompts.ci and prompt_id != OUTPUT)
    if is_ci:
        topic = forms.topic(seed_poem.title) if seed_poem else ""
        title = reply.theme or reply.title or topic or None
    else:
        title = None if prompt_id in OWN_TITLE else _asked_title(reply, seed_poem)
    genre = "ci" if is_ci else "modern"
    return Asked(genre, title, "", seed_poem, cipai, joins and is_ci)


def _asked_title(reply: FinishedReply, seed_poem: Poem | None) -> str | None:
    return reply.title or (seed_poem.title if seed_poem else None) or None


def _written(
    finished: FinishedReply, asked: Asked, key: tuple[str, str, str], sample: int
) -> Written:
    generator, prompt_id, _ = key
    poem_id = "|".join((*key, str(sample)))
    text = finished.text or ""
    cleaned = clean(text, asked, finished.finish_reason)
    reply = Reply(
        reply_id=poem_id,
        kind="poem",
        generator=generator,
        prompt_id=prompt_id,
        seed_poem_id=finished.seed_poem_id,
        cipai=asked.cipai,
        text=text,
        reasoning="\n".join(filter(None, (finished.reasoning, cleaned.thinking))) or None,
        finish_reason=finish_of(finished.finish_reason),
        prompt_tokens=finished.prompt_tokens,
        completion_tokens=finished.completion_tokens,
        outcome="missing" if cleaned.missing else "kept",
        missing_reason=cleaned.missing,
        flags=cleaned.flags,
        removed=cleaned.removed,
    )
    used = (finished.prompt_tokens or 0, finished.completion_tokens or 0)
    if cleaned.missing:
        return Written(None, reply, *used)
    generation = Generation(
        generator=generator,
        prompt_id=prompt_id,
        seed_poem_id=finished.seed_poem_id,
        sample_index=sample,
        theme=finished.theme,
        temperature=finished.temperature,
        top_p=finished.top_p,
        seed=finished.seed,
        reply_sha256=sha256(text),
        finish_reason=finish_of(finished.finish_reason),
        flags=cleaned.flags,
    )
    return Written(poem_of(poem_id, asked, cleaned, generation), reply, *used)


def _tell(path: Path, ignored: Counter[str], strangers: Counter[str]) -> None:
    """One notice for fields nobody reads, one for seed poems nobody collected."""
    if ignored:
        sys.stderr.write(f"notice: {path}: ignored the fields {', '.join(sorted(ignored))}\n")
    if strangers:
        few = ", ".join(sorted(strangers)[:3]) + (" …" if len(strangers) > 3 else "")
        sys.stderr.write(
            f"notice: {path}: {sum(strangers.values())} replies name {len(strangers)} seed poems "
            f"that are not among the collected ones ({few}); they are kept, each in a group of "
            "its own\n"
        )
