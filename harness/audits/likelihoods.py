"""The models of an audit as a source of exact probabilities: on this machine, or one behind an endpoint."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from harness.audits.endpoint.params import ScoringParams
from harness.core.arrays import Floats, Tokens
from harness.core.audit import AuditContext
from harness.core.policy import Policy


class Likelihoods(Protocol):
    """Computes probabilities of given text under the models of an audit, by their number."""

    def exact_logprobs(
        self, model: int, prefixes: Tokens, suffixes: Tokens, policies: Sequence[Policy], *, least: float = 0.0
    ) -> Floats:
        """Return the log-probabilities of `suffixes` after `prefixes`, as `harness.audits.exact` does.

        An endpoint's rows are NaN if they cannot be measured, and whole in spite of `least`.
        """
        ...

    def batch_size(self, usual: int) -> int:
        """Return the number of rows that are committed together."""
        ...


class _LocalModels:
    def __init__(self, context: AuditContext) -> None:
        self._context = context

    def exact_logprobs(
        self, model: int, prefixes: Tokens, suffixes: Tokens, policies: Sequence[Policy], *, least: float = 0.0
    ) -> Floats:
        from harness.audits.exact import exact_logprobs  # loads torch

        return exact_logprobs(self._context.target(model), prefixes, suffixes, policies, least=least)

    def batch_size(self, usual: int) -> int:
        return usual


@contextmanager
def likelihoods(params: ScoringParams, context: AuditContext) -> Iterator[Likelihoods]:
    """Return the source of an audit's probabilities, and close its connection at the end."""
    if params.endpoint is None:
        yield _LocalModels(context)
        return
    from harness.audits.endpoint.served_model import served_model  # loads an HTTP client

    with served_model(params, context) as model:
        yield model
