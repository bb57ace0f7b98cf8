"""A model behind an endpoint, which computes probabilities of given text as `harness.audits.exact` does locally."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from harness.audits.endpoint.client import Answer, Endpoint, answers_as_they_arrive, open_endpoint
from harness.audits.endpoint.form import EndpointForm, LogprobsField, PromptForm
from harness.audits.endpoint.params import ScoringParams
from harness.audits.endpoint.probe import probe_tokens, require_unchanged
from harness.audits.endpoint.prompt_logprobs import PromptLogprobs, read_prompt_logprobs, request_body
from harness.audits.models import Model, load_text_tokenizer
from harness.core.arrays import Floats, Ints, Tokens
from harness.core.audit import AuditContext
from harness.core.errors import HarnessError
from harness.core.policy import Policy

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_WARNED_FAULTS = 3
_NO_TEXT = "accepts text only, and the tokenizer encodes this text to other tokens"


class ServedModel:
    """The model at an endpoint. A text whose probabilities cannot be read gets NaN."""

    def __init__(self, endpoint: Endpoint, form: EndpointForm, tokenizer: "Tokenizer", context: AuditContext) -> None:
        self._endpoint = endpoint
        self._form = form
        self._tokenizer = tokenizer
        self._context = context
        self._threads = ThreadPoolExecutor(endpoint.params.concurrency)
        self._requests = self._faults = 0
        self._is_checked = False

    def close(self) -> None:
        """Wait for the requests in flight and drop the others."""
        self._threads.shutdown(cancel_futures=True)

    def batch_size(self, usual: int) -> int:
        """Return the number of concurrent requests: after a kill only those are sent again."""
        return min(usual, self._endpoint.params.concurrency)

    def exact_logprobs(
        self, model: int, prefixes: Tokens, suffixes: Tokens, policies: Sequence[Policy], *, least: float = 0.0
    ) -> Floats:
        """Return the log-probabilities of `suffixes` [rows, length] after `prefixes` [rows, any] under each policy.

        The result, [policies, rows, length] float64, is that of `harness.audits.exact`. A policy may have a top-k and
        no other filter. A row is NaN if its text is refused or answered wrongly while the endpoint works otherwise.
        Raises HarnessError if it rejects the key or the address, or does not work; earlier batches are kept.
        """
        assert model == 0, "an endpoint serves one model"
        length = suffixes.shape[1]
        found = np.full((len(policies), *suffixes.shape), np.nan)
        whole = np.concatenate([prefixes, suffixes], axis=1).astype(np.int64)
        is_exact = self._form.field is LogprobsField.PROMPT_LOGPROBS
        for row, answer in self._ask_all(list(whole)):
            last = answer.last(length)
            logprobs = np.array([last.under(policy, exact_ids=is_exact) for policy in policies])
            if np.isnan(logprobs).any():
                self._warn("does not settle which tokens are the likeliest")
            else:
                found[:, row] = logprobs
        return found

    def token_logprobs(self, texts: Sequence[Ints]) -> list[Floats]:
        """Return the log-probability of each token of `texts` but the first, NaN for a text that cannot be measured.

        Raises HarnessError as `exact_logprobs` does.
        """
        found = [np.full(len(text) - 1, np.nan) for text in texts]
        for row, logprobs in self._ask_all(texts):
            found[row] = logprobs.last(len(texts[row])).tokens[1:]
        return found

    def _ask_all(self, texts: Sequence[Ints]) -> Iterator[tuple[int, PromptLogprobs]]:
        """Yield the rows that were answered with their log-probabilities."""
        if not self._is_checked:
            self._check()
            self._is_checked = True
        first = self._requests + 1
        self._requests += len(texts)
        for row, answer in answers_as_they_arrive(
            self._threads,
            range(len(texts)),
            lambda row: self._ask(texts[row], first + row),
            concurrency=self._endpoint.params.concurrency,
        ):
            if answer.value is not None:
                yield row, answer.value
                continue
            if answer.fault != _NO_TEXT:
                # Is it this text, or does the endpoint not work any more?
                self._check()
            self._warn(answer.fault)

    def _check(self) -> None:
        """Raise HarnessError if the endpoint does not answer the probe's text as before the audit."""
        tokens = probe_tokens(self._tokenizer, self._form)
        answer = self._ask(tokens, 0)
        if answer.value is None:
            raise HarnessError(
                f"{self._endpoint.url}: the endpoint {answer.fault}. The answers so far are kept; resume the audit "
                "when the endpoint works."
            )
        require_unchanged(self._form, answer.value.last(len(tokens)), self._endpoint.url)

    def _warn(self, fault: str) -> None:
        self._faults += 1
        if self._faults <= _WARNED_FAULTS:
            self._context.warn(f"A text was left out: the endpoint {fault}.")

    def _ask(self, tokens: Ints, number: int) -> Answer[PromptLogprobs]:
        form = self._form
        text = ""
        if form.prompt is PromptForm.TEXT:
            text = self._tokenizer.decode(tokens.tolist(), skip_special_tokens=False)
            if self._tokenizer.encode(text, add_special_tokens=False).ids != tokens.tolist():
                return Answer(None, _NO_TEXT)
        sent = tokens if form.bos_token is None else np.concatenate([[form.bos_token], tokens])
        body = request_body(sent.tolist(), text, prompt=form.prompt, field=form.field, likeliest=form.likeliest)
        return self._endpoint.request(
            body,
            lambda answer: read_prompt_logprobs(answer, sent, self._tokenizer, form.field, skip=form.skip),
            number=number,
        )


@contextmanager
def served_model(params: ScoringParams, context: AuditContext) -> Iterator[ServedModel]:
    """Connect an audit to the model at its endpoint. Model 0 of the context has its tokenizer."""
    assert params.form is not None
    path = context.models[0].path
    tokenizer = load_text_tokenizer(Model(str(path), path))
    with open_endpoint(params, context) as endpoint:
        model = ServedModel(endpoint, params.form, tokenizer, context)
        try:
            yield model
        finally:
            model.close()
