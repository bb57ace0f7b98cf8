"""One request to a server on loopback."""

from contextlib import closing
from typing import Any

from harness.audits.endpoint.client import Answer, Endpoint
from harness.audits.sequence.dataset import SequenceParams
from harness.audits.sequence.remote import complete_prompt
from tests.tools.completions_server import CompletionsServer

KEY = "sk-very-secret-key"


def asked(server: CompletionsServer, *, key: str | None = KEY, **fields: Any) -> Answer[str]:
    settings = {"requests_per_minute": 60_000, "retries": 2, "timeout": 5.0} | fields
    params = SequenceParams.checked(endpoint=server.url, endpoint_model="gpt", **settings)
    with closing(Endpoint(params, key=key, seed=0)) as endpoint:
        answer = complete_prompt(endpoint, params, "Once upon", 7, 0)
    return Answer(answer.value.text if answer.value else None, answer.fault)
