"""The API key that a server echoes stands in no file and no message."""

import itertools
import json
import urllib.parse
from pathlib import Path

import pytest
from fakes import USED, Answer, completion, fails, says, serving
from omegaconf import OmegaConf
from sections import name_models

from shiyan import chat as chat_module
from shiyan.answers import Again, ChatFailure, ChatReply, StopAskingError, read_answer
from shiyan.hiding import Hiding
from shiyan.jsonl import write_records
from shiyan.records import HumanRating, Persona, Poem, Reply, Understanding
from shiyan.stage import exit_code_of, with_note
from stages import generate, judge

ROOT = Path(__file__).resolve().parents[1]
KEY = 'sk/live+4f"Zq-92\\x7'
"""With characters that JSON escapes and URLs quote."""
ESCAPED = "".join(f"\\u{ord(character):04X}" for character in KEY)
SPELLINGS = {
    "as it is": KEY,
    "json": json.dumps(KEY)[1:-1],
    "json in json": json.dumps(json.dumps(KEY)),
    "slashes escaped": json.dumps(KEY)[1:-1].replace("/", "\\/"),
    "code points": ESCAPED,
    "quoted": urllib.parse.quote(KEY, safe=""),
    "quoted in lower case": urllib.parse.quote(KEY, safe="").replace("%2F", "%2f"),
    "quoted twice": urllib.parse.quote(urllib.parse.quote(KEY, safe="")),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_is_hidden(spelling):
    told = Hiding(KEY).text(f"Bearer {SPELLINGS[spelling]}, 床前明月光")
    assert told.replace('"', "").replace("\\", "") == "Bearer …, 床前明月光"


@pytest.mark.parametrize(
    ("key", "text", "told"),
    [
        ("", "床前明月光", "床前明月光"),
        ("x", "x y x", "x y x"),
        ("EMPTY", "EMPTY is not EMPTYNESS", "… is not EMPTYNESS"),
    ],
)
def test_a_short_key_leaves_words_alone(key, text, told):
    assert Hiding(key).text(text) == told


def read(status: int, body: object) -> ChatReply | ChatFailure | Again:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_answer(status, content, {"content-type": f"text/{KEY}"}, Hiding(KEY))


@pytest.mark.parametrize("before", range(240, 301, 6))
def test_a_key_across_the_cut_leaves_no_beginning(before):
    found = read(400, {"error": {"message": "x" * before + KEY, "code": KEY}})
    assert isinstance(found, ChatFailure)
    assert "sk/" not in found.reason


def test_a_page_and_its_type_are_hidden():
    assert KEY[:6] not in read(500, f"no. {'x' * 180}{KEY}".encode()).reason
    assert KEY not in read(200, b"<html>").reason


def test_a_reason_to_stop_is_hidden():
    with pytest.raises(StopAskingError) as stop:
        read(401, {"error": {"message": "x" * 290 + KEY}})
    assert "sk/" not in str(stop.value)


def test_a_key_in_pieces_is_hidden():
    parts = [{"type": "text", "text": KEY[:5]}, {"type": "text", "text": KEY[5:] + "花"}]
    found = read(200, completion(parts, usage=USED))
    assert found.text == "…花"
    events = [
        {"choices": [{"delta": {"content": KEY[:9]}}]},
        {"choices": [{"delta": {"content": KEY[9:]}, "finish_reason": "stop"}]},
    ]
    body = b"\n".join(b"data: " + json.dumps(event).encode() for event in events)
    assert read(200, body).text == "…"


@pytest.mark.parametrize("content", [KEY, "花"])
def test_the_tokens_of_a_key_are_not_kept(content):
    body = completion(content, usage=USED)
    places = [{"top_logprobs": [{"token": piece, "logprob": -1.0}]} for piece in (KEY[:6], KEY[6:])]
    body["choices"][0]["logprobs"] = {"content": places}
    assert read(200, body).log_probs is None


# --- a whole project ------------------------------------------------------------------


def echoes() -> list[Answer]:
    """The key at every place of an answer that something is kept of."""
    headers = {"headers": f"Authorization: Bearer {KEY}"}
    whole = completion(f"春日\n{KEY}\n花开满树。", usage=USED, reasoning_content=f"用{KEY}")
    whole["model"] = f"m-{KEY}"
    whole["choices"][0]["finish_reason"] = "stop"
    place = {"token": KEY, "logprob": -0.1, "top_logprobs": [{"token": KEY, "logprob": -0.1}]}
    whole["choices"][0]["logprobs"] = {"content": [place]}
    quoted = urllib.parse.quote(KEY, safe="")
    return [
        Answer(body=whole),
        Answer(body=json.dumps(completion(f"花{KEY}月")).replace(json.dumps(KEY)[1:-1], ESCAPED)
               .encode()),
        fails(400, f"Invalid request. {headers}"),
        fails(400, f"{'x' * 250}?key={quoted}&x={KEY}"),
        fails(400, f"blocked: {headers}", "data_inspection_failed"),
        fails(400, json.dumps(headers), f"content_filter {KEY}"),
        says(f"写到{KEY}", "content_filter", reasoning_content=KEY),
        says(None, refusal=f"我不能说{KEY}。"),
        says("", "length", reasoning_content=KEY),
        Answer(500, f"Traceback: headers={headers}".encode()),
        Answer(500, {"error": {"message": KEY, KEY: KEY}}),
        Answer(body={"error": KEY}),
    ]  # fmt: skip


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """Two ci and a persona; a scripted model writes, reads and judges."""
    monkeypatch.delenv("DVC_ROOT", raising=False)
    monkeypatch.setenv("SCRIPTED_KEY", KEY)
    monkeypatch.chdir(tmp_path)

    async def note(seconds: float) -> None:
        chat_module.time = Ahead(chat_module.time, seconds)

    monkeypatch.setattr(chat_module, "time", chat_module.time)
    monkeypatch.setattr(chat_module, "_sleep", note)
    params = OmegaConf.load(ROOT / "params.yaml")
    params.generate.models = params.generate.understanding.readers = params.judge.models = ["llm"]
    params.generate.titles_per_cipai = 12
    params.generate.understanding.poems = 2
    params.judge.repeats = 6
    params.track.experiment = "t"
    OmegaConf.save(params, "params.yaml")
    human = [
        Poem(poem_id=f"c{n}", title=cipai, text=f"小楼听雨到{n}更。\n灯火不曾明。", genre="ci",
             author=f"某{n}", cipai=cipai)
        for n, cipai in enumerate(("如梦令", "浣溪沙"))
    ]  # fmt: skip
    persona = Persona(poet_id="某1", basic_information="", views_on_poetry="", critics_comments="")
    for path, records in (
        (params.paths.poems, human),
        (params.paths.personas, [persona]),
        (params.paths.ratings, list[HumanRating]()),
        (params.paths.collected_understandings, list[Understanding]()),
    ):
        write_records(Path(path), records)
    return tmp_path


class Ahead:
    """The time module with its clocks set forward."""

    def __init__(self, clock, ahead: float) -> None:
        self.clock, self.ahead = clock, ahead

    def monotonic(self) -> float:
        return self.clock.monotonic() + self.ahead


def with_model(project: Path, server) -> None:
    params = OmegaConf.load(project / "params.yaml")
    name_models(params, {"llm": server.params(key_variable="SCRIPTED_KEY")}, "generate", "judge")
    OmegaConf.save(params, project / "params.yaml")


def hits(folder: Path) -> list[str]:
    """Every file with a spelling of the key, or with its beginning, in it."""
    spelt = [*SPELLINGS.values(), KEY[:6], json.dumps(KEY)[1:7], "sk%2Flive", "sk%252Flive"]
    return [
        f"{path.relative_to(folder)}: {spelling}"
        for path in folder.rglob("*")
        if path.is_file()
        for spelling in spelt
        if spelling in path.read_text(encoding="utf-8", errors="replace")
    ]


@pytest.mark.server
def test_no_file_of_a_project_and_no_message_holds_an_echoed_key(project, capfd):
    script = itertools.cycle(echoes())
    with serving(lambda _: next(script)) as server:
        with_model(project, server)
        run = with_note(generate.main, "generate")
        assert exit_code_of(run) in (0, 1)
        assert exit_code_of(with_note(judge.main, "judge")) in (0, 1)
    with serving([fails(401, f"Incorrect API key provided: {KEY}.")]) as server:
        with_model(project, server)
        assert exit_code_of(run) == 1
    told = capfd.readouterr()
    assert "refused the key" in told.err
    assert "sk/" not in told.err + told.out
    assert hits(project) == []
    replies = (project / "data/generated/replies.jsonl").read_text(encoding="utf-8")
    kinds = {Reply.model_validate_json(line).missing_reason for line in replies.splitlines()}
    assert {"filtered", "rejected", None} <= kinds
    assert {path.name for path in (project / ".work").iterdir()} >= {"chat", "chat_failed"}
    assert (project / "data/judgments.jsonl").exists()


@pytest.mark.server
def test_what_an_older_version_kept_is_hidden_when_it_is_read(tmp_path, monkeypatch):
    asked = chat_module.ChatRequest((chat_module.Message("user", "问"),), 0.0, 1.0, 9, None)
    cache = chat_module.WorkCache(tmp_path)
    with serving([says(f"答{KEY}")]) as server:
        with chat_module.Chat("llm", server.params(), cache=cache, at_once=1) as chat:
            assert KEY in chat.ask(asked).text, "no key of this model"
        monkeypatch.setenv("SCRIPTED_KEY", KEY)
        params = server.params(key_variable="SCRIPTED_KEY")
        kept = chat_module.Chat("llm", params, cache=cache, at_once=1).kept(asked)
    assert kept.text == "答…"
