"""A completions API over a target of this repository, as inference servers offer it, and with their faults.

`python -m tests.tools.demo_server --port 8000` serves the demo target. Log-probabilities come from the model of
`transformers` itself, not from the harness's engine.
"""

import argparse
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

from harness.demo import WEIGHTS
from tests.tools.completions_server import CompletionsServer, Reply, completions_server

Body = dict[str, Any]
_MAX_LOGPROBS = 20


class Refused(Exception):
    """A request that is answered with the status `args[0]`, which is not 200."""


@dataclass
class DemoModel:
    """A model and its answers.

    takes_tokens: prompts may be lists of token ids. has_vllm_field: `prompt_logprobs` is known. has_usage: answers have
    the number of prompt tokens. adds_bos: token 0 is put before texts. shows_bos: the lists of answers have it. fault:
    what the server gets wrong, "" for nothing. most_logprobs: the largest number of likeliest tokens.
    """

    path: Path = WEIGHTS
    takes_tokens: bool = True
    has_vllm_field: bool = True
    has_usage: bool = True
    adds_bos: bool = False
    shows_bos: bool = True
    fault: str = ""
    most_logprobs: int = _MAX_LOGPROBS
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(self.path, dtype=torch.float32).eval()
        self.tokenizer = Tokenizer.from_file(str(self.path / "tokenizer.json"))

    def answer(self, body: Body) -> Body:
        """Return the answer to a request. Raises Refused."""
        if "messages" in body:
            text = body["messages"][-1]["content"].partition("\n\n")[2]
            return {"choices": [{"message": {"role": "assistant", "content": self._completion(text, body)}}]}
        prompt = body["prompt"]
        if isinstance(prompt, list) and not self.takes_tokens:
            raise Refused(422)
        ids = prompt if isinstance(prompt, list) else self.tokenizer.encode(prompt, add_special_tokens=False).ids
        if self.fault == "other tokenizer":
            ids = [*ids[:3], *ids[2:]]
        if self.fault == "bos" or (self.adds_bos and isinstance(prompt, str)):
            ids = [0, *ids]
        choice: Body = {"index": 0, "finish_reason": "length"}
        wanted = body.get("prompt_logprobs") if self.has_vllm_field else None
        if wanted is not None:
            choice |= {"text": "", "prompt_logprobs": self._by_id(ids, self._checked(wanted), body)}
        elif body.get("echo") and body.get("logprobs"):
            choice |= {"text": "", "logprobs": self._lists(ids, self._checked(body["logprobs"]), body)}
        else:
            choice["text"] = self._completion(prompt, body)
        usage = {"usage": {"prompt_tokens": len(ids)}} if self.has_usage else {}
        return {"object": "text_completion", "choices": [choice]} | usage

    def _checked(self, number: int) -> int:
        if number > self.most_logprobs:
            raise Refused(400)
        return number

    def _distributions(self, ids: Sequence[int], body: Body) -> torch.Tensor:
        """Return the log-probabilities of the token after each of `ids`, [n, vocabulary]."""
        with self.lock, torch.no_grad():
            logits = self.model(torch.tensor([list(ids)])).logits[0].double()
        return torch.log_softmax(logits / (body["temperature"] if self.fault == "temperature" else 1), dim=1)

    def _positions(self, ids: Sequence[int], number: int, body: Body) -> Iterator[tuple[int, float, dict[int, float]]]:
        """Yield each token but the first, its log-probability, and the likeliest ones of its position by id."""
        given = self._distributions(ids, body)
        shift = {"shifted": 0, "late": 2}.get(self.fault, 1)
        for place in range(1, len(ids)):
            scores = given[max(0, place - shift)]
            value = 0.0 if self.fault == "zeros" else float(scores[ids[place]])
            top = scores.topk(min(number, 3) if self.fault == "few" else number)
            yield ids[place], value, dict(zip(top.indices.tolist(), top.values.tolist(), strict=True))

    def _by_id(self, ids: Sequence[int], number: int, body: Body) -> list[Body | None]:
        found: list[Body | None] = [None]
        for token, value, top in self._positions(ids, number, body):
            found.append({str(each): self._entry(each, score) for each, score in (top | {token: value}).items()})
        return found[: len(found) // 2] if self.fault == "missing" else found

    def _entry(self, token: int, value: float) -> Body:
        return {"logprob": value, "rank": 1, "decoded_token": self.tokenizer.decode([token], skip_special_tokens=False)}

    def _lists(self, ids: Sequence[int], number: int, body: Body) -> Body:
        texts = [self.tokenizer.decode([token], skip_special_tokens=False) for token in ids]
        values: list[float | None] = [None]
        tops: list[dict[str, float] | None] = [None]
        for token, value, top in self._positions(ids, number, body):
            values.append(value)
            by_text = {self.tokenizer.decode([each], skip_special_tokens=False): score for each, score in top.items()}
            tops.append(by_text | {self.tokenizer.decode([token], skip_special_tokens=False): value})
        if self.fault == "missing":
            values[5:] = [None] * len(values[5:])
        first = 0 if self.shows_bos else 1
        return {"tokens": texts[first:], "token_logprobs": values[first:], "top_logprobs": tops[first:]}

    def _completion(self, text: str, body: Body) -> str:
        """Return the greedy completion of a text."""
        ids = torch.tensor([self.tokenizer.encode(text, add_special_tokens=False).ids])
        most = min(body["max_tokens"], self.model.config.max_position_embeddings - ids.shape[1])
        with self.lock, torch.no_grad():
            made = self.model.generate(ids, max_new_tokens=most, do_sample=False, pad_token_id=0)
        completed: str = self.tokenizer.decode(made[0, ids.shape[1] :].tolist())
        return completed


def serve(answer: Callable[[Body], Body], *, port: int = 0) -> AbstractContextManager[CompletionsServer]:
    """Serve `answer`, which maps the body of a request to the body of the answer or raises Refused, on loopback."""

    def reply(body: Body, number: int) -> Reply:
        try:
            return Reply(body=json.dumps(answer(body)).encode())
        except Refused as error:
            return Reply(error.args[0], b"{}")

    return completions_server(reply, port=port)


def main() -> None:
    """Serve a target until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--target", type=Path, default=WEIGHTS, help="directory of the model")
    options = parser.parse_args()
    with serve(DemoModel(options.target).answer, port=options.port) as served:
        print(f"serving {options.target} at {served.url}", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
