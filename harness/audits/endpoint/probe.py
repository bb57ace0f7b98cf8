"""The probe of an endpoint before the clock starts: does it return log-probabilities of a prompt, and the right ones?

Two prompts that differ in their last tokens show positions that are shifted. A prediction depends on the tokens before
it: at the first token that differs it must be the same, and at the token after that it must be another one.
"""

from functools import partial
from typing import Any

import numpy as np

from harness.audits.endpoint.client import TIMED_OUT, UNREACHABLE, Answer, BadAnswer, Endpoint, Value
from harness.audits.endpoint.params import REFUSAL, EndpointForm, LogprobsField, PromptForm, model_of
from harness.audits.endpoint.prompt_logprobs import (
    OTHER_TOKENS,
    ROUNDING,
    PromptLogprobs,
    PromptRequests,
    read_prompt_logprobs,
)
from harness.core.arrays import Floats, Ints
from harness.core.errors import HarnessError, Interruption
from harness.core.tokenizers import Tokenizer, added_tokens

_TEXT = (
    "The committee met on the first Monday of the month. After the minutes of the last meeting were read, the "
    "chairman asked whether anyone wished to speak. Nobody did"
)
_ENDINGS = (", and then they left", " so that they left")
_SHIFT = 0.5
"""Nats by which a prediction differs if it is of another position. Rounding in 16 bits differs by less."""
_TOO_FEW = (
    "does not return the {0} likeliest tokens. Set a smaller --top-k, or start the server with a larger limit (vLLM "
    "returns at most 20 unless it is started with --max-logprobs {0})"
)
_SHIFTED = "returns log-probabilities of shifted positions: those of a token depend on {}"
_FEW = 2
"""Likeliest tokens that every endpoint returns, if it returns any."""
_CHANGED = 0.1
"""Mean difference in nats above which a model is another one than before."""
_ATTEMPTS = (
    (PromptForm.TOKENS, LogprobsField.PROMPT_LOGPROBS),
    (PromptForm.TOKENS, LogprobsField.ECHO),
    (PromptForm.TEXT, LogprobsField.ECHO),
)
"""The forms that are tried, the most exact first."""


