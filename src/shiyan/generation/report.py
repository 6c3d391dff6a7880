"""What generation did, in numbers: metrics/generate.json."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from shiyan import lost
from shiyan import poem as parser
from shiyan.config import LocalModelParams
from shiyan.generation.generate import Written
from shiyan.generation.run import Generated, Work
from shiyan.generation.understand import Reading
from shiyan.metrics import Kind, mean_estimate
from shiyan.records import Poem

STRUCTURED = ("P6", "P7", "P8")
"""Prompts that name a number of stanzas, of lines, or of both (AIGenPoetry, Table 7)."""

RESAMPLES = 1000


def metrics(work: Work, made: Generated) -> dict[str, Any]:
    """metrics/generate.json."""
    human = {poem.poem_id: poem for poem in work.human}
    return {
        "poems": by_prompt(made.written),
        "without_poems": without_poems(made.written, work.params.prompts),
        "structure": structure(made.written, human, work.params.seed),
        "understandings": readings(made.readings, len(made.constructed)),
        "requests": requests(work, made),
        "money": {"spent": work.budget.spent, "currency": work.budget.currency},
        "made": _signature(work),
    }


def requests(work: Work, made: Generated) -> dict[str, Any]:
    """What was asked live, and which failures are no answers."""
    replies = [item.reply for item in made.readings]
    if work.params.replies is None:
        replies += [item.reply for item in made.written]
    return lost.counted(len(replies), (reply.missing_reason for reply in replies))


def _signature(work: Work) -> dict[str, Any]:
    """How the poems were made."""
    params = work.params
    own = work.prompts.model_dump(include={"modern", "ci", "understanding"})
    texts = json.dumps(own, ensure_ascii=False, sort_keys=True)
    signature: dict[str, Any] = {
        f"model {name}": json.dumps(chat.identity, ensure_ascii=False)
        for name, chat in work.chats.items()
    }
    if any(isinstance(chat.params, LocalModelParams) for chat in work.chats.values()):
        signature["llama.cpp by xllamacpp"] = version("xllamacpp")
    return signature | {
        "replies": params.replies or "asked live",
        "temperature": params.sampling.temperature,
        "top_p": params.sampling.top_p,
        "max_tokens": params.sampling.max_tokens,
        "tokens_per_character": params.tokens_per_character or "no limit of their own",
        "seed": params.seed,
        "prompts_sha256": hashlib.sha256(texts.encode()).hexdigest(),
        "resamples": RESAMPLES,
    }


def by_prompt(written: Sequence[Written]) -> dict[str, dict[str, Any]]:
    """generator -> prompt -> what was asked, kept and missing, and each rule's count."""
    cells: dict[str, dict[str, list[Written]]] = {}
    for item in written:
        cell = cells.setdefault(item.reply.generator, {})
        cell.setdefault(item.reply.prompt_id, []).append(item)
    return {
        generator: {prompt: _counted(items) for prompt, items in prompts.items()}
        for generator, prompts in cells.items()
    }


def _counted(items: Sequence[Written]) -> dict[str, Any]:
    replies = [item.reply for item in items]
    return {
        "asked": len(replies),
        "kept": sum(reply.outcome == "kept" for reply in replies),
        "missing": _sorted(reply.missing_reason for reply in replies if reply.missing_reason),
        "rules": _sorted(rule for reply in replies for rule in reply.flags),
        "failed_requests": _sorted(kind for item in items for kind in item.failures),
        "attempts": sum(reply.attempts for reply in replies),
        "prompt_tokens": sum(item.prompt_tokens for item in items),
        "completion_tokens": sum(item.completion_tokens for item in items),
        "without_usage": sum(
            reply.completion_tokens is None and bool(reply.text) for reply in replies
        ),
    }


def _sorted(names: Any) -> dict[str, int]:
    """Counts, the largest first."""
    counts = Counter(names)
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))


