"""llama.cpp's server for a local model: the real one, with the 0.5B."""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from shiyan import models
from shiyan.chat import Chat, ChatReply, ChatRequest, Message
from shiyan.config import LocalModelParams, load_models
from shiyan.errors import UserError
from shiyan.llama import LlamaServer
from shiyan.work import WorkCache

ROOT = Path(__file__).parents[1]
NAME = "qwen2.5-coder-0.5b"


def request(text: str, max_tokens: int = 8, temperature: float = 0.7) -> ChatRequest:
    return ChatRequest((Message("user", text),), temperature, 0.95, max_tokens, seed=1)


@pytest.fixture(scope="module")
def params() -> LocalModelParams:
    found = load_models([NAME], ROOT / "params.yaml")[NAME]
    assert isinstance(found, LocalModelParams)
    return found


@pytest.fixture(scope="module")
def model(params) -> Path:
    return models.model_file(NAME, params)


def test_what_is_no_model_is_told_in_one_sentence(tmp_path):
    path = tmp_path / "bad.gguf"
    path.write_bytes(b"<html>not found</html>")
    with pytest.raises(UserError, match=r"llama\.cpp could not serve bad: .*magic"):
        LlamaServer("bad", path, slots=1, context=256)


@pytest.mark.model
def test_a_local_model_is_served_on_loopback_with_neutral_sampling(model):
    import urllib.request

    with closing(LlamaServer(NAME, model, slots=2, context=512)) as server:
        assert server.base_url.startswith("http://127.0.0.1:")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        opener.addheaders = [("Authorization", f"Bearer {server.key}")]
        props = json.loads(opener.open(server.base_url.replace("/v1", "/props")).read())
        assert props["total_slots"] == 2
        assert props["default_generation_settings"]["n_ctx"] == 512
        body = json.dumps(
            {"prompt": "春", "n_predict": 1, "temperature": 1.5, "top_p": 0.95} | _neutral()
        ).encode()
        asked = urllib.request.Request(
            server.base_url.replace("/v1", "/completion"),
            body,
            {"Content-Type": "application/json"},
        )
        used = json.loads(opener.open(asked).read())["generation_settings"]
    assert used["samplers"] == ["temperature", "top_p"]
    assert (used["top_k"], used["min_p"], used["repeat_penalty"]) == (0, 0.0, 1.0)
    assert used["temperature"] == 1.5
    assert server.ended() is not None


@pytest.mark.model
def test_who_has_no_key_is_refused_and_no_other_origin_is_allowed(model):
    import urllib.error
    import urllib.request

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with closing(LlamaServer(NAME, model, slots=1, context=256)) as server:
        asked = urllib.request.Request(
            f"{server.base_url}/chat/completions",
            b'{"messages": [{"role": "user", "content": "a"}], "max_tokens": 1}',
            {"Content-Type": "application/json", "Origin": "http://evil.example"},
        )
        with pytest.raises(urllib.error.HTTPError) as refused:
            opener.open(asked)
        assert refused.value.code == 401
        assert "evil" not in str(refused.value.headers)
        asked.add_header("Authorization", f"Bearer {server.key}")
        assert opener.open(asked).status == 200
        command = Path(f"/proc/{server.pid}/cmdline")
        assert not command.exists() or server.key.encode() not in command.read_bytes()


def _neutral() -> dict:
    from shiyan.chat import NEUTRAL_SAMPLING

    return NEUTRAL_SAMPLING


@pytest.mark.model
def test_a_port_in_use_is_told_in_one_sentence(model):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"could not serve {NAME}: .*{port}"):
            LlamaServer(NAME, model, slots=1, context=256, port=port)


@pytest.mark.model
def test_a_schema_holds_a_reply_to_its_shape(params, tmp_path):
    """By grammar: also a small model cannot leave the keys or the scale."""
    import dataclasses

    from shiyan.judging.rubric import POLLER
    from shiyan.judging.shape import REASON, SCORE, shape

    asked = request("给这句理解打分：“写一盏灯等人”。", max_tokens=160)
    asked = dataclasses.replace(asked, schema=shape(POLLER.only("内容"), declares_role=False))
    with Chat(NAME, params, cache=WorkCache(tmp_path), at_once=1) as chat:
        reply = chat.ask(asked)
    assert isinstance(reply, ChatReply)
    assert reply.finish_reason == "stop"
    told = json.loads(reply.text)
    assert list(told) == ["内容"]
    assert list(told["内容"]) == [SCORE, REASON]
    assert 0 <= told["内容"][SCORE] <= 100


@pytest.mark.model
def test_a_killed_server_is_told_and_finished_replies_are_kept(params, tmp_path):
    with Chat(NAME, params, cache=WorkCache(tmp_path), at_once=1) as chat:
        assert isinstance(chat.ask(request("你好")), ChatReply)
        assert chat._server is not None
        os.kill(chat._server.pid, signal.SIGKILL)
        with pytest.raises(UserError, match=r"has ended by itself \(killed by signal 9\)"):
            chat.ask(request("再见"))
        assert chat.kept(request("你好")) is not None


@pytest.mark.model
def test_a_prompt_above_the_context_is_a_failure_and_not_cut(params, tmp_path):
    small = params.model_copy(update={"context": 256})
    with Chat(NAME, small, cache=WorkCache(tmp_path), at_once=1) as chat:
        outcome = chat.ask(request("雨" * 600))
    assert not isinstance(outcome, ChatReply)
    assert outcome.kind == "too_long"
    assert "context of 256" in outcome.reason


ORPHAN = """
import os, sys
from pathlib import Path
from shiyan.llama import LlamaServer
server = LlamaServer("m", Path(sys.argv[1]), slots=1, context=256)
print(server.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.model
def test_no_server_outlives_a_parent_that_is_killed(model):
    parent = subprocess.Popen(
        [sys.executable, "-c", ORPHAN, str(model)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    assert parent.stdout is not None
    server = int(parent.stdout.readline())
    watched = os.pidfd_open(server)
    parent.kill()
    parent.wait()
    import select

    ended, _, _ = select.select([watched], [], [], 30)
    os.close(watched)
    assert ended, "the server left when its parent did"
