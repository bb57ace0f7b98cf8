"""Endpoints that stall, flood, redirect, send garbage, or repeat the API key."""

import base64
import contextlib
import gzip
import json
import socket
import threading
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import chain, repeat
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from harness.audits.endpoint.client import Answer, Endpoint
from harness.audits.sequence.dataset import SequenceParams
from harness.core.errors import HarnessError
from tests.functional.machine import Machine
from tests.tools.completions_server import Reply, completion, completions_server

# Before the client had a deadline for the whole request, these tests would have waited for ever.
pytestmark = pytest.mark.timeout(120)

KEY = "sk-very/secret+key-0123"
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
Pieces = Callable[[], Iterable[bytes]]


@contextmanager
def hostile_server(pieces: Pieces, *, pause: float = 0.0, reads_http: bool = True) -> Iterator[str]:
    """Send `pieces` on each connection, `pause` seconds apart. Without a pause, close the connection after them."""
    stopped = threading.Event()

    def answer(connection: socket.socket) -> None:
        # The client may have timed out.
        with connection, contextlib.suppress(OSError):
            received = b"" if reads_http else b"}"
            while not received.endswith(b"}"):
                if not (more := connection.recv(1 << 16)):
                    return
                received += more
            for piece in pieces():
                connection.sendall(piece)
                if stopped.wait(pause):
                    return
            stopped.wait(None if pause else 0)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threads.append(threading.Thread(target=answer, args=(server.accept()[0],), daemon=True))
                threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threads = [threading.Thread(target=accept, daemon=True)]
        threads[0].start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        finally:
            stopped.set()
            server.shutdown(socket.SHUT_RDWR)
            for thread in list(threads):
                thread.join()


def ask(url: str, *, prompt: str = "Once upon", timeout: float = 60.0, key: str | None = None) -> Answer[Any]:
    """Return the answer of an endpoint to one request without retries."""
    settings: dict[str, Any] = {"requests_per_minute": 60_000, "retries": 0, "timeout": timeout}
    params = SequenceParams.checked(endpoint=url, endpoint_model="gpt", **settings)
    with closing(Endpoint(params, key=key, seed=0)) as endpoint:
        return endpoint.request({"prompt": prompt}, lambda answer: answer["choices"][0])


TIMED_OUT: Answer[Any] = Answer(None, "timed out")
SLOW: dict[str, Pieces] = {
    "nothing": list,
    "a status line, byte by byte": lambda: chain([b"HTTP/1.1 2"], repeat(b"0")),
    "a header, byte by byte": lambda: chain([OK + b"X-Slow: "], repeat(b"a")),
    "headers without end": lambda: chain([OK], repeat(b"X-Slow: a\r\n")),
    "100 Continue without end": lambda: repeat(b"HTTP/1.1 100 Continue\r\n\r\n"),
    "a body, byte by byte": lambda: chain([OK + b"Content-Length: 100000\r\n\r\n"], repeat(b" ")),
    "chunks without end": lambda: chain([CHUNKED], repeat(b"1\r\n \r\n")),
    "the extension of a chunk, byte by byte": lambda: chain([CHUNKED + b"1;"], repeat(b"a")),
    "trailers without end": lambda: chain([CHUNKED + b"2\r\n{}\r\n0\r\n"], repeat(b"X-Slow: a\r\n")),
    "compressed zeros, byte by byte": lambda: chain(
        [OK + b"Content-Encoding: gzip\r\nContent-Length: 100000\r\n\r\n"],
        (bytes([byte]) for byte in gzip.compress(bytes(1 << 20))),
    ),
}


@pytest.mark.parametrize("sent", SLOW)
def test_a_slow_answer_ends_at_the_deadline(sent: str) -> None:
    with hostile_server(SLOW[sent], pause=0.02) as url:
        assert ask(url, timeout=0.5) == TIMED_OUT


TLS_RECORD = b"\x16\x03\x03\x40\x00"
"""The beginning of a handshake record of 16 KiB."""


@pytest.mark.parametrize("pieces", [list, lambda: chain([TLS_RECORD], repeat(b"a"))], ids=["none", "drip"])
def test_a_slow_tls_handshake_ends_at_the_deadline(pieces: Pieces) -> None:
    with hostile_server(pieces, pause=0.02, reads_http=False) as url:
        assert ask(url.replace("http:", "https:"), timeout=0.5) == TIMED_OUT


def test_a_server_that_does_not_read_ends_the_request_at_the_deadline() -> None:
    with hostile_server(list, pause=60, reads_http=False) as url:
        assert ask(url, prompt="x" * (32 << 20), timeout=0.5) == TIMED_OUT


