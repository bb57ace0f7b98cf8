"""Log-probabilities of the tokens of a prompt: the request for them, and the reading of an answer.

A server may leave out positions, shift them, or tokenize the prompt differently, so every answer is compared with the
tokens that were sent.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.audits.endpoint.client import Answer, BadAnswer, Endpoint, Value
from harness.audits.endpoint.params import EndpointForm, LogprobsField, PromptForm, model_of
from harness.core.arrays import Floats, Ints
from harness.core.policy import Policy
from harness.core.tokenizers import Tokenizer

ROUNDING = 1e-3
"""Nats that rounding explains."""
OTHER_TOKENS = "tokenizes the prompt differently from the tokenizer of --target"
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


def request_prompt(
    endpoint: Endpoint,
    tokenizer: Tokenizer,
    form: EndpointForm,
    tokens: Ints,
    *,
    temperature: float = 1,
    read: Callable[[Any], Value],
) -> Answer[Value]:
    """Return what `read` makes of the answer for the log-probabilities of a prompt and of the likeliest tokens there.

    tokens: those that are sent.
    """
    sent = tokens.tolist()
    prompt = sent if form.prompt is PromptForm.TOKENS else tokenizer.decode(sent, skip_special_tokens=False)
    # Servers differ in what they make of 0 tokens.
    body = {"prompt": prompt, "max_tokens": 1, "temperature": temperature}
    if form.field is LogprobsField.ECHO:
        body |= {"echo": True, "logprobs": form.likeliest}
    else:
        body |= {"prompt_logprobs": form.likeliest}

    def read_answer(answer: Any) -> Value:
        if form.model and form.model != model_of(answer):
            raise BadAnswer(f"answers with another model ({model_of(answer) or 'without a name'}) than {form.model}")
        return read(answer)

    return endpoint.request(body, read_answer)


def with_first_token(form: EndpointForm, tokens: Ints) -> Ints:
    """Return `tokens` after the token that the audit puts before every prompt, if there is one."""
    return tokens if form.bos_token is None else np.concatenate([[form.bos_token], tokens])


def read_prompt_logprobs(
    answer: Any, tokens: Ints, tokenizer: Tokenizer, field: LogprobsField, *, skip: int = 0
) -> PromptLogprobs:
    """Return the log-probabilities of `tokens` [n] from an answer's JSON.

    skip: positions before them that the endpoint returns, of a token that it puts before every prompt. Raises BadAnswer
    if positions are missing or are of other tokens, and LookupError or TypeError for JSON of another form.
    """
    if field is LogprobsField.ECHO:
        read = _read_echo(answer["choices"][0].get("logprobs"), tokens, tokenizer, skip)
    else:
        # Older versions of vLLM put the list of positions beside the choices.
        positions = answer["choices"][0].get("prompt_logprobs") or answer.get("prompt_logprobs")
        read = _read_vllm(positions, tokens, tokenizer, skip)
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


def _read_echo(lists: Any, tokens: Ints, tokenizer: Tokenizer, skip: int) -> PromptLogprobs:
    if not lists or not lists.get("tokens"):
        raise BadAnswer("returns no log-probabilities of the prompt", is_final=True)
    stop = skip + len(tokens)
    texts, values, tops = (lists[name] for name in ("tokens", "token_logprobs", "top_logprobs"))
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("a token that is not a text cannot be compared with the prompt's")
    _require_positions(min(map(len, (texts, values, tops))), stop)
    _require_equal_tokens(texts[skip:stop], tokens, tokenizer)
    return _from_lists(values[skip:stop], texts[skip:stop], [_numbers(top) for top in tops[skip:stop]])


def _read_vllm(positions: Any, tokens: Ints, tokenizer: Tokenizer, skip: int) -> PromptLogprobs:
    if not positions:
        raise BadAnswer("returns no log-probabilities of the prompt", is_final=True)
    _require_positions(len(positions), skip + len(tokens))
    values: list[Any] = []
    likeliest, texts = [], []
    for place, (token, position) in enumerate(zip(tokens.tolist(), positions[skip:], strict=False)):
        entries = position or {}
        sent = entries.get(str(token))
        if sent is None and place:
            raise BadAnswer(OTHER_TOKENS, is_final=True)
        likeliest.append(_numbers({str(int(id_)): entry["logprob"] for id_, entry in entries.items()}))
        values.append(None if sent is None else sent["logprob"])
        texts.append(None if sent is None else sent.get("decoded_token"))
    _require_equal_tokens(texts, tokens, tokenizer)
    return _from_lists(values, [str(token) for token in tokens.tolist()], likeliest)


def _require_positions(returned: int, wanted: int) -> None:
    if returned < wanted:
        raise BadAnswer(f"returns {returned} positions for a prompt of {wanted} tokens", is_final=True)


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


def _from_lists(values: Sequence[Any], names: Sequence[str], likeliest: list[dict[str, float]]) -> PromptLogprobs:
    tokens = np.array([math.nan if value is None else _number(value) for value in values], np.float64)
    tokens[:1] = math.nan
    return PromptLogprobs(tokens, names, likeliest)
