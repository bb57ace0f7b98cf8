"""The endpoint client against a real server on loopback."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from harness.audits.endpoint.client import NEUTRAL, Answer
from harness.audits.sequence.dataset import SequenceParams
from harness.core.errors import HarnessError
from tests.tools.completions_server import Reply, completion, completions_server
from tests.unit.audits.endpoint.asking import KEY, asked


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the backoff, which belongs to tenacity."""
    from harness.audits.endpoint import client

    monkeypatch.setattr(client, "_BACKOFF", lambda state: 0.01)


def once(first: Reply, then: Reply) -> Callable[[dict[str, Any], int], Reply]:
    return lambda _, number: first if number == 0 else then


def test_a_prompt_is_posted_with_model_length_and_key() -> None:
    with completions_server(lambda body, number: completion(" a time")) as server:
        assert asked(server) == Answer(" a time")
    assert server.paths == ["/v1/completions"]
    expected = {"model": "gpt", "prompt": "Once upon", "max_tokens": 7, "temperature": 0.0}
    assert server.bodies == [expected | NEUTRAL]
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"


def test_no_authorization_without_a_key_and_draws_have_a_seed() -> None:
    with completions_server(lambda body, number: completion("x")) as server:
        asked(server, key=None, temperature=0.7, top_p=0.9)
        asked(server, key=None, temperature=0.7, top_p=0.9)
    assert "Authorization" not in server.headers[0]
    assert server.bodies[0]["top_p"] == 0.9
    assert server.bodies[0]["seed"] == server.bodies[1]["seed"]


def test_retry_after_is_respected() -> None:
    with completions_server(once(Reply(429, headers=(("Retry-After", "1"),)), completion("x"))) as server:
        start = time.monotonic()
        assert asked(server) == Answer("x")
    assert time.monotonic() - start >= 1.0
    assert len(server.bodies) == 2


GARBAGE = [
    (Reply(500, b"oops"), "answers with status 500"),
    (Reply(503), "answers with status 503"),
    (Reply(529), "answers with status 529"),
    (Reply(200, b"<html>"), "sends invalid JSON"),
    (Reply(200, b"\xff\xfe{"), "sends invalid JSON"),
    (Reply(200, b"[" * 100_000), "sends invalid JSON"),
    (Reply(200, b"[]"), "sends JSON without a completion"),
    (Reply(200, b'{"choices": []}'), "sends JSON without a completion"),
    (Reply(200, b'{"choices": [{"message": {"content": "x"}}]}'), "sends JSON without a completion"),
    (Reply(200, b'{"choices": [{"text": 5}]}'), "sends JSON without a completion"),
    (Reply(200, b'{"choices": [{"te', promised=500), "sent an invalid or incomplete answer"),
    (Reply(200, b"nonsense", (("Content-Encoding", "gzip"),)), "sent an answer that cannot be decoded"),
]


@pytest.mark.parametrize(("reply", "fault"), GARBAGE)
def test_a_faulty_answer_is_retried(reply: Reply, fault: str) -> None:
    with completions_server(once(reply, completion("x"))) as server:
        assert asked(server) == Answer("x")
    with completions_server(lambda body, number: reply) as server:
        assert asked(server) == Answer(None, fault)
    assert len(server.bodies) == 3


def test_a_slow_answer_times_out() -> None:
    with completions_server(lambda body, number: Reply(delay=30)) as server:
        assert asked(server, timeout=0.2, retries=1) == Answer(None, "timed out")
    assert len(server.bodies) == 2


def test_a_lone_surrogate_becomes_a_question_mark() -> None:
    with completions_server(lambda body, number: Reply(body=b'{"choices": [{"text": "a \\ud800"}]}')) as server:
        assert asked(server) == Answer("a ?")


