"""Addresses that are reached through a proxy, directly or with a version, and a quota that is used up."""

import json
from typing import Any

import pytest

from harness.audits.endpoint.client import Answer
from harness.core.errors import HarnessError
from tests.tools.completions_server import Reply, completion, completions_server
from tests.unit.audits.endpoint.asking import KEY, asked


@pytest.mark.parametrize("status", [400, 403, 429])
@pytest.mark.parametrize(
    "error",
    [
        {"code": "insufficient_quota"},
        {"code": 429, "type": "insufficient_quota"},
        {"code": "rate_limit_exceeded", "type": "insufficient_quota"},
        {"code": "INSUFFICIENT_QUOTA"},
        "insufficient_quota",
    ],
)
def test_a_used_up_quota_ends_the_audit_at_once(status: int, error: dict[str, Any] | str) -> None:
    reply = Reply(status, json.dumps({"error": error}).encode())
    with completions_server(lambda body, number: reply) as server:
        with pytest.raises(
            HarnessError, match=rf"no quota left for this API key \(status {status}, (?i:insufficient_quota)"
        ):
            asked(server)
        assert len(server.bodies) == 1


@pytest.mark.parametrize("status", [200, 400, 429, 500])
@pytest.mark.parametrize("message", ["Insufficient balance", "Your credit balance is too low to access the API"])
def test_a_quota_that_only_a_message_says_is_used_up_ends_the_audit_at_once(status: int, message: str) -> None:
    reply = Reply(status, json.dumps({"error": {"message": message, "type": "invalid_request_error"}}).encode())
    with completions_server(lambda body, number: reply) as server:
        with pytest.raises(HarnessError, match="no quota left for this API key"):
            asked(server)
        assert len(server.bodies) == 1


@pytest.mark.parametrize(
    "message",
    [
        "invalid prompt: The account had insufficient funds",
        "'insufficient balance' cannot be read",
        "got “credit balance”",
    ],
)
def test_a_prompt_about_money_that_an_error_quotes_is_no_used_up_quota(message: str) -> None:
    reply = Reply(400, json.dumps({"error": {"message": message}}).encode())
    with completions_server(lambda body, number: reply) as server:
        assert asked(server).fault.startswith("refuses the request")


def test_an_address_of_azure_keeps_its_version_and_gets_its_own_header() -> None:
    with completions_server(lambda body, number: completion("x")) as server:
        server.url = server.url.removesuffix("/v1") + "/openai/deployments/gpt/chat/completions?api-version=2026-02-01"
        assert asked(server) == Answer("x")
    assert server.paths == ["/openai/deployments/gpt/completions?api-version=2026-02-01"]
    assert server.headers[0]["api-key"] == KEY and "Authorization" not in server.headers[0]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])
def test_this_machine_is_reached_without_a_proxy(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "all_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "socks5://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    with completions_server(lambda body, number: completion("x")) as server:
        server.url = server.url.replace("127.0.0.1", host)
        assert asked(server, retries=0) == Answer("x")


@pytest.mark.parametrize(
    ("variable", "address", "status", "says"),
    [
        ("http_proxy", "http://me:secret@{}", 502, "status 502 through the proxy http://***@{} of http_proxy"),
        ("ALL_PROXY", "{}", 502, "answers with status 502 through the proxy http://{} of all_proxy"),
        ("http_proxy", "http://{}", 407, "a proxy that wants a user name and a password (status 407) through"),
        ("http_proxy", "socks9://me:secret@{}", 200, "reached through the proxy socks9://***@{} of http_proxy"),
    ],
)
def test_a_proxy_is_named_without_its_password(
    variable: str, address: str, status: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with completions_server(lambda body, number: Reply(status)) as proxy:
        at = proxy.url.removeprefix("http://").removesuffix("/v1")
        monkeypatch.setenv(variable, address.format(at))
        proxy.url = "http://models.invalid/v1"
        try:
            sentence = asked(proxy, retries=0).fault
        except HarnessError as error:
            sentence = str(error)
    assert says.format(at) in sentence and "secret" not in sentence