def test_a_server_that_does_not_accept_ends_the_request_at_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, contextlib.ExitStack() as waiting:
        for _ in range(4):
            client = waiting.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(server.getsockname())
        assert ask(f"http://127.0.0.1:{server.getsockname()[1]}/v1", timeout=0.5) == TIMED_OUT


def test_many_requests_that_time_out_leave_room_for_the_next_one() -> None:
    """A connection that is still counted or open after its request has timed out would use up a limit."""
    is_slow = True

    def pieces() -> Iterable[bytes]:
        body = b'{"choices": ["x"]}'
        whole = OK + b"Content-Length: %d\r\n\r\n" % len(body) + body
        return [OK] if is_slow else [whole]

    with hostile_server(pieces, pause=60) as url:
        settings: dict[str, Any] = {"requests_per_minute": 60_000, "retries": 0, "timeout": 0.01, "concurrency": 32}
        params = SequenceParams.checked(endpoint=url, endpoint_model="gpt", **settings)
        with closing(Endpoint(params, key=None, seed=0)) as endpoint:

            def answer(number: int) -> Answer[Any]:
                return endpoint.request({"prompt": "x"}, lambda answer: answer["choices"][0])

            answers = [answer for _, answer in endpoint.answers_as_they_arrive(range(150), answer)]
            assert answers == [TIMED_OUT] * 150
            is_slow = False
            endpoint.params = params.model_copy(update={"timeout": 60.0})
            assert answer(0) == Answer("x")


def encoded(content: bytes, layers: int) -> bytes:
    for _ in range(layers):
        content = gzip.compress(content)
    names = b", ".join([b"gzip"] * layers)
    return OK + b"Content-Encoding: " + names + b"\r\nContent-Length: %d\r\n\r\n" % len(content) + content


