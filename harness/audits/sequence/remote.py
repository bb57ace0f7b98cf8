"""Complete paragraphs with an endpoint: one paragraph per request, committed as soon as it is answered.

After a kill at most the requests in flight are sent again.
"""

import math
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from harness.audits.endpoint.client import Answer, BadAnswer, Endpoint
from harness.audits.endpoint.params import BLOCKED, is_filter
from harness.audits.sequence.answers import CHAT_INSTRUCTION, AnswerFacts, read_facts
from harness.audits.sequence.completion import Completer, Completion, State, completed, shuffled
from harness.audits.sequence.dataset import Dataset, SequenceParams
from harness.core.arrays import Ints
from harness.core.errors import Interruption
from harness.core.text import pluralize
from harness.corpora.text_files import without_surrogates

_BROKEN_ENDS = ("error", "abort", "aborted", "cancelled")
_TEXT_PARTS = ("text", "output_text")
_REASONING_FIELDS = ("reasoning_content", "reasoning")
_BEGIN_OF_REASONING, _END_OF_REASONING = "<think>", "</think>"
_REASONING = "spends all tokens on reasoning. Turn reasoning off on the server or choose another model"
_BYTES_PER_TOKEN = 2
_MARGIN, _MAX_TOKENS = 16, 4_096
_SINGLE_TOKENS = re.compile(r"[!-@\[-`{-~]")
"""ASCII digits and punctuation, which may take a token each."""
_MAX_FAILURES = 8
"""Unanswered paragraphs in a row, each after all retries, at which the audit ends."""


class ServedText(NamedTuple):
    """The text of an answer and its other facts."""

    text: str
    facts: AnswerFacts


class RemoteCompleter(Completer):
    """Completes the paragraphs of a dataset with an endpoint."""

    batch_size = 1

    def __init__(
        self, endpoint: Endpoint, dataset: Dataset, params: SequenceParams, *, seed: int, answered: int = 0
    ) -> None:
        """answered: the number of answers before."""
        super().__init__(shuffled(len(dataset), seed))
        self._endpoint = endpoint
        self._dataset = dataset
        self._params = params
        self._answered = answered
        self._failures = 0
        self._answers: Iterator[tuple[int, Answer[ServedText]]] = iter(())

    def begin(self, paragraphs: Ints, done: Ints) -> None:
        """Set the paragraphs. They are completed in the order of the answers, so that none waits for another."""
        left = paragraphs[~np.isin(paragraphs, done)].tolist()
        self._answers = self._endpoint.answers_as_they_arrive(left, self._request)

    def complete(self, items: Ints, seed: int) -> tuple[Ints, list[Completion]]:
        """Complete paragraphs.

        Raises Interruption if the endpoint rejects the key or the address (after all answers in flight have arrived),
        or if too many paragraphs in a row got no answer.
        """
        answered = list(islice(self._answers, len(items)))
        paragraphs = np.array([paragraph for paragraph, _ in answered], np.int64)
        return paragraphs, [self._completion(paragraph, answer) for paragraph, answer in answered]

    def _completion(self, paragraph: int, answer: Answer[ServedText]) -> Completion:
        if answer.value is not None:
            self._failures = 0
            self._answered += 1
            text, facts = answer.value
            facts = facts._replace(number=self._answered, not_sent=" ".join(answer.not_sent))
            requested = self._params.endpoint_model or ""
            if facts.answered_by.casefold() == requested.casefold():
                facts = facts._replace(answered_by=requested)
            if is_filter(facts.finish_reason):
                return Completion(State.BLOCKED, fault=f"{BLOCKED} ({facts.finish_reason})", facts=facts)
            prompt, suffix = self._dataset.prompts[paragraph], self._dataset.suffixes[paragraph]
            return completed(text, prompt, suffix, facts)
        if answer.fault.startswith(BLOCKED):
            self._failures = 0
            return Completion(State.BLOCKED, fault=answer.fault)
        self._failures += 1
        if self._failures == _MAX_FAILURES:
            raise Interruption(
                f"{self._params.endpoint}: the endpoint {answer.fault}; {_MAX_FAILURES} paragraphs in a row got no "
                f"answer after {pluralize(self._params.retries + 1, 'request')} each. All answers are kept; resume the "
                "audit when the endpoint works."
            )
        return Completion(State.UNANSWERED, fault=answer.fault)

    def _request(self, paragraph: int) -> Answer[ServedText]:
        prompt, suffix = self._dataset.prompts[paragraph], self._dataset.suffixes[paragraph]
        # A chat model may repeat the prompt before it continues.
        tokens = max_tokens(f"{prompt} {suffix}" if self._params.chat else suffix)
        return complete_prompt(self._endpoint, self._params, prompt, tokens, paragraph)