class Probe:
    """The probe of an endpoint whose model has this tokenizer."""

    def __init__(self, endpoint: Endpoint, tokenizer: Tokenizer, *, top_k: int) -> None:
        """top_k: the number of likeliest tokens that the audit needs."""
        self._endpoint = endpoint
        self._tokenizer = tokenizer
        self._top_k = top_k
        self._bos = next(iter(added_tokens(tokenizer)), None)

    def run(self) -> tuple[EndpointForm, list[str]]:
        """Return the form of requests that the endpoint answers correctly, and warnings.

        Raises HarnessError in one sentence if there is none, or if the endpoint cannot be reached.
        """
        faults: list[str] = []
        for prompt, field in _ATTEMPTS:
            form = EndpointForm(
                prompt=prompt,
                field=field,
                bos_token=self._bos if prompt is PromptForm.TOKENS else None,
                skip=0,
                likeliest=self._top_k if field is LogprobsField.PROMPT_LOGPROBS else self._top_k + 1,
                fingerprint=(),
            )
            try:
                return self._check(form)
            except BadAnswer as error:
                is_refused = error.fault.startswith(REFUSAL)
                faults.append((self._limit_fault(form) if is_refused else None) or error.fault)
        # A form that the endpoint does not have says less than the fault of one that it has.
        telling = [fault for fault in faults if not fault.startswith((REFUSAL, "returns no log-probabilities"))]
        if telling:
            raise self._error(telling[-1])
        raise self._error(f"{faults[-1]}. It may not return log-probabilities of prompts, or not serve this model")

    def _limit_fault(self, form: EndpointForm) -> str | None:
        """Return the fault of an endpoint that answers a request for fewer likeliest tokens, None for another one."""
        if form.likeliest <= _FEW:
            return None
        try:
            self._added_positions(form.model_copy(update={"likeliest": _FEW}), self._encode(_TEXT))
        except BadAnswer:
            return None
        return _TOO_FEW.format(form.likeliest)

    def _check(self, form: EndpointForm) -> tuple[EndpointForm, list[str]]:
        """Return `form` with what was found. Raises BadAnswer if the endpoint does not answer it correctly."""
        first, second = (self._encode(_TEXT + ending) for ending in _ENDINGS)
        shared = int(np.argmin(np.append(first[: len(second)] == second[: len(first)], False)))
        first, second = first[: shared + 2], second[: shared + 2]
        if min(len(first), len(second)) < shared + 2:
            raise self._error("cannot be probed: the tokenizer of --target encodes the probe's text to too few tokens")
        skip, is_unknown, model = self._added_positions(form, first)
        form = form.model_copy(update={"skip": skip, "model": model})
        logprobs, changed = (self._ask(form, tokens) for tokens in (first, second))
        vocabulary = self._tokenizer.get_vocab_size()
        if max(map(len, logprobs.likeliest)) < min(form.likeliest, vocabulary):
            raise BadAnswer(_TOO_FEW.format(form.likeliest), is_final=True)
        _require_positions(logprobs, changed, shared)
        warnings = []
        if is_unknown and self._bos is not None:
            name = self._tokenizer.id_to_token(self._bos)
            warnings.append(
                f"{self._endpoint.url}: the answers do not show whether the server puts {name} before prompts, as the "
                "tokenizer of --target does."
            )
        tempered = self._ask(form, first, temperature=0.5)
        if _difference(logprobs.tokens, tempered.tokens) > _CHANGED:
            warnings.append(
                f"{self._endpoint.url}: log-probabilities depend on the temperature. They are requested at temperature "
                "1, where they are those of the model."
            )
        return form.model_copy(update={"fingerprint": tuple(logprobs.tokens[1:].tolist())}), warnings

    def _added_positions(self, form: EndpointForm, tokens: Ints) -> tuple[int, bool, str]:
        """Return the positions before those of the prompt, whether a hidden token is possible, and the model's name.

        Raises BadAnswer if the endpoint adds a token that the tokenizer does not add, or the other way round. A token
        that is added is the first of the returned ones, or is only counted in `usage`.
        """
        requests = PromptRequests(self._endpoint, self._tokenizer, form)
        skip, counted, sent, model = self._value(requests.send(tokens, partial(_read_added, form=form)))
        # A smaller number is wrong: all tokens of the prompt are returned.
        added = None if counted is None or counted < sent else counted - sent
        added = max(skip, added or 0) if skip or added is not None else None
        if form.prompt is PromptForm.TOKENS and added:
            raise BadAnswer("puts a special token before prompts that are sent as tokens", is_final=True)
        if form.prompt is PromptForm.TEXT:
            if added and self._bos is None:
                raise BadAnswer(
                    f"puts {'a special token' if added == 1 else f'{added} tokens'} before prompts, which the "
                    "tokenizer of --target does not",
                    is_final=True,
                )
            if added == 0 and self._bos is not None:
                name = self._tokenizer.id_to_token(self._bos)
                raise BadAnswer(f"does not put {name} before prompts, as the tokenizer of --target does", is_final=True)
            if added is not None and added > 1:
                raise BadAnswer(OTHER_TOKENS, is_final=True)
        return skip, added is None and form.prompt is PromptForm.TEXT, model

    def _encode(self, text: str) -> Ints:
        return np.array(self._tokenizer.encode(text, add_special_tokens=False).ids, np.int64)

    def _ask(self, form: EndpointForm, tokens: Ints, *, temperature: float = 1) -> PromptLogprobs:
        requests = PromptRequests(self._endpoint, self._tokenizer, form)
        return self._value(requests.ask(tokens, temperature=temperature)).last(len(tokens))

    def _value(self, answer: Answer[Value]) -> Value:
        """Return the value of an answer. Raises BadAnswer for a fault, and HarnessError without an answer."""
        if answer.value is not None:
            return answer.value
        if answer.fault.startswith((UNREACHABLE, TIMED_OUT)):
            raise self._error(answer.fault)
        raise BadAnswer(answer.fault, is_final=True)

    def _error(self, clause: str) -> HarnessError:
        return HarnessError(f"{self._endpoint.url}: the endpoint {clause}.")