TOO_LARGE: Answer[Any] = Answer(None, "sent more than 8 MiB")
UNDECODED: Answer[Any] = Answer(None, "sent an answer that cannot be decoded")
INVALID: Answer[Any] = Answer(None, "sent an invalid or incomplete answer")
NO_JSON: Answer[Any] = Answer(None, "sends invalid JSON")
UNREACHABLE: Answer[Any] = Answer(None, "cannot be reached")
FAST: dict[str, tuple[Pieces, Answer[Any]]] = {
    "a body without end": (lambda: chain([CHUNKED], repeat(b"100000\r\n" + b" " * (1 << 20) + b"\r\n")), TOO_LARGE),
    "a gzip bomb": (lambda: [encoded(bytes(256 << 20), 1)], TOO_LARGE),
    "a gzip bomb of two layers": (lambda: [encoded(bytes(256 << 20), 2)], UNDECODED),
    "gzip of six layers": (lambda: [encoded(b"{}", 6)], UNDECODED),
    "gzip that is cut": (lambda: [encoded(b"{}", 1).replace(b"h: 2", b"h: 1")[:-3]], UNDECODED),
    "a header of 1 MiB": (lambda: [OK + b"X-Large: " + b"a" * (1 << 20) + b"\r\n\r\n"], INVALID),
    "100,000 headers": (lambda: [OK, *[b"X-More: a\r\n" * 1_000] * 100], INVALID),
    "garbage": (lambda: [b"\x00\xff" * 500 + b"\r\n\r\n"], INVALID),
    "HTTP/2": (lambda: [b"\x00\x00\x12\x04\x00\x00\x00\x00\x00" + b"\x00" * 18], INVALID),
    "two lengths": (lambda: [OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"], INVALID),
    "a negative length": (lambda: [OK + b"Content-Length: -2\r\n\r\n{}"], INVALID),
    "a chunk of negative size": (lambda: [CHUNKED + b"-2\r\n{}"], INVALID),
    "nothing before it closes": (list, INVALID),
    "half a body": (lambda: [OK + b"Content-Length: 100\r\n\r\n", b'{"choices":'], INVALID),
    "half a chunk": (lambda: [CHUNKED + b'64\r\n{"choices":'], INVALID),
    "a body without a length": (lambda: [OK + b"\r\n", b"not JSON"], NO_JSON),
}


@pytest.mark.parametrize("sent", FAST)
def test_an_invalid_answer_is_one_sentence(sent: str) -> None:
    pieces, expected = FAST[sent]
    with hostile_server(pieces) as url:
        assert ask(url) == expected


@pytest.mark.parametrize("layers", [1, 2])
def test_a_bomb_is_not_expanded(layers: int) -> None:
    bomb = encoded(bytes(256 << 20), layers)
    with hostile_server(lambda: [bomb]) as url:
        tracemalloc.start()
        try:
            ask(url)
            assert tracemalloc.get_traced_memory()[1] < 64 << 20
        finally:
            tracemalloc.stop()


def test_an_answer_that_is_compressed_once_is_read() -> None:
    with hostile_server(lambda: [encoded(b'{"choices": ["x"]}', 1)]) as url:
        assert ask(url) == Answer("x")


def test_garbage_in_place_of_tls_cannot_be_reached() -> None:
    with hostile_server(lambda: [b"garbage" * 1_000], reads_http=False) as url:
        assert ask(url.replace("http:", "https:")) == UNREACHABLE


@pytest.mark.parametrize("location", ["file:///etc/passwd", "{other}", "//127.0.0.1/", "/v1/completions", "\\\\x", ""])
def test_a_redirect_is_not_followed(location: str) -> None:
    with completions_server(lambda body, number: completion("x")) as other:

        def reply(body: dict[str, Any], number: int) -> Reply:
            return Reply(307, headers=(("Location", location.format(other=other.url)),))

        with completions_server(reply) as server, pytest.raises(HarnessError, match=r"redirects requests \(status 307"):
            ask(server.url, key=KEY)
    assert other.bodies == []
    assert len(server.bodies) == 1


BASE64 = base64.b64encode(KEY.encode()).decode()
ECHOES = {
    "the key": KEY,
    "the header": f"Authorization: Bearer {KEY}",
    "capitals": KEY.upper(),
    "base64": BASE64,
    "base64 of the header": base64.b64encode(f"Bearer {KEY}".encode()).decode(),
    "base64 after one byte": base64.urlsafe_b64encode(f":{KEY}".encode()).decode(),
    "base64 after two bytes": base64.b64encode(f"a:{KEY}:b".encode()).decode(),
    "URL encoding": quote(KEY, safe=""),
    "URL encoding of everything": "".join(f"%{ord(character):02x}" for character in KEY),
    "escapes of JSON": "".join(f"\\u{ord(character):04X}" for character in KEY),
    "escapes of HTML": "".join(f"&#{ord(character)};" for character in KEY),
    "hexadecimal digits": KEY.encode().hex(),
    "a solidus with an escape": KEY.replace("/", "\\/"),
}


@pytest.mark.parametrize("form", ECHOES)
def test_an_answer_that_repeats_the_key_is_masked(form: str) -> None:
    body = {"choices": [{"text": f"before {ECHOES[form]} after", ECHOES[form]: [ECHOES[form]]}]}
    with completions_server(lambda _, number: Reply(body=json.dumps(body).encode())) as server:
        answer = ask(server.url, key=KEY)
    assert ECHOES[form] not in str(answer)
    assert "[API key]" in answer.value["text"]
    assert answer.value["text"].startswith("before ")


def test_no_file_or_output_of_an_audit_has_the_key(sandboxed_machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_ENDPOINT_KEY", KEY)
    write_corpus(sandboxed_machine.folder)
    echoes = list(ECHOES.values())
    with completions_server(lambda body, number: completion(" ".join(echoes), model=KEY)) as server:
        url = ("--endpoint", server.url, "--endpoint-model", "m", "--requests-per-minute", "60000")
        done = sandboxed_machine.run("audit", "sequence", "corpus.txt", "--prompt-length", "3", *url, "--out", "out")
        shown = [sandboxed_machine.run(*command, "latest") for command in (("show",), ("show", "--log"))]
    found = [path for path in sandboxed_machine.folder.rglob("*") if path.is_file()]
    texts = [path.read_bytes() for path in found] + [(each.stdout + each.stderr).encode() for each in (done, *shown)]
    assert any(b"[API key]" in text for text in texts)
    assert not [echo for echo in echoes for text in texts if echo.encode() in text]


def write_corpus(folder: Path) -> None:
    texts = (" ".join(f"w{n}x{k}" for k in range(20)) for n in range(12))
    (folder / "corpus.txt").write_text("\n\n".join(texts))


def test_an_audit_of_a_slow_server_ends_with_one_sentence(sandboxed_machine: Machine) -> None:
    write_corpus(sandboxed_machine.folder)
    options = ("--endpoint-model", "m", "--requests-per-minute", "60000", "--timeout", "0.5", "--retries", "0")
    with hostile_server(SLOW["a header, byte by byte"], pause=0.02) as url:
        endpoint = ("--endpoint", url, *options)
        stopped = sandboxed_machine.run("audit", "sequence", "corpus.txt", "--prompt-length", "3", *endpoint, code=3)
        refused = sandboxed_machine.run("audit", "leakage", "--round", "demo", "--target", "demo", *endpoint, code=1)
    assert "the endpoint timed out; 8 paragraphs in a row got no answer" in stopped.stderr
    assert "the endpoint timed out." in refused.stderr
