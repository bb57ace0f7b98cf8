"""Log-probabilities of the tokens of a prompt: the request for them, and the reading of an answer.

A server may leave out positions, shift them, or tokenize the prompt differently, so every answer is compared with the
tokens that were sent.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from harness.audits.endpoint.client import Answer, BadAnswer, Endpoint, Value
from harness.audits.endpoint.params import EndpointForm, LogprobsField, PromptForm, model_of
from harness.core.arrays import Floats, Ints
from harness.core.policy import Policy
from harness.core.tokenizers import Tokenizer

ROUNDING = 1e-3
"""Nats that rounding explains."""
OTHER_TOKENS = "tokenizes the prompt differently from the tokenizer of --target"
_Lists: TypeAlias = tuple[Sequence[Any], Sequence[str], Sequence[Any], list[dict[str, float]]]
"""The log-probability, name and text of the token at each position, and the likeliest tokens there."""
_ID_BEGINNING = "token_id:"
"""The text before an id if vLLM or SGLang is started with --return-tokens-as-token-ids."""


@dataclass(frozen=True)
class PromptLogprobs:
    """The log-probabilities of the n tokens of a prompt under the unmodified model.

    tokens: [n] float64 in nats, NaN for the first one.
    names: the name of each token among the likeliest ones, an id or a text.
    likeliest: for each position the likeliest tokens by name, and the prompt's own token beside them.
    """

    tokens: Floats
    names: Sequence[str]
    likeliest: Sequence[dict[str, float]]

    def last(self, number: int) -> "PromptLogprobs":
        """Return the last `number` positions."""
        return PromptLogprobs(self.tokens[-number:], self.names[-number:], self.likeliest[-number:])

    def under(self, policy: Policy, *, exact_ids: bool) -> Floats:
        """Return the log-probability of each token under `policy`, which has no other filter than top-k, [n].

        It is -inf for a token that the policy excludes, and NaN where the answer does not settle it. exact_ids: tokens
        are named by their ids, which break ties as in the engine; otherwise two of equal text may hide each other, and
        one more was requested.
        """
        if policy.top_k is None:
            return self.tokens
        top_k = policy.top_k
        logprobs = np.full(len(self.tokens), np.nan)
        for place, (logprob, name, top) in enumerate(
            zip(self.tokens.tolist(), self.names, self.likeliest, strict=True)
        ):
            if len(top) < (top_k if exact_ids else top_k + 1):
                continue
            rivals = {rival: value for rival, value in top.items() if rival != name}
            rank = sum(value > logprob for value in rivals.values())
            equal = [rival for rival, value in rivals.items() if value == logprob]
            if exact_ids:
                rank += sum(int(rival) < int(name) for rival in equal)
            elif rank < top_k <= rank + len(equal):
                continue
            kept = sorted(top.values(), reverse=True)[:top_k]
            logprobs[place] = -math.inf if rank >= top_k else min(0.0, logprob - float(np.logaddexp.reduce(kept)))
        return logprobs


@dataclass(frozen=True)
class PromptRequests:
    """Requests for the log-probabilities of prompts, in the form that an endpoint takes."""

    endpoint: Endpoint
    tokenizer: Tokenizer
    form: EndpointForm

    def ask(self, tokens: Ints, *, temperature: float = 1) -> Answer[PromptLogprobs]:
        """Return the log-probabilities of a prompt, whose last positions are those of `tokens`."""
        return self.send(tokens, partial(read_prompt_logprobs, form=self.form), temperature=temperature)

    def send(
        self, tokens: Ints, read: Callable[[Any, Ints, Tokenizer], Value], *, temperature: float = 1
    ) -> Answer[Value]:
        """Return what `read` makes of an answer, the tokens that were sent and the tokenizer.

        The first token is put before `tokens` if the audit puts it before every prompt.
        """
        form = self.form
        sent = tokens if form.bos_token is None else np.concatenate([[form.bos_token], tokens])
        ids = sent.tolist()
        prompt = ids if form.prompt is PromptForm.TOKENS else self.tokenizer.decode(ids, skip_special_tokens=False)
        # Servers differ in what they make of 0 tokens.
        body = {"prompt": prompt, "max_tokens": 1, "temperature": temperature}
        if form.field is LogprobsField.ECHO:
            body |= {"echo": True, "logprobs": form.likeliest}
        else:
            body |= {"prompt_logprobs": form.likeliest}

        def read_answer(answer: Any) -> Value:
            model = model_of(answer)
            if form.model and form.model != model:
                raise BadAnswer(f"answers with another model ({model or 'without a name'}) than {form.model}")
            return read(answer, sent, self.tokenizer)

        return self.endpoint.request(body, read_answer)


def read_prompt_logprobs(answer: Any, tokens: Ints, tokenizer: Tokenizer, form: EndpointForm) -> PromptLogprobs:
    """Return the log-probabilities of `tokens` [n] from an answer's JSON.

    Raises BadAnswer if positions are missing or are of other tokens, and LookupError or TypeError for JSON of another
    form.
    """
    choice, positions = answer["choices"][0], slice(form.skip, form.skip + len(tokens))
    if form.field is LogprobsField.ECHO:
        values, names, texts, likeliest = _read_echo(choice.get("logprobs"), positions)
    else:
        # Older versions of vLLM put the list of positions beside the choices.
        entries = choice.get("prompt_logprobs") or answer.get("prompt_logprobs")
        values, names, texts, likeliest = _read_vllm(entries, positions, tokens)
    _require_equal_tokens(texts, tokens, tokenizer)
    read = PromptLogprobs(
        np.array([math.nan if value is None else _number(value) for value in values], np.float64), names, likeliest
    )
    read.tokens[:1] = math.nan
    logprobs = read.tokens[1:]
    for logprob, top in zip(logprobs.tolist(), read.likeliest[1:], strict=True):
        largest = max(top.values(), default=-math.inf)
        if math.isnan(sum(top.values())) or largest > ROUNDING:
            raise BadAnswer("returns log-probabilities that are not numbers, or above 0", is_final=True)
        if top and logprob > largest + ROUNDING:
            raise BadAnswer("returns tokens that are likelier than the likeliest ones", is_final=True)
    if missing := int(np.isnan(logprobs).sum()):
        raise BadAnswer(f"returns no log-probability for {missing} of {len(tokens)} prompt tokens", is_final=True)
    if (logprobs > ROUNDING).any():
        raise BadAnswer("returns log-probabilities above 0", is_final=True)
    if not logprobs.any() and len(logprobs):
        raise BadAnswer("returns 0 for the log-probabilities of all prompt tokens", is_final=True)
    np.minimum(logprobs, 0, out=logprobs)
    return read


def _read_echo(lists: Any, positions: slice) -> _Lists:
    if not lists or not lists.get("tokens"):
        raise BadAnswer("returns no log-probabilities of the prompt", is_final=True)
    texts, values, tops = (lists[name] for name in ("tokens", "token_logprobs", "top_logprobs"))
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("a token that is not a text cannot be compared with the prompt's")
    _require_positions(min(map(len, (texts, values, tops))), positions.stop)
    return values[positions], texts[positions], texts[positions], [_numbers(top) for top in tops[positions]]


def _read_vllm(entries_of: Any, positions: slice, tokens: Ints) -> _Lists:
    if not entries_of:
        raise BadAnswer("returns no log-probabilities of the prompt", is_final=True)
    _require_positions(len(entries_of), positions.stop)
    names = [str(token) for token in tokens.tolist()]
    values, texts, likeliest = [], [], []
    for place, (name, position) in enumerate(zip(names, entries_of[positions], strict=False)):
        entries = position or {}
        entry = entries.get(name)
        if entry is None and place:
            raise BadAnswer(OTHER_TOKENS, is_final=True)
        values.append(None if entry is None else entry["logprob"])
        texts.append(None if entry is None else entry.get("decoded_token"))
        likeliest.append(_numbers({str(int(id_)): likely["logprob"] for id_, likely in entries.items()}))
    return values, names, texts, likeliest


def _require_positions(returned: int, sent: int) -> None:
    if returned < sent:
        raise BadAnswer(f"returns {returned} positions for a prompt of {sent} tokens", is_final=True)


def _require_equal_tokens(texts: Sequence[Any], tokens: Ints, tokenizer: Tokenizer) -> None:
    """Raise BadAnswer if the texts of tokens are not those of `tokens`. Servers write spaces and bytes differently."""
    for text, token in zip(texts, tokens.tolist(), strict=True):
        if not isinstance(text, str):
            continue
        if text.startswith(_ID_BEGINNING):
            is_equal = text.removeprefix(_ID_BEGINNING) == str(token)
        else:
            sent, returned = map(_plain, (tokenizer.decode([token], skip_special_tokens=False), text))
            is_equal = sent == returned or not sent or not returned or "\ufffd" in sent + returned
        if not is_equal:
            raise BadAnswer(OTHER_TOKENS, is_final=True)


def _plain(text: str) -> str:
    return text.replace("Ġ", " ").replace("Ċ", "\n").replace("▁", " ").strip()


def _numbers(entries: Any) -> dict[str, float]:
    return {str(name): _number(value) for name, value in (entries or {}).items() if value is not None}


def _number(value: Any) -> float:
    """Return a JSON number. Raises TypeError or OverflowError for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return float(value)
