"""An endpoint's answers and faults, by a real server on loopback."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from harness.audits.sequence.endpoint import Answer, Endpoint
from harness.audits.sequence.params import SequenceParams
from harness.core.errors import HarnessError
from tests.unit.audits.sequence.completions_server import CompletionsServer, Reply, completion, completions_server

KEY = "sk-very-secret-key"


def asked(server: CompletionsServer, *, key: str | None = KEY, **fields: Any) -> Answer:
    settings = {"requests_per_minute": 60_000, "retries": 2, "timeout": 5.0} | fields
    params = SequenceParams.checked(endpoint=server.url, endpoint_model="gpt", **settings)
    with Endpoint(params, key=key, seed=0) as endpoint:
        return endpoint.complete("Once upon", 7, 0)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Back-off has tests of its own; here it is a hundredth of itself."""
    from harness.audits.sequence import endpoint, pacing

    monkeypatch.setattr(endpoint, "back_off", lambda attempt, random: pacing.backoff_seconds(attempt, random) / 100)


def once(first: Reply, then: Reply) -> Callable[[dict[str, Any], int], Reply]:
    return lambda _, number: first if number == 0 else then


def test_a_prompt_is_posted_with_model_length_and_key_and_its_text_comes_back() -> None:
    with completions_server(lambda body, number: completion(" a time")) as server:
        assert asked(server) == Answer(" a time")
    assert server.paths == ["/v1/completions"]
    assert server.bodies == [{"model": "gpt", "prompt": "Once upon", "max_tokens": 7, "temperature": 0.0}]
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"


def test_without_a_key_no_authorization_is_sent_and_a_draw_has_its_seed() -> None:
    with completions_server(lambda body, number: completion("x")) as server:
        asked(server, key=None, temperature=0.7, top_p=0.9)
        asked(server, key=None, temperature=0.7, top_p=0.9)
    assert "Authorization" not in server.headers[0]
    assert server.bodies[0]["top_p"] == 0.9
    assert server.bodies[0]["seed"] == server.bodies[1]["seed"]


def test_retry_after_is_waited_for() -> None:
    with completions_server(once(Reply(429, headers=(("Retry-After", "1"),)), completion("x"))) as server:
        start = time.monotonic()
        assert asked(server) == Answer("x")
    assert time.monotonic() - start >= 1.0
    assert len(server.bodies) == 2


GARBAGE = [
    (Reply(500, b"oops"), "answers with status 500"),
    (Reply(503), "answers with status 503"),
    (Reply(529), "answers with status 529"),
    (Reply(200, b"<html>"), "sends no JSON"),
    (Reply(200, b"\xff\xfe{"), "sends no JSON"),
    (Reply(200, b"[" * 100_000), "sends no JSON"),
    (Reply(200, b"[]"), "sends JSON without a completion"),
    (Reply(200, b'{"choices": []}'), "sends JSON without a completion"),
    (Reply(200, b'{"choices": [{"message": {"content": "x"}}]}'), "sends JSON without a completion"),
    (Reply(200, b'{"choices": [{"text": 5}]}'), "sends JSON without a completion"),
    (Reply(200, b'{"choices": [{"te', promised=500), "broke off its answer"),
    (Reply(200, b"nonsense", (("Content-Encoding", "gzip"),)), "sent an answer that cannot be decoded"),
]


@pytest.mark.parametrize(("reply", "fault"), GARBAGE)
def test_a_faulty_answer_is_asked_for_again_and_then_left(reply: Reply, fault: str) -> None:
    with completions_server(once(reply, completion("x"))) as server:
        assert asked(server) == Answer("x")
    with completions_server(lambda body, number: reply) as server:
        assert asked(server) == Answer(None, fault)
    assert len(server.bodies) == 3


def test_an_answer_that_takes_too_long_is_left() -> None:
    with completions_server(lambda body, number: Reply(delay=30)) as server:
        assert asked(server, timeout=0.2, retries=1) == Answer(None, "took too long")
    assert len(server.bodies) == 2


def test_headers_that_come_byte_by_byte_take_no_longer_than_an_answer_may() -> None:
    stopped = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\nX-Drip: ")
            while not stopped.wait(0.05):
                connection.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener,))
        thread.start()
        try:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
            assert asked(CompletionsServer(url), timeout=0.5, retries=0) == Answer(None, "took too long")
        finally:
            stopped.set()
            thread.join()


def test_an_endpoint_that_nobody_serves_cannot_be_reached() -> None:
    with completions_server(lambda body, number: completion("x")) as server:
        pass
    assert asked(server, retries=1) == Answer(None, "cannot be reached")


