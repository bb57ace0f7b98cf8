"""The measurement of the suffixes of pairs, token by token, which the leakage audit and the comparison share."""

from collections.abc import Mapping

import numpy as np

from harness.audits.leakage.pairs import Pairs
from harness.audits.likelihoods import Likelihoods
from harness.audits.probabilities import SCHEMES, Scheme
from harness.audits.stage import Stage
from harness.core.arrays import Floats, Ints
from harness.core.audit import AuditContext, last_rows
from harness.core.policy import Policy
from harness.core.rows import Kind, Rows, table

MODELS = table("model", model=Kind.INTEGER, parameters=Kind.INTEGER)
TOKENS = table(
    "token",
    model=Kind.INTEGER,
    prefix_length=Kind.INTEGER,
    sequence=Kind.INTEGER,
    **{scheme.value: Kind.REALS for scheme in SCHEMES},
)
"""A sequence after a prefix: the log-probability of each suffix token under each scheme, NaN if it is not measured."""
_SEQUENCES = 64  # per batch


def stage_of_tokens(model: int, length: int) -> str:
    """Return the name of the stage that measures a model after prefixes of `length` tokens."""
    return f"model {model + 1}, {length} tokens"


def measure_tokens(
    context: AuditContext,
    source: Likelihoods,
    pairs: Pairs,
    policies: Mapping[Scheme, Policy],
    model: int,
    length: int,
) -> None:
    """Measure and emit the suffixes of all pairs under a model, after the last `length` tokens of their prefixes."""
    done = last_rows(context.rows(TOKENS.name), model=model, prefix_length=length)["sequence"]
    stage = Stage(
        stage_of_tokens(model, length),
        len(pairs),
        lambda sequences: (pairs.prefixes[sequences, -length:], pairs.suffixes[sequences]),
        size=_SEQUENCES,
        done=done,
    )
    for sequences, logprobs in source.exact_logprobs(model, stage, list(policies.values())):
        # An endpoint has no parameters to count.
        if sequences[0] == 0 and source.is_local:
            context.emit(MODELS.name, model=model, parameters=context.target(model).model.num_parameters())
        emit_tokens(context, dict(zip(policies, logprobs, strict=True)), model, length, sequences)


def emit_tokens(
    context: AuditContext, logprobs: Mapping[Scheme, Floats], model: int, length: int, sequences: Ints
) -> None:
    """Emit the log-probabilities of n suffixes, [n, tokens] under each scheme."""
    (first, *_) = logprobs.values()
    columns = {scheme.value: logprobs.get(scheme, np.full(first.shape, np.nan)) for scheme in SCHEMES}
    context.emit(TOKENS.name, model=model, prefix_length=length, sequence=sequences, **columns)


def tokens_by_sequence(tokens: Rows, model: int, length: int, schemes: tuple[Scheme, ...]) -> tuple[Ints, Floats]:
    """Return the measured sequences of a setting, [n] ascending, and their log-probabilities, [schemes, n, length].

    If a sequence has several rows, the last one counts.
    """
    rows = last_rows(tokens, "sequence", model=model, prefix_length=length)
    return rows["sequence"], np.array([rows[scheme.value] for scheme in schemes])
