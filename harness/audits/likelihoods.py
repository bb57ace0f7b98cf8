"""The models of an audit as a source of exact probabilities: on this machine, or one behind an endpoint."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from harness.audits.endpoint.scoring import ScoringParams
from harness.audits.stage import Stage
from harness.core.arrays import Floats, Ints
from harness.core.audit import AuditContext
from harness.core.policy import Policy

if TYPE_CHECKING:
    from harness.audits.endpoint.served_model import ServedModel

Local = TypeVar("Local")
Likelihoods: TypeAlias = "LocalModels | ServedModel"
"""A source of the probabilities of given text under the models of an audit, by their number."""


class LocalModels:
    """The models of an audit on this machine. A served model has the same method."""

    is_local = True

    def __init__(self, context: AuditContext) -> None:
        self._context = context

    def exact_logprobs(
        self, model: int, stage: Stage, policies: Sequence[Policy], *, least: float = 0.0
    ) -> Iterator[tuple[Ints, Floats]]:
        """Yield sequences with the log-probabilities of their suffixes, [policies, n, length] float64, batch by batch.

        They are those of `harness.audits.exact` under model number `model`. An endpoint's are NaN under policies that
        cannot be measured, and whole in spite of `least`. Raises Interruption if an endpoint stops working.
        """
        from harness.audits.exact import exact_logprobs  # loads torch

        for batch in self._context.batches(stage.name, stage.sequences, size=stage.size):
            prefixes, suffixes = stage.pairs(batch.items)
            target = self._context.target(model)
            yield batch.items, exact_logprobs(target, prefixes, suffixes, policies, least=least)


def likelihoods(params: ScoringParams, context: AuditContext) -> AbstractContextManager[Likelihoods]:
    """Return the source of an audit's probabilities. Its exit closes the connection to an endpoint."""
    return local_or_served(LocalModels(context), params, context)


@contextmanager
def local_or_served(local: Local, params: ScoringParams, context: AuditContext) -> "Iterator[Local | ServedModel]":
    """Yield the model at the endpoint, whose connection is closed at the end, or `local` if there is no endpoint."""
    if params.endpoint is None:
        yield local
        return
    from harness.audits.endpoint.served_model import served_model  # loads an HTTP client

    with served_model(params, context) as model:
        yield model