def _read_added(answer: Any, sent: Ints, tokenizer: Tokenizer, form: EndpointForm) -> tuple[int, int | None, int, str]:
    """Return the positions before those of the prompt, 0 or 1, the prompt tokens in `usage` and sent, and the model."""
    skip = 0
    try:
        read_prompt_logprobs(answer, sent, tokenizer, form)
    except BadAnswer as error:
        if error.fault != OTHER_TOKENS:
            raise
        skip = 1
        try:
            read_prompt_logprobs(answer, sent, tokenizer, form.model_copy(update={"skip": skip}))
        except BadAnswer:
            raise error from None
    counted = (answer.get("usage") or {}).get("prompt_tokens")
    return skip, counted if type(counted) is int else None, len(sent), model_of(answer)


def drift(form: EndpointForm, logprobs: PromptLogprobs) -> float:
    """Return the mean difference in nats of the probe's text from when the audit was started."""
    return _difference(np.array([np.nan, *form.fingerprint]), logprobs.tokens)


def require_unchanged(form: EndpointForm, logprobs: PromptLogprobs, url: str) -> None:
    """Raise Interruption if the probe's text has other log-probabilities than when the audit was started."""
    if (difference := drift(form, logprobs)) > _CHANGED:
        raise Interruption(
            f"{url}: the endpoint's log-probabilities differ from those before the audit by {difference:.2g} nats on "
            "average, so it serves another model or precision. Serve the first one and resume the audit, or start "
            "another audit."
        )


def probe_tokens(tokenizer: Tokenizer, form: EndpointForm) -> Ints:
    """Return the tokens whose log-probabilities are the fingerprint."""
    ids = tokenizer.encode(_TEXT + _ENDINGS[0], add_special_tokens=False).ids
    return np.array(ids[: len(form.fingerprint) + 1], np.int64)


def _require_positions(first: PromptLogprobs, second: PromptLogprobs, shared: int) -> None:
    """Raise BadAnswer if the positions of two prompts are shifted. shared: the number of equal tokens before others."""
    distances = [_distance(*tops) for tops in zip(first.likeliest, second.likeliest, strict=True)]
    before = [*_differences(first.tokens[:shared], second.tokens[:shared]), *distances[1 : shared + 1]]
    if max(before) > _SHIFT:
        raise BadAnswer(_SHIFTED.format("the tokens after it"), is_final=True)
    if first.tokens[shared] == second.tokens[shared]:
        raise BadAnswer("returns the same log-probability for different tokens of a prompt", is_final=True)
    if distances[shared + 1] <= ROUNDING:
        raise BadAnswer(_SHIFTED.format("fewer tokens than those before it"), is_final=True)


def _distance(first: dict[str, float], second: dict[str, float]) -> float:
    """Return the mean difference of the likeliest tokens at a position; infinite if they have none in common.

    The token of a prompt may be listed beside the likeliest, so that not all are in both.
    """
    if not first or not second:
        return 0.0
    common = first.keys() & second.keys()
    return float(np.mean([abs(first[name] - second[name]) for name in common])) if common else float("inf")


def _difference(first: Floats, second: Floats) -> float:
    """Return the mean absolute difference of log-probabilities, without the first ones."""
    return float(_differences(first, second).mean())


def _differences(first: Floats, second: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        differences = np.abs(first[1:] - second[1:])
    # Two impossible tokens are equal.
    return np.nan_to_num(differences, nan=0.0)
