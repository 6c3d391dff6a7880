"""What a common prefix saves a judge: `python bench/judge_prefix.py [MODEL] [REPLY_TOKENS]`.

Ten judgments under P3, two poets with five readings each, on a local server: with nothing
reused, in the planned order, and with the poets taking turns. Prints seconds, tokens of the
prompts and how many of them had to be read, and the ratio to the first way.
"""

import json
import sys
import time
import urllib.request
from collections.abc import Sequence
from contextlib import closing

from shiyan import models
from shiyan.collection import personas
from shiyan.config import JudgeParams, LocalModelParams, PromptTexts, load_models, load_params
from shiyan.judging.tasks import Task, plan_readings
from shiyan.llama import LlamaServer
from shiyan.records import Poem, Understanding

MODEL, REPLY_TOKENS = "qwen2.5-coder-1.5b", 32
SLOTS = 1
READINGS = (
    "内容：写一盏灯等人。语言：平实。意象：灯与雨，说的是等。修辞手法：拟人。节奏：短句。",
    "内容：写渡口的早晨。语言：口语。意象：船与雾。修辞手法：反复。节奏：前快后慢。",
    "内容：写搬家。语言：冷静。意象：钉子、墙。修辞手法：借代。节奏：散文一样。",
    "内容：写父亲的手。语言：朴素。意象：茧与犁。修辞手法：比喻。节奏：四句一节。",
    "内容：写下班的路。语言：短促。意象：红绿灯。修辞手法：排比。节奏：断续。",
)


def judgments() -> list[Task]:
    """Ten tasks in the planned order: a poet's five follow each other."""
    known, _ = personas.collect(None)
    poets = known[-2:]
    poems = [
        Poem(
            poem_id=f"{poet.poet_id}{n}",
            title="",
            text=f"第{n}盏灯\n照着第{n}场雨",
            genre="ci",
            author=poet.poet_id,
        )
        for poet in poets
        for n in range(len(READINGS))
    ]
    readings = [
        Understanding(
            item_id=f"u{i}", poem_id=poem.poem_id, reader="r", text=READINGS[i % len(READINGS)]
        )
        for i, poem in enumerate(poems)
    ]
    params = load_params("judge", JudgeParams).model_copy(
        update={"models": (MODEL,), "prompts": ("P3",), "prompt_set": "poller_ci", "repeats": 1}
    )
    texts = load_params("prompts", PromptTexts).poller_ci
    return plan_readings(params, texts, poems, poets, readings)


def asked(server: LlamaServer, task: Task, reuse: bool, reply_tokens: int) -> tuple[int, int]:
    """(tokens of the prompt, tokens that were read anew) of one request."""
    body = {
        "messages": [{"role": "user", "content": task.text}],
        "temperature": 0.0,
        "max_tokens": reply_tokens,
        "cache_prompt": reuse,
    }
    request = urllib.request.Request(
        f"{server.base_url}/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json", "authorization": f"Bearer {server.key}"},
    )
    with urllib.request.urlopen(request) as answer:
        told = json.loads(answer.read())
    return told["usage"]["prompt_tokens"], told["timings"]["prompt_n"]


def main(name: str, reply_tokens: int) -> None:
    model = load_models([name])[name]
    assert isinstance(model, LocalModelParams)
    tasks = judgments()
    half = len(tasks) // 2
    in_turn = [task for pair in zip(tasks[:half], tasks[half:], strict=True) for task in pair]
    ways: dict[str, tuple[Sequence[Task], bool]] = {
        "nothing reused": (tasks, False),
        "planned order": (tasks, True),
        "poets in turn": (in_turn, True),
    }
    first = None
    for way, (order, reuse) in ways.items():
        # A server of its own, so that no way finds what another has left.
        path = models.model_file(name, model)
        with closing(LlamaServer(name, path, SLOTS, model.context)) as server:
            started = time.perf_counter()
            counts = [asked(server, task, reuse, reply_tokens) for task in order]
            seconds = time.perf_counter() - started
        first = first or seconds
        tokens, read = (sum(column) for column in zip(*counts, strict=True))
        print(
            f"{way}: {seconds:.1f} s, {tokens:,} tokens of prompts, {read:,} read, "
            f"{first / seconds:.2f} times as fast"
        )


if __name__ == "__main__":
    given = dict(enumerate(sys.argv[1:]))
    main(given.get(0, MODEL), int(given.get(1, REPLY_TOKENS)))
