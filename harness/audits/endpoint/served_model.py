"""A model behind an endpoint, which computes probabilities of given text as `harness.audits.exact` does locally."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

import numpy as np

from harness.audits.endpoint.client import Answer, Endpoint, open_endpoint
from harness.audits.endpoint.params import EndpointForm, LogprobsField, PromptForm
from harness.audits.endpoint.probe import drift, probe_tokens, require_unchanged
from harness.audits.endpoint.prompt_logprobs import ROUNDING, PromptLogprobs, PromptRequests
from harness.audits.endpoint.scoring import ScoringParams
from harness.audits.models import Model, load_text_tokenizer
from harness.audits.stage import Stage
from harness.core.arrays import Floats, Ints
from harness.core.audit import AuditContext
from harness.core.errors import Interruption
from harness.core.policy import Policy
from harness.core.tokenizers import Tokenizer, added_tokens
from harness.engine.resolving import CONTEXT_KEYS, configured_number

_WARNED_FAULTS = 3
_NO_TEXT = "accepts text only, and the tokenizer encodes this text to other tokens"


class ServedModel:
    """The model at an endpoint. A text whose probabilities cannot be read gets NaN."""

    is_local = False

    def __init__(self, endpoint: Endpoint, form: EndpointForm, tokenizer: Tokenizer, context: AuditContext) -> None:
        self._endpoint = endpoint
        self._form = form
        self._tokenizer = tokenizer
        self._requests = PromptRequests(endpoint, tokenizer, form)
        self._first_token = next(iter(added_tokens(tokenizer)), None)
        self._context = context
        self._faults = 0
        self._is_checked = False
        self._is_told = False

    def exact_logprobs(
        self, model: int, stage: Stage, policies: Sequence[Policy], *, min_probability: float = 0.0
    ) -> Iterator[tuple[Ints, Floats]]:
        """Yield sequences with the log-probabilities of their suffixes, as `Likelihoods` does, each as it is answered.

        A policy may have a top-k and no other filter.
        """
        assert model == 0, "an endpoint serves one model"
        is_exact = self._form.field is LogprobsField.PROMPT_LOGPROBS

        def text(sequence: int) -> list[Ints]:
            return [np.concatenate(stage.pairs(np.array([sequence])), axis=1)[0].astype(np.int64)]

        for sequence, (answer,) in self._ask_all(stage.name, stage.sequences, text, stage.done):
            length = stage.pairs(np.array([sequence]))[1].shape[1]
            logprobs = np.full((len(policies), 1, length), np.nan)
            if answer is not None:
                logprobs[:, 0] = [answer.last(length).under(policy, exact_ids=is_exact) for policy in policies]
                # A policy that one token leaves open says nothing about the whole suffix.
                is_open = np.isnan(logprobs).any(axis=(1, 2))
                logprobs[is_open] = np.nan
                if is_open.any():
                    self._warn(
                        "A text was left out of some schemes: the endpoint does not settle the likeliest tokens."
                    )
            yield np.array([sequence]), logprobs

    def statistics(
        self, model: int, stage: str, texts: Sequence[Ints], before: Ints, *, done: Ints
    ) -> Iterator[tuple[Ints, list[Floats], Sequence[Floats | None]]]:
        """Yield numbers of texts with the statistics of each, alone and after `before`, as `LocalModels` does.

        Each text is a batch. Raises Interruption as `exact_logprobs` does.
        """
        assert model == 0, "an endpoint serves one model"
        befores = [before[:0], before] if len(before) else [before]

        def asked(number: int) -> list[Ints]:
            return [np.concatenate([tokens, texts[number]]).astype(np.int64) for tokens in befores]

        for number, answers in self._ask_all(stage, len(texts), asked, done):
            length = len(texts[number])
            statistics = [np.full((3, length - 1), np.nan) for _ in answers]
            for of_text, answer in zip(statistics, answers, strict=True):
                if answer is not None:
                    of_text[0] = answer.tokens[len(answer.tokens) - length + 1 :]
            after: list[Floats | None] = [*statistics[1:]] if len(before) else [None]
            yield np.array([number]), statistics[:1], after

    def context_length(self) -> int | None:
        """Return the number of tokens in the configuration of the model, None if it is unknown."""
        return configured_number(self._context.models[0].path, CONTEXT_KEYS)

    def _ask_all(
        self, stage: str, items: int, texts: Callable[[int], Sequence[Ints]], done: Ints
    ) -> Iterator[tuple[int, list[PromptLogprobs | None]]]:
        """Yield the items that are not in `done` with the answers for their texts, in the order of the answers.

        Each is a batch, so that no answer is asked for again. A text that the endpoint does not answer has None.
        """
        left = np.setdiff1d(np.arange(items), done).tolist()
        if left and not self._is_checked:
            self._check()
            self._is_checked = True
        answers = self._endpoint.answers_as_they_arrive(
            left, lambda item: [self._answer_or_fault(text) for text in texts(item)]
        )
        for _ in self._context.batches(stage, items, size=1):
            for item, item_answers in islice(answers, 1):
                for answer in item_answers:
                    if answer.value is None:
                        self._warn(f"A text was left out: the endpoint {answer.fault}.")
                yield item, [answer.value for answer in item_answers]

    def _answer_or_fault(self, tokens: Ints) -> Answer[PromptLogprobs]:
        """Return the answer, or the fault of an endpoint that answers other texts. Raises Interruption otherwise."""
        answer = self._ask(tokens)
        if answer.value is None and answer.fault != _NO_TEXT:
            self._check()
        return answer

    def _check(self) -> None:
        """Raise Interruption if the endpoint does not answer the probe's text as before the audit."""
        tokens = probe_tokens(self._tokenizer, self._form)
        answer = self._ask(tokens)
        if answer.value is None:
            raise Interruption(
                f"{self._endpoint.url}: the endpoint {answer.fault}. The answers so far are kept; resume the audit "
                "when the endpoint works."
            )
        require_unchanged(self._form, answer.value.last(len(tokens)), self._endpoint.url)

    def _warn(self, sentence: str) -> None:
        self._faults += 1
        if self._faults <= _WARNED_FAULTS:
            self._context.warn(sentence)

    def _ask(self, tokens: Ints) -> Answer[PromptLogprobs]:
        if len(tokens) > 1 and tokens[0] == self._first_token:
            # The endpoint or this method adds it.
            tokens = tokens[1:]
        if self._form.prompt is PromptForm.TEXT:
            text = self._tokenizer.decode(tokens.tolist(), skip_special_tokens=False)
            if self._tokenizer.encode(text, add_special_tokens=False).ids != tokens.tolist():
                return Answer(None, _NO_TEXT)
        answer = self._requests.ask(tokens)
        if answer.not_sent and not self._is_told:
            self._is_told = True
            names = ", ".join(answer.not_sent)
            self._context.warn(f"The endpoint refuses {names}, so its own defaults of them may apply.")
        return answer

    def repeat_probe(self) -> None:
        """Warn if the probe's text has other log-probabilities at the end. Nothing is asked if no text was."""
        if not self._is_checked:
            return
        tokens = probe_tokens(self._tokenizer, self._form)
        answer = self._ask(tokens)
        difference = drift(self._form, answer.value.last(len(tokens))) if answer.value else 0.0
        if difference > ROUNDING:
            self._context.warn(
                f"The server is not repeatable: at the end the log-probabilities of the probe's text differ by "
                f"{difference:.2g} nats on average from those before the audit."
            )


@contextmanager
def served_model(params: ScoringParams, context: AuditContext) -> Iterator[ServedModel]:
    """Connect an audit to the model at its endpoint. Model 0 of the context has its tokenizer."""
    assert params.form is not None
    path = context.models[0].path
    tokenizer = load_text_tokenizer(Model(str(path), path))
    with open_endpoint(params, context) as endpoint:
        model = ServedModel(endpoint, params.form, tokenizer, context)
        yield model
        model.repeat_probe()
