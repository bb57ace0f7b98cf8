"""A corpus whose words count, a served model that memorized it, and the sequence audit of both."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.audits.sequence.audit import SequenceAudit
from harness.audits.sequence.dataset import SequenceParams
from harness.audits.sequence.inputs import read_inputs
from harness.audits.sources import CorpusFiles
from tests.tools.completions_server import CompletionsServer, Reply, completion, completions_server, prompt_of
from tests.unit.audits.in_memory import InMemory


def audit_of(
    server: CompletionsServer, path: Path, batches: int | None = None, control: Path | None = None, **fields: Any
) -> InMemory:
    settings = {"requests_per_minute": 60_000, "retries": 0, "prompt_length": (3,)} | fields
    params = SequenceParams.checked(endpoint=server.url, endpoint_model="gpt", **settings)
    inputs = read_inputs(CorpusFiles(path), control and CorpusFiles(control), params, seed=0)
    return InMemory(SequenceAudit(params), inputs, api_key="sk-x", batches=batches)


def audited(
    folder: Path, reply: Callable[[dict[str, Any], int], Reply], paragraphs: int, **fields: Any
) -> tuple[CompletionsServer, InMemory]:
    """Run the audit of `counting_corpus` on a server that replies so."""
    with completions_server(reply) as server:
        return server, audit_of(server, counting_corpus(folder / "a.txt", paragraphs), **fields).run()


def counting_corpus(path: Path, paragraphs: int) -> Path:
    texts = [" ".join(f"w{place}x{number}" for number in range(20)) for place in range(paragraphs)]
    path.write_text("\n\n".join(texts))
    return path


def continued(body: dict[str, Any], number: int) -> Reply:
    """Return the completion of a model that memorized `counting_corpus`."""
    words = prompt_of(body).split()
    place = words[0].removeprefix("w").split("x")[0]
    text = " " + " ".join(f"w{place}x{number}" for number in range(len(words), 30))
    return chat_message(content=text) if "messages" in body else completion(text)


def chat_message(**fields: Any) -> Reply:
    return Reply(body=json.dumps({"choices": [{"message": fields, "finish_reason": "length"}]}).encode())
