"""Judges behind a server that fails, over real HTTP: no finished judgment is lost or asked for
twice, and each failure has its name."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from fakes import USED, Answer, completion, fails, says, serving

from shiyan import chat as chat_module
from shiyan.chat import Budget
from shiyan.config import JudgeParams, PromptTexts, load_params
from shiyan.errors import UserError
from shiyan.judging.judge import judge
from shiyan.judging.rubric import POLLER
from shiyan.judging.tasks import plan_readings
from shiyan.records import Judgment, Poem, Understanding
from shiyan.work import WorkCache

pytestmark = pytest.mark.server

ROOT = Path(__file__).parents[1]
PARAMS = load_params("judge", JudgeParams, ROOT / "params.yaml")
TEXTS = load_params("prompts", PromptTexts, ROOT / "params.yaml").poller
SETTINGS = {"models": ("llm",), "prompts": ("P0",), "prompt_set": "poller", "structured": False}
WHOLE = "\n".join(f"{name}：80分" for name in POLLER.names)
N = 6


def work(n: int = N, **changes):
    """(tasks, params) of one judge under P0."""
    settings = PARAMS.model_copy(update=SETTINGS | changes)
    poems = [
        Poem(poem_id=f"p{i}", title="", text=f"第{i}盏灯", genre="modern", author="甲")
        for i in range(n)
    ]
    readings = [
        Understanding(item_id=f"u{i}", poem_id=f"p{i}", reader="r", text=f"说灯{i}")
        for i in range(n)
    ]
    return plan_readings(settings, TEXTS, poems, [], readings), settings


def judged(server, folder: Path, n: int = N, budget: Budget | None = None, **changes):
    tasks, settings = work(n)
    models = {"llm": server.params(**changes)}
    return judge(tasks, settings, models, WorkCache(folder), budget or Budget(None))


@pytest.fixture
def waits(monkeypatch) -> list[float]:
    """The waits that were asked for; none is waited."""
    waited: list[float] = []

    async def note(seconds: float) -> None:
        waited.append(seconds)
        # As if the time had passed: a gate that others wait at is open again.
        ahead = chat_module.time.monotonic() + seconds
        monkeypatch.setattr(chat_module, "time", Clock(chat_module.time, ahead))

    monkeypatch.setattr(chat_module, "_sleep", note)
    return waited


class Clock:
    """The time module with a monotonic clock that is not before a moment."""

    def __init__(self, clock, least: float) -> None:
        self.clock, self.least = clock, least

    def monotonic(self) -> float:
        return max(self.clock.monotonic(), self.least)


def events(*deltas: dict, done: bool = True) -> Answer:
    """A stream that nobody asked for."""
    lines = [
        b"data: " + json.dumps({"choices": [delta]}, ensure_ascii=False).encode()
        for delta in deltas
    ]
    body = b"\n\n".join([*lines, *([b"data: [DONE]"] if done else [])])
    return Answer(body=body + b"\n\n", headers={"Content-Type": "text/event-stream"})


CUT_STREAM = events(
    {"delta": {"content": "内容：80分\n语言：8"}, "finish_reason": None}, done=False
)
PASSING = {
    "429 with Retry-After": (fails(429, "slow down", Retry_After="3"), "slow down"),
    "500": (fails(500, "oops"), "HTTP 500: oops"),
    "malformed JSON": (Answer(body=b'{"choices": [{"mess'), "not a chat completion"),
    "no choices": (Answer(body={"id": "x", "choices": []}), "without choices"),
    "a stream cut off": (CUT_STREAM, "the stream ended without a finish_reason"),
    "a body cut off": (Answer(body=completion(WHOLE, usage=USED), cut_at=90), "broke before"),
}


@pytest.mark.parametrize("failure", PASSING)
def test_what_may_pass_is_tried_again_and_costs_no_judgment(tmp_path, waits, failure):
    answer, _ = PASSING[failure]
    with serving([says(WHOLE), answer, answer, says(WHOLE)]) as server:
        judgments = judged(server, tmp_path)
        assert len(server.requests) == N + 2
        assert judged(server, tmp_path) == judgments
        assert len(server.requests) == N + 2, "nothing is asked twice"
    assert all(j.scores == dict.fromkeys(POLLER.names, 80) for j in judgments)
    assert len(waits) == 2
    if failure.startswith("429"):
        assert waits == [3.0, 3.0], "as the server asked"


@pytest.mark.parametrize("failure", PASSING)
def test_what_does_not_pass_is_named_and_the_others_are_judged(tmp_path, waits, failure):
    answer, words = PASSING[failure]

    def script(body: dict) -> Answer:
        return answer if "说灯2" in body["messages"][0]["content"] else says(WHOLE)

    with serving(script) as server:
        judgments = judged(server, tmp_path)
        asked = len(server.requests)
        again = judged(server, tmp_path)
        tried = [r for r in server.requests[asked:] if "说灯2" in r["messages"][0]["content"]]
        assert len(server.requests) - asked == len(tried), "only what failed is asked anew"
    assert again == judgments
    failed = [j for j in judgments if j.scores is None]
    assert [j.item_id for j in failed] == ["u2"]
    assert words in failed[0].unscored_reason
    assert failed[0].unscored_reason.split(": ")[0] in ("unavailable", "broken")


@pytest.mark.parametrize(
    ("reasoning", "said"),
    [("", "the answer is empty (after 2"), (WHOLE, "the answer is empty, reasoning only (after 2")],
)
def test_an_empty_answer_is_paid_for_twice_at_most(tmp_path, waits, reasoning, said):
    with serving([says("", reasoning_content=reasoning)]) as server:
        (judgment,) = judged(server, tmp_path, 1)
        assert judged(server, tmp_path, 1) == [judgment]
        assert len(server.requests) == 2
    assert judgment.scores is None
    assert judgment.unscored_reason == f"no_answer: {said} tries)"
    assert judgment.reasoning == (reasoning or None)
    assert judgment.completion_tokens == 3 + 3


def test_a_reply_cut_at_the_limit_keeps_what_stood_whole(tmp_path):
    cut = "\n".join(f"{name}：80分" for name in POLLER.names[:5]) + "\n陌生化：8"
    with serving([says(cut, "length")]) as server:
        (judgment,) = judged(server, tmp_path, 1)
        assert len(server.requests) == 2, "asked once more, saying what is missing"
        assert "陌生化、思想情感、现代性" in server.requests[1]["messages"][2]["content"]
    assert list(judgment.scores.values()) == [80] * 5 + [None] * 3
    assert judgment.finish_reason == "length"
    assert "the reply was cut off" in judgment.unscored_reason


def test_a_server_that_goes_away_loses_nothing(tmp_path):
    revoked = threading.Event()

    def script(body: dict) -> Answer:
        if len(server.requests) == 3 and not revoked.is_set():
            revoked.set()
            return fails(401, "key revoked")
        return says(WHOLE)

    with serving(script) as server:
        with pytest.raises(UserError, match=r"refused the key .*finished replies are kept"):
            judged(server, tmp_path)
        assert len(server.requests) == 3
        judgments = judged(server, tmp_path)
        assert len(server.requests) == 3 + N - 2, "the two that were finished are not asked for"
    assert all(j.scores for j in judgments)


def test_a_budget_stops_and_goes_on_where_it_stopped(tmp_path):
    prices = {"price_per_million_prompt": 1e6, "price_per_million_completion": 1e6}
    tasks, settings = work()
    most = max(len(task.text.encode()) for task in tasks) + 16 + settings.max_tokens
    with serving([says(WHOLE)]) as server:
        with pytest.raises(UserError, match=r"judge\.budget of \d+ USD is used up"):
            judged(server, tmp_path, budget=Budget(most + 20.0, "judge.budget"), **prices)
        stopped = len(server.requests)
        assert 1 <= stopped < N
        spent = Budget(1e9, "judge.budget")
        judgments = judged(server, tmp_path, budget=spent, **prices)
        assert len(server.requests) == N
        assert spent.spent == 8.0 * N, "what was paid for before counts"
    assert all(j.scores for j in judgments)


CHILD = """
import sys
sys.path[:0] = {path!r}
from pathlib import Path
from test_judging_server import SETTINGS, work
from fakes import ScriptedServer
from shiyan.chat import Budget
from shiyan.config import ApiModelParams
from shiyan.judging.judge import judge
from shiyan.work import WorkCache
tasks, settings = work()
params = ApiModelParams.model_validate_json({params!r})
judge(tasks, settings, {{"llm": params}}, WorkCache(Path({folder!r})), Budget(None))
"""


def test_killed_at_any_request_it_goes_on_without_asking_twice(tmp_path):
    """SIGKILL while the fourth request is under way; three replies are on disk by then."""
    reached, goes_on = threading.Event(), threading.Event()
    counts: dict[str, int] = {}

    def script(body: dict) -> Answer:
        item = body["messages"][0]["content"].split("说灯")[1][0]
        counts[item] = counts.get(item, 0) + 1
        if len(counts) == 4 and not goes_on.is_set():
            reached.set()
            goes_on.wait(60)
        return says(WHOLE)

    with serving(script) as server:
        code = CHILD.format(
            path=[str(ROOT / "tests"), str(ROOT / "src")],
            params=server.params().model_dump_json(),
            folder=str(tmp_path),
        )
        child = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
        assert reached.wait(120)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        goes_on.set()
        kept = [p for p in (tmp_path / "chat").rglob("*") if p.is_file()]
        assert len(kept) == 3, "each reply is kept in the moment it comes"
        judgments = judged(server, tmp_path)
    assert sorted(counts.values()) == [1, 1, 1, 1, 1, 2], "only what was under way is asked anew"
    assert isinstance(judgments[0], Judgment)
    assert all(j.scores for j in judgments)
