"""A chat server behind real HTTP on loopback that answers from a script."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from shiyan.config import ApiModelParams


@dataclass(frozen=True)
class Answer:
    """One HTTP answer.

    Attributes:
        body: a JSON value, or bytes as they are.
        cut_at: send only so many bytes of the body and close.
        hangs: send nothing until the server is closed.
    """

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    cut_at: int | None = None
    hangs: bool = False


def completion(
    content: Any, finish_reason: str | None = "stop", usage: dict | None = None, **message: Any
) -> dict[str, Any]:
    """A chat completion as most servers send it; usage=None leaves the counts out."""
    body: dict[str, Any] = {
        "id": "c1",
        "object": "chat.completion",
        "model": "scripted",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content, **message},
                "finish_reason": finish_reason,
            }
        ],
    }
    return body | ({"usage": usage} if usage is not None else {})


USED = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}


def says(content: Any, finish_reason: str | None = "stop", **message: Any) -> Answer:
    return Answer(body=completion(content, finish_reason, USED, **message))


def fails(status: int, message: str = "", code: str = "", **headers: str) -> Answer:
    error = {"error": {"message": message, "code": code}}
    return Answer(status, error, {name.replace("_", "-"): v for name, v in headers.items()})


Script = Sequence[Answer] | Callable[[dict[str, Any]], Answer]
"""Answers in order, the last one for ever; or a function of the request's body."""


class ScriptedServer:
    """What was asked of it.

    Attributes:
        requests: the bodies, in order of arrival.
        headers: their headers.
    """

    def __init__(self, script: Script) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.closed = threading.Event()
        lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with lock:
                    number = len(server.requests)
                    server.requests.append(body)
                    server.headers.append({k.lower(): v for k, v in self.headers.items()})
                here = min(number, len(script) - 1) if not callable(script) else 0
                self.send(script(body) if callable(script) else script[here])

            def send(self, answer: Answer) -> None:
                if answer.hangs:
                    server.closed.wait()
                    self.close_connection = True
                    return
                raw = answer.body
                content = raw if isinstance(raw, bytes) else json.dumps(raw).encode()
                self.send_response(answer.status)
                headers = {"Content-Type": "application/json"} | answer.headers
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content[: answer.cut_at])
                if answer.cut_at is not None:
                    self.wfile.flush()
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_port}/v1"

    def params(self, **changes: Any) -> ApiModelParams:
        """The server as a model of conf/model/."""
        fields = {
            "kind": "api",
            "base_url": self.url,
            "model": "scripted",
            "key_variable": None,
            "family": "scripted",
            "requests_at_once": 1,
        }
        return ApiModelParams.model_validate(fields | changes)


@contextmanager
def serving(script: Script) -> Iterator[ScriptedServer]:
    server = ScriptedServer(script)
    thread = threading.Thread(target=server.http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closed.set()
        server.http.shutdown()
        server.http.server_close()
        thread.join()
