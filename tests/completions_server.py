"""A completions API on loopback with scripted answers and faults, which records its requests."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Reply:
    """An answer. promised: the Content-Length, if it differs from the body; delay: seconds before the answer."""

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    promised: int | None = None
    delay: float = 0.0


def completion(text: str, **more: Any) -> Reply:
    """Return a valid answer that ended at the token limit."""
    choices = [{"text": text, "index": 0, "finish_reason": "length"}]
    return Reply(body=json.dumps({"object": "text_completion", "choices": choices, **more}).encode())


def _changed(**fields: Any) -> Callable[[Reply], Reply]:
    """Return a habit that changes the fields of an answer's only choice."""

    def change(reply: Reply) -> Reply:
        answer = json.loads(reply.body)
        answer["choices"][0] |= fields
        return Reply(body=json.dumps(answer).encode())

    return change


BLOCKING_HABITS: dict[str, Callable[[Reply], Reply]] = {
    "filter": _changed(text="", finish_reason="content_filter"),
    "filterpart": _changed(text=" cut after four words", finish_reason="RECITATION"),
    "filternull": _changed(text=None, finish_reason="SAFETY"),
    "filter400": lambda reply: Reply(400, b'{"error": {"code": "content_filter", "message": "filtered"}}'),
}
"""Change an answer as filters of providers do."""


@dataclass
class CompletionsServer:
    """The URL, and the path, headers and body of each request so far."""

    url: str
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)

    @property
    def prompts(self) -> list[str]:
        return [body["prompt"] for body in self.bodies]


@contextmanager
def completions_server(reply: Callable[[dict[str, Any], int], Reply], *, port: int = 0) -> Iterator[CompletionsServer]:
    """Serve `reply`, which gets a request's body and the number of requests before it."""
    lock = threading.Lock()
    stopped = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                number = len(asked.bodies)
                asked.paths.append(self.path)
                asked.headers.append(dict(self.headers))
                asked.bodies.append(body)
            made = reply(body, number)
            stopped.wait(made.delay)
            # The client may have timed out, or may have been killed.
            with suppress(ConnectionError):
                self.send_response(made.status)
                for name, value in made.headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(made.body) if made.promised is None else made.promised))
                self.end_headers()
                self.wfile.write(made.body)
            self.close_connection = made.promised is not None

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    asked = CompletionsServer(f"http://127.0.0.1:{server.server_address[1]}/v1")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield asked
    finally:
        stopped.set()
        server.shutdown()
        server.server_close()
        thread.join()
