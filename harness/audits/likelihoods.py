"""The models of an audit as a source of exact probabilities: on this machine, or one behind an endpoint."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from harness.audits.endpoint.scoring import ScoringParams
from harness.audits.stage import Stage
from harness.core.arrays import Floats, Ints
from harness.core.audit import AuditContext
from harness.core.policy import Policy

if TYPE_CHECKING:
    from harness.audits.endpoint.served_model import ServedModel

NO_TOKENS = np.empty(0, np.int64)
_TEXTS = 64  # per batch
_CUT_WORK = 0.6
"""The part of the work that is left if unlikely suffixes are not followed to their end."""
Likelihoods: TypeAlias = "LocalModels | ServedModel"
"""A source of the probabilities of given text under the models of an audit, by their number."""


def exact_weight(policies: int) -> float:
    """Return the work of the probabilities of a sequence under some policies, relative to one, as on Gemma 3 270M."""
    return 1 + 0.3 * (policies - 1)


class LocalModels:
    """The models of an audit on this machine. A served model has the same methods."""

    is_local = True

    def __init__(self, context: AuditContext) -> None:
        self._context = context

    def exact_logprobs(
        self, model: int, stage: Stage, policies: Sequence[Policy], *, min_probability: float = 0.0
    ) -> Iterator[tuple[Ints, Floats]]:
        """Yield sequences with the log-probabilities of their suffixes, [policies, n, length] float64, batch by batch.

        They are those of `harness.audits.exact` under model number `model`. An endpoint's are NaN under policies that
        cannot be measured, and whole in spite of `min_probability`. Raises Interruption if an endpoint stops working.
        """
        from harness.audits.exact import exact_logprobs  # loads torch

        weight = exact_weight(len(policies)) * (_CUT_WORK if min_probability > 0 else 1.0)
        for batch in self._context.batches(stage.name, stage.sequences, size=stage.size, weight=weight):
            prefixes, suffixes = stage.pairs(batch.items)
            target = self._context.target(model)
            yield batch.items, exact_logprobs(target, prefixes, suffixes, policies, min_probability=min_probability)

    def statistics(
        self, model: int, stage: str, texts: Sequence[Ints], before: Ints, *, done: Ints = NO_TOKENS
    ) -> Iterator[tuple[Ints, list[Floats], Sequence[Floats | None]]]:
        """Yield numbers of texts with the statistics of each, alone and after `before` (None if that is empty).

        The statistics are of a text without its first token, [3, tokens - 1], as in `harness.audits.exact`. Each yield
        is a batch of a stage. done: texts with rows, which only an endpoint needs. An endpoint returns
        log-probabilities alone: the mean and the deviation are NaN, and so are those of a text that it cannot measure.
        """
        from harness.audits.exact import text_statistics  # loads torch

        tokens = np.array([len(text) for text in texts])
        work = [tokens, tokens + len(before)] if len(before) else [tokens]  # of each call
        weights, calls = sum(work) * len(texts) / np.sum(work), [float(of_call.sum()) for of_call in work]
        for batch in self._context.batches(stage, len(texts), size=_TEXTS, weight=weights, calls=calls):
            target, part = self._context.target(model), [texts[number] for number in batch.items]
            alone = text_statistics(target, part, NO_TOKENS)
            yield batch.items, alone, text_statistics(target, part, before) if len(before) else [None] * len(part)

    def context_length(self) -> int | None:
        """Return the number of tokens that the first model attends to, None if it is unknown."""
        return self._context.target().context_length


@contextmanager
def likelihoods(params: ScoringParams, context: AuditContext) -> "Iterator[Likelihoods]":
    """Yield the source of an audit's probabilities. The connection to an endpoint is closed at the end."""
    if params.endpoint is None:
        yield LocalModels(context)
        return
    from harness.audits.endpoint.served_model import served_model  # loads an HTTP client

    with served_model(params, context) as model:
        yield model