def without_poems(
    written: Sequence[Written], prompts: Sequence[str]
) -> dict[str, dict[str, dict[str, int]]]:
    """generator -> prompt of which no poem came -> why its replies are missing, by count.

    A prompt to which a file of finished replies has no reply counts nothing. A generator
    all of whose replies are to other prompts was not asked these.
    """
    found: dict[str, dict[str, dict[str, int]]] = {}
    for generator, cells in by_prompt(written).items():
        for prompt in prompts if not cells.keys().isdisjoint(prompts) else ():
            cell = cells.get(prompt, {"kept": 0, "missing": {}})
            if not cell["kept"]:
                found.setdefault(generator, {})[prompt] = cell["missing"]
    return found


def told(silent: Mapping[str, Mapping[str, Mapping[str, int]]]) -> list[str]:
    """A sentence for each generator and prompt without a poem."""
    return [
        f"{generator}: no poem came of {prompt} ("
        + (", ".join(f"{count} {reason}" for reason, count in missing.items()) or "no reply")
        + "), so no table can tell of it"
        for generator, prompts in silent.items()
        for prompt, missing in prompts.items()
    ]


def readings(items: Sequence[Reading], constructed: int) -> dict[str, Any]:
    """reader -> what was asked, kept and missing; and how many references were constructed."""
    readers: dict[str, Any] = {}
    for reader in dict.fromkeys(item.reply.generator for item in items):
        replies = [item.reply for item in items if item.reply.generator == reader]
        readers[reader] = {
            "asked": len(replies),
            "kept": sum(reply.outcome == "kept" for reply in replies),
            "truncated": sum("truncated" in reply.flags for reply in replies),
            "missing": _sorted(reply.missing_reason for reply in replies if reply.missing_reason),
            "attempts": sum(reply.attempts for reply in replies),
        }
    return {"by_reader": readers, "constructed": constructed}


def structure(
    written: Sequence[Written], human: Mapping[str, Poem], seed: int
) -> dict[str, dict[str, Any]]:
    """How well asked stanza and line counts were kept (AIGenPoetry, section 6.1).

    Per generator and prompt: the share of poems with exactly the human poem's number,
    and the mean of (the LLM's number - the human's). Lines are non-empty body lines.
    A missing poem is unscored.
    """
    table: dict[str, dict[str, Any]] = {}
    for item in written:
        reply = item.reply
        if reply.prompt_id in STRUCTURED and reply.seed_poem_id in human:
            table.setdefault(reply.generator, {}).setdefault(reply.prompt_id, []).append(item)
    return {
        generator: {
            prompt: _kept_counts(table[generator][prompt], human, seed)
            for prompt in STRUCTURED
            if prompt in table[generator]
        }
        for generator in table
    }


def _kept_counts(
    items: Sequence[Written], human: Mapping[str, Poem], seed: int
) -> dict[str, dict[str, Any]]:
    groups = [item.reply.seed_poem_id or "" for item in items]
    prompt = items[0].reply.prompt_id
    differences: dict[str, list[float | None]] = {"stanzas": [], "lines": []}
    for item, group in zip(items, groups, strict=True):
        source = human[group]
        asked = parser.counts(source.title, source.text)
        got = parser.counts(item.poem.title, item.poem.text) if item.poem else None
        for unit, values in differences.items():
            values.append(getattr(got, unit) - getattr(asked, unit) if got else None)
    units = [
        unit
        for unit, prompts in (("stanzas", ("P6", "P8")), ("lines", ("P7", "P8")))
        if prompt in prompts
    ]
    cell: dict[str, dict[str, Any]] = {}
    for unit in units:
        values = differences[unit]
        exact = [None if value is None else float(value == 0) for value in values]
        for name, numbers in ((f"{unit}_kept", exact), (f"{unit}_difference", values)):
            kind: Kind = "share" if name.endswith("_kept") else "mean"
            estimate = mean_estimate(numbers, groups, resamples=RESAMPLES, seed=seed, kind=kind)
            cell[name] = estimate.as_dict()
    return cell