@pytest.mark.parametrize("status", [200, 400, 500])
@pytest.mark.parametrize("depth", [480, 100_000])
def test_a_deeply_nested_answer_is_a_fault(status: int, depth: int) -> None:
    with completions_server(lambda body, number: Reply(status, b"[" * depth + b"]" * depth)) as server:
        assert asked(server, key=None, retries=0).value is None


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (401, "rejects the API key"),
        (403, "denies access"),
        (402, "has no quota left for this API key"),
        (404, "no model of this name"),
        (302, "redirects requests"),
    ],
)
def test_a_fatal_status_is_an_error_without_key_or_prompt(status: int, says: str) -> None:
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


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_refused_prompt_is_sent_once(status: int) -> None:
    reply = Reply(status, json.dumps({"error": {"message": KEY, "code": "context_length_exceeded"}}).encode())
    with completions_server(lambda body, number: reply) as server:
        assert asked(server) == Answer(None, f"refuses the request (status {status}, context_length_exceeded)")
    assert len(server.bodies) == 1


@pytest.mark.parametrize("code", [KEY, f"invalid_key_{KEY}"])
def test_a_key_in_an_error_code_is_not_shown(code: str) -> None:
    reply = Reply(401, json.dumps({"error": {"code": code}}).encode())
    with completions_server(lambda body, number: reply) as server, pytest.raises(HarnessError) as caught:
        asked(server)
    assert KEY not in str(caught.value)


def test_a_very_long_retry_after_ends_the_audit() -> None:
    reply = Reply(429, headers=(("Retry-After", "7200"),))
    with (
        completions_server(lambda body, number: reply) as server,
        pytest.raises(HarnessError, match=r"a wait of 120 minutes\. Resume the audit then"),
    ):
        asked(server)


def test_a_key_is_stripped() -> None:
    with completions_server(lambda body, number: completion("x")) as server:
        asked(server, key=f" {KEY}\r\n")
        asked(server, key="\n")
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert "Authorization" not in server.headers[1]


@pytest.mark.parametrize(("key", "says"), [("sk\nX-More: 1", "control characters"), ("sk-\u00e9", "outside ASCII")])
def test_an_invalid_key_is_refused_without_showing_it(key: str, says: str) -> None:
    with completions_server(lambda body, number: completion("x")) as server:
        with pytest.raises(HarnessError, match=says) as caught:
            asked(server, key=key)
        assert key not in str(caught.value)
        assert server.bodies == []


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"endpoint": "http://host/v1"}, "must be given together"),
        ({"endpoint_model": "gpt"}, "must be given together"),
        ({"endpoint": "ftp://host", "endpoint_model": "gpt"}, "not an http"),
        ({"endpoint": "localhost:80", "endpoint_model": "gpt"}, "not an http"),
        ({"endpoint": "http://me:secret@host/v1", "endpoint_model": "gpt"}, "set HARNESS_ENDPOINT_KEY instead"),
        ({"endpoint": "http://host/v1?key=secret", "endpoint_model": "gpt"}, "more than api-version; remove them"),
        ({"endpoint": "http://host/v1?api-version=1&code=secret", "endpoint_model": "gpt"}, "more than api-version"),
        (
            {"endpoint": "http://host/v1#secret", "endpoint_model": "gpt"},
            "a fragment, or a query with more than api-version",
        ),
        ({"endpoint": "http://host/v1", "endpoint_model": "gpt", "top_k": 5, "temperature": 1.0}, "has no top_k"),
        ({"top_p": 0.5}, "have no effect"),
        ({"prompt_length": (0,)}, "--prompt-length"),
        ({"temperature": float("nan")}, "--temperature: must be a number, got NaN"),
    ],
)
def test_invalid_parameters_are_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(HarnessError, match=says) as caught:
        SequenceParams.checked(**fields)
    assert "secret" not in str(caught.value)


def test_the_url_may_end_in_a_slash_or_in_completions() -> None:
    for ending in ("", "/", "/completions"):
        params = SequenceParams.checked(endpoint=f"http://host/v1{ending}", endpoint_model="gpt")
        assert params.endpoint == "http://host/v1"
