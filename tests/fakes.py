"""A chat server behind real HTTP on loopback that answers from a script."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
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
        drips: send the body's beginning again and again until the server is closed.
    """

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    cut_at: int | None = None
    hangs: bool = False
    drips: bool = False


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


class QuietServer(ThreadingHTTPServer):
    """A client that has had enough closes the connection, which is no fault."""

    def handle_error(self, *_: object) -> None:
        pass


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
                if answer.drips:
                    self.drip()
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

            def drip(self) -> None:
                self.close_connection = True
                self.send_response(200)
                self.end_headers()
                with suppress(OSError):
                    while not server.closed.wait(0.02):
                        self.wfile.write(b" ")

            def log_message(self, *_: object) -> None:
                pass

        self._handler = Handler
        self._begin(0)

    def _begin(self, port: int) -> None:
        self.http = QuietServer(("127.0.0.1", port), self._handler)
        self.http.daemon_threads = True
        serve = self.http.serve_forever
        self._thread = threading.Thread(target=serve, args=(0.01,), daemon=True)
        self._thread.start()

    def go_away(self) -> None:
        """Refuse connections; those that are open are answered."""
        self.http.shutdown()
        self.http.server_close()
        self._thread.join()

    def come_back(self) -> None:
        """Listen again, at the same port."""
        self._begin(self.http.server_port)

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
    try:
        yield server
    finally:
        server.closed.set()
        server.go_away()
