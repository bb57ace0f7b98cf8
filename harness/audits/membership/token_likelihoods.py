"""Statistics of the tokens of documents under a target on this machine, or one behind an endpoint."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np

from harness.audits.endpoint.params import ScoringParams
from harness.audits.likelihoods import local_or_served
from harness.core.arrays import Floats, Ints
from harness.core.audit import AuditContext

_NO_TOKENS = np.empty(0, np.int64)


class TokenLikelihoods(Protocol):
    """Computes statistics of the tokens of documents."""

    def statistics(
        self, stage: str, documents: Sequence[Ints], shots: Ints, *, size: int, done: Ints
    ) -> Iterator[tuple[Ints, list[Floats], list[Floats] | None]]:
        """Yield numbers of documents with the statistics of each, alone and after `shots` (None without shots).

        The statistics are of a document without its first token, [3, tokens - 1], as in `token_statistics`. Each yield
        is a batch of a stage, of `size` documents. done: documents with rows. An endpoint returns log-probabilities
        alone: the mean and the deviation are NaN, and so are those of a text that it cannot measure.
        """
        ...

    def context_length(self) -> int | None:
        """Return the number of tokens that the model attends to, None if it is unknown."""
        ...


class LocalModel:
    """Model `number` of an audit on this machine."""

    def __init__(self, context: AuditContext, number: int = 0) -> None:
        self._context = context
        self._number = number

    def statistics(
        self, stage: str, documents: Sequence[Ints], shots: Ints, *, size: int, done: Ints
    ) -> Iterator[tuple[Ints, list[Floats], list[Floats] | None]]:
        """Yield numbers of documents with the statistics of each, alone and after `shots` (None without shots)."""
        for batch in self._context.batches(stage, len(documents), size=size):
            texts = [documents[number] for number in batch.items]
            yield batch.items, self._measure(texts, _NO_TOKENS), self._measure(texts, shots) if len(shots) else None

    def _measure(self, texts: Sequence[Ints], after: Ints) -> list[Floats]:
        from harness.audits.membership.token_statistics import padded, token_statistics  # loads torch

        rows, lengths = padded(list(texts))
        before = np.concatenate([np.tile(after, (len(rows), 1)), rows[:, :1]], axis=1).astype(np.int64)
        found = token_statistics(self._context.target(self._number), before, rows[:, 1:])
        return [found[:, row, : length - 1] for row, length in enumerate(lengths.tolist())]

    def context_length(self) -> int | None:
        """Return the number of tokens that the model attends to, None if it is unknown."""
        return self._context.target(self._number).context_length


def token_likelihoods(params: ScoringParams, context: AuditContext) -> AbstractContextManager[TokenLikelihoods]:
    """Return the source of the statistics of an audit's target. Its exit closes the connection to an endpoint."""
    return local_or_served(LocalModel(context), params, context)