def test_an_answer_that_is_too_large_is_left() -> None:
    with completions_server(lambda body, number: completion("x" * (9 << 20))) as server:
        assert asked(server, retries=0) == Answer(None, "sent more than 8 MiB")


def test_half_a_surrogate_pair_in_an_answer_becomes_a_character() -> None:
    with completions_server(lambda body, number: Reply(body=b'{"choices": [{"text": "a \\ud800"}]}')) as server:
        assert asked(server) == Answer("a ?")


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (401, "refuses the key"),
        (403, "denies access"),
        (404, "no model of that name"),
        (302, "does not complete prompts"),
    ],
)
def test_a_refusal_ends_in_one_sentence_without_key_or_prompt(status: int, says: str) -> None:
    error = {"error": {"message": f"Incorrect key {KEY} for 'Once upon'", "code": "some_code"}}
    reply = Reply(status, json.dumps(error).encode(), (("Location", "http://127.0.0.1:1/"),))
    with completions_server(lambda body, number: reply) as server, pytest.raises(HarnessError) as caught:
        asked(server)
    sentence = str(caught.value)
    assert says in sentence
    assert f"(status {status}, some_code)." in sentence
    assert KEY not in sentence
    assert "Once" not in sentence
    assert len(server.bodies) == 1


@pytest.mark.parametrize("status", [400, 402, 413, 422])
def test_a_prompt_that_is_refused_is_asked_for_once_and_ends_nothing(status: int) -> None:
    reply = Reply(status, json.dumps({"error": {"message": KEY, "code": "context_length_exceeded"}}).encode())
    with completions_server(lambda body, number: reply) as server:
        assert asked(server) == Answer(None, f"refuses the prompt (status {status})")
    assert len(server.bodies) == 1


@pytest.mark.parametrize("code", [KEY, f"invalid_key_{KEY}"])
def test_a_key_that_an_error_gives_in_its_code_is_not_told(code: str) -> None:
    reply = Reply(401, json.dumps({"error": {"code": code}}).encode())
    with completions_server(lambda body, number: reply) as server, pytest.raises(HarnessError) as caught:
        asked(server)
    assert KEY not in str(caught.value)


def test_an_endpoint_that_wants_to_be_left_alone_for_hours_ends_the_audit() -> None:
    reply = Reply(429, headers=(("Retry-After", "7200"),))
    with (
        completions_server(lambda body, number: reply) as server,
        pytest.raises(HarnessError, match="for 120 minutes; resume the audit then"),
    ):
        asked(server)


def test_a_key_is_sent_without_the_whitespace_around_it() -> None:
    with completions_server(lambda body, number: completion("x")) as server:
        asked(server, key=f" {KEY}\r\n")
        asked(server, key="\n")
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert "Authorization" not in server.headers[1]


@pytest.mark.parametrize(
    ("key", "says"), [("sk\nX-More: 1", "control characters"), ("sk-\u00e9", "that no header has")]
)
def test_a_key_that_no_header_can_hold_is_refused_untold(key: str, says: str) -> None:
    with completions_server(lambda body, number: completion("x")) as server:
        with pytest.raises(HarnessError, match=says) as caught:
            asked(server, key=key)
        assert key not in str(caught.value)
        assert server.bodies == []


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"endpoint": "http://host/v1"}, "go together"),
        ({"endpoint_model": "gpt"}, "go together"),
        ({"endpoint": "ftp://host", "endpoint_model": "gpt"}, "no http"),
        ({"endpoint": "localhost:80", "endpoint_model": "gpt"}, "no http"),
        ({"endpoint": "http://me:secret@host/v1", "endpoint_model": "gpt"}, "never from an address"),
        ({"endpoint": "http://host/v1?key=x", "endpoint_model": "gpt"}, "never from an address"),
        ({"endpoint": "http://host/v1", "endpoint_model": "gpt", "top_k": 5, "temperature": 1.0}, "no parameter"),
        ({"top_p": 0.5}, "nothing is drawn"),
        ({"prompt_length": 0}, "--prompt-length"),
        ({"temperature": float("nan")}, "--temperature: nan is no number"),
    ],
)
def test_parameters_that_do_not_fit_are_refused_in_a_sentence(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(HarnessError, match=says) as caught:
        SequenceParams.checked(**fields)
    assert "secret" not in str(caught.value)


def test_the_address_may_end_in_a_slash_or_in_completions() -> None:
    for ending in ("", "/", "/completions"):
        params = SequenceParams.checked(endpoint=f"http://host/v1{ending}", endpoint_model="gpt")
        assert params.endpoint == "http://host/v1"