def complete_prompt(
    endpoint: Endpoint, params: SequenceParams, prompt: str, tokens: int, number: int
) -> Answer[ServedText]:
    """Complete `prompt` with at most `tokens` tokens. `number` seeds the draws.

    Raises Interruption as `Endpoint.request` does.
    """
    body: dict[str, Any] = {"max_tokens": tokens, "temperature": params.temperature}
    if params.temperature > 0:
        body |= {"top_p": params.top_p, "seed": endpoint.random(number).randrange(1 << 31)}
    if params.chat:
        body["messages"] = [{"role": "user", "content": CHAT_INSTRUCTION.format(prompt=prompt)}]
        return endpoint.request(body, _read_chat, path="chat/completions", guesses_refused=True)
    return endpoint.request(body | {"prompt": prompt}, _read_completion, guesses_refused=True)


def _read_completion(answer: Any) -> ServedText:
    facts = _facts(answer)
    if is_filter(facts.finish_reason):
        return ServedText("", facts)
    return ServedText(_text(answer["choices"][0]["text"]), facts)


def _facts(answer: Any) -> AnswerFacts:
    """Return the facts of an answer. Raises BadAnswer if the server broke it off."""
    facts = read_facts(answer)
    if facts.finish_reason in _BROKEN_ENDS:
        raise BadAnswer(f"breaks off its answer ({facts.finish_reason})")
    return facts


def _read_chat(answer: Any) -> ServedText:
    facts = _facts(answer)
    message = answer["choices"][0].get("message") or {}
    if message.get("refusal"):
        facts = facts._replace(finish_reason="refusal")
    if is_filter(facts.finish_reason):
        return ServedText("", facts)
    content = message["content"]
    has_reasoning = any(message.get(name) for name in _REASONING_FIELDS)
    if isinstance(content, list):
        texts = [part["text"] for part in content if part.get("type") in _TEXT_PARTS]
        has_reasoning = has_reasoning or len(texts) < len(content)
        content = "".join(texts)
    if isinstance(content, str):
        # A chat template may put the first tag into the prompt.
        reasoning, end, text = content.partition(_END_OF_REASONING)
        is_begun = reasoning.lstrip().startswith(_BEGIN_OF_REASONING)
        if is_begun or (end and _BEGIN_OF_REASONING not in reasoning):
            content, has_reasoning = text.lstrip(), True
    if not content and has_reasoning:
        raise BadAnswer(_REASONING, is_final=True)
    return ServedText(_text(content), facts)


def _text(text: Any) -> str:
    if not isinstance(text, str):
        raise TypeError
    return without_surrogates(text)


def max_tokens(suffix: str) -> int:
    """Return a maximum of tokens for a completion as long as `suffix`, enough for nearly any tokenizer, up to 4,096.

    One token per two bytes of UTF-8, one for each ASCII digit or punctuation mark, and 16 more: about twice what
    English takes, and three tokens per two characters of Chinese.
    """
    size = len(suffix.encode("utf-8", "replace")) + len(_SINGLE_TOKENS.findall(suffix))
    return min(_MAX_TOKENS, math.ceil(size / _BYTES_PER_TOKEN) + _MARGIN)
