"""The client against a server that streams as they all do."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.eval.peers.completions import PeerError, Server

EVENTS = [
    {"choices": [{"text": "def"}]},
    {"choices": [{"text": " add"}]},
    {"choices": [{"text": "", "finish_reason": "stop"}]},
    {"choices": [], "usage": {"completion_tokens": 5}},
]


class _Handler(BaseHTTPRequestHandler):
    asked: list[dict[str, object]] = []  # noqa: RUF012 - the standard library makes one handler a request

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append({"path": self.path, **json.loads(body)})
        prompt = json.loads(body)["prompt"]
        self.send_response(404 if prompt == "refuse" else 200)
        self.end_headers()
        if prompt == "nonsense":
            self.wfile.write(b"data: [1\n\n")
            return
        for event in EVENTS if prompt != "nothing" else []:
            self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def server() -> Iterator[Server]:
    http = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    yield Server(f"http://127.0.0.1:{http.server_port}/", "coder")
    http.shutdown()
    thread.join()
    http.server_close()


def test_the_answer_is_put_together_and_timed(server: Server) -> None:
    moments = iter([10.0, 12.0, 14.0])
    completion = server.complete("write", 20, lambda: next(moments))
    assert (completion.text, completion.tokens) == ("def add", 5)
    assert (completion.first_token_s, completion.decode_s, completion.tokens_per_s) == (2.0, 2.0, 2.0)
    asked = _Handler.asked[-1]
    assert asked["path"] == "/v1/completions"
    assert (asked["prompt"], asked["max_tokens"], asked["temperature"], asked["model"]) == ("write", 20, 0, "coder")


@pytest.mark.parametrize("prompt", ["refuse", "nonsense", "nothing"])
def test_a_server_that_cannot_be_used_is_named(server: Server, prompt: str) -> None:
    with pytest.raises(PeerError, match=r"http://127\.0\.0\.1"):
        server.complete(prompt, 4)


def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(PeerError, match=r"127\.0\.0\.1:9"):
        Server("http://127.0.0.1:9").complete("write", 4)
