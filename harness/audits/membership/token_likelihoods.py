"""Statistics of the tokens of documents under a target on this machine, or one behind an endpoint."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import numpy as np

from harness.audits.endpoint.params import ScoringParams
from harness.core.arrays import Floats, Ints
from harness.core.audit import AuditContext
from harness.engine.resolving import CONTEXT_KEYS, configured_number

if TYPE_CHECKING:
    from harness.audits.endpoint.served_model import ServedModel

_NO_TOKENS = np.empty(0, np.int64)


class TokenLikelihoods(Protocol):
    """Computes statistics of the tokens of documents."""

    def statistics(self, texts: Sequence[Ints], *, after: Ints = _NO_TOKENS) -> list[Floats]:
        """Return the statistics of each text without its first token, [3, tokens - 1], as `token_statistics` does.

        after: tokens that the model sees before every text. An endpoint returns log-probabilities alone: the mean and
        the deviation are NaN, and so are those of a text that it cannot measure.
        """
        ...

    def context_length(self) -> int | None:
        """Return the number of tokens that the model attends to, None if it is unknown."""
        ...

    def batch_size(self, usual: int) -> int:
        """Return the number of documents that are committed together."""
        ...


class LocalModel:
    """Model `number` of an audit on this machine."""

    def __init__(self, context: AuditContext, number: int = 0) -> None:
        self._context = context
        self._number = number

    def statistics(self, texts: Sequence[Ints], *, after: Ints = _NO_TOKENS) -> list[Floats]:
        """Return the statistics of each text without its first token, [3, tokens - 1]."""
        from harness.audits.membership.token_statistics import padded, token_statistics  # loads torch

        rows, lengths = padded(list(texts))
        before = np.concatenate([np.tile(after, (len(rows), 1)), rows[:, :1]], axis=1).astype(np.int64)
        found = token_statistics(self._context.target(self._number), before, rows[:, 1:])
        return [found[:, row, : length - 1] for row, length in enumerate(lengths.tolist())]

    def context_length(self) -> int | None:
        """Return the number of tokens that the model attends to, None if it is unknown."""
        return self._context.target(self._number).context_length

    def batch_size(self, usual: int) -> int:
        """Return the usual number of documents."""
        return usual


class _ServedTokens:
    def __init__(self, model: "ServedModel", context: AuditContext) -> None:
        self._model = model
        self._context = context

    def statistics(self, texts: Sequence[Ints], *, after: Ints = _NO_TOKENS) -> list[Floats]:
        logprobs = self._model.token_logprobs([np.concatenate([after, text]).astype(np.int64) for text in texts])
        own = [each[len(each) - len(text) + 1 :] for each, text in zip(logprobs, texts, strict=True)]
        return [np.array([each, np.full(len(each), np.nan), np.full(len(each), np.nan)]) for each in own]

    def context_length(self) -> int | None:
        return configured_number(self._context.models[0].path, CONTEXT_KEYS)

    def batch_size(self, usual: int) -> int:
        return self._model.batch_size(usual)


@contextmanager
def token_likelihoods(params: ScoringParams, context: AuditContext) -> Iterator[TokenLikelihoods]:
    """Return the source of the statistics of an audit's target, and close its connection at the end."""
    if params.endpoint is None:
        yield LocalModel(context)
        return
    from harness.audits.endpoint.served_model import served_model  # loads an HTTP client

    with served_model(params, context) as model:
        yield _ServedTokens(model, context)
