"""A judge behind real HTTP that answers as a function says, and counts how often it was asked."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from shiyan.config import ApiModelParams

Answer = str | int | dict
"""The reply's text, an HTTP status, or a whole body."""


class ScriptedJudge:
    """What was asked, and where.

    Attributes:
        requests: the messages of every request, in order.
    """

    def __init__(self, answer: Callable[[list[dict]], Answer]) -> None:
        self.requests: list[list[dict]] = []
        judge = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                judge.requests.append(body["messages"])
                said = answer(body["messages"])
                status = said if isinstance(said, int) else 200
                content = json.dumps(completion(said), ensure_ascii=False).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def params(self) -> ApiModelParams:
        return ApiModelParams(
            kind="api",
            base_url=f"http://127.0.0.1:{self.server.server_port}/v1",
            model="scripted",
            key_variable=None,
            family="scripted",
            requests_at_once=1,
        )


def completion(said: Answer) -> dict:
    if isinstance(said, int):
        return {"error": {"message": "the prompt is too long", "code": said}}
    if isinstance(said, dict):
        return said
    return {
        "choices": [{"message": {"role": "assistant", "content": said}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10},
    }


@contextmanager
def scripted_judge(answer: Callable[[list[dict]], Answer]) -> Iterator[ScriptedJudge]:
    judge = ScriptedJudge(answer)
    serve = judge.server.serve_forever
    thread = threading.Thread(target=serve, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield judge
    finally:
        judge.server.shutdown()
        judge.server.server_close()
