"""The probability that a policy draws a suffix with a given number of substituted tokens, exactly or with a bound.

A partial suffix that the search does not follow can add at most its probability. The last position needs no search,
because every token other than the suffix's last one is a substitution.

This module loads torch, so the audit imports it only where a model is measured.
"""

import math
from typing import NamedTuple

import numpy as np

from harness.audits.beam import Beam, Ending, search_suffixes
from harness.audits.edit_distance import Substitutions
from harness.core.arrays import Floats, Ints, Tokens, place_among_equals
from harness.core.policy import Policy
from harness.engine.target import Target

_FOLLOW_ALL = 4096
"""If at most this many partial suffixes exist, all are followed."""
_EXPECTED = 64
"""The expected number of partial suffixes of a suffix at one step."""


class InexactMatches(NamedTuple):
    """Probabilities of suffixes with exactly 0, 1, … substitutions, and the likeliest such suffixes of each number.

    probability: [rows, errors + 1] float64, of the suffixes that were followed.
    bound: the same shape, an upper bound of the probability of the others.
    row: [matches] int64, matches: [matches, length] int64 and logprob: [matches] float64 hold the matches with at least
    one substitution, ordered by row and then by probability.
    """

    probability: Floats
    bound: Floats
    row: Ints
    matches: Ints
    logprob: Floats


def inexact_probabilities(
    target: Target,
    prefixes: Tokens,
    suffixes: Tokens,
    policy: Policy,
    *,
    errors: int = 2,
    branches: int = 256,
    min_probability: float = 1e-5,
    best: int = 8,
) -> InexactMatches:
    """Return how likely `policy` draws `suffixes` [rows, length] with exactly 0 … `errors` substituted tokens.

    The result is exact if top-k leaves few possibilities. Otherwise the `branches` likeliest partial suffixes of each
    suffix are followed, unless their probability is below `min_probability`, and `bound` limits what the others can
    add. Matches below `min_probability` are not returned either, because likelier ones may be missing. best: the
    maximum number of matches returned for each suffix and number of substitutions. Raises HarnessError as
    `Target.sample` does.
    """
    beam = Beam(branches, min_probability, has_bound=True)
    if count_partial_suffixes(policy, suffixes.shape[1], errors) <= _FOLLOW_ALL:
        beam = Beam(_FOLLOW_ALL, has_bound=True)
    parts = search_suffixes(
        target,
        prefixes,
        suffixes,
        policy,
        Substitutions(errors, np.zeros(1, np.int64)),
        beam,
        lambda ending: _matches_of(ending, suffixes.shape[1], best, beam.min_probability),
        expected=_EXPECTED,
        purpose="the substitutions of one suffix",
    )
    return InexactMatches(*parts)


def _matches_of(ending: Ending, length: int, best: int, min_probability: float) -> InexactMatches:
    """Return the probabilities of suffixes of `length` tokens, and the likeliest inexact ones.

    best: their maximum number for each row and number of substitutions. min_probability: that of each.
    """
    last, own_logprob = ending.last, ending.own_logprob
    wrong, errors = last.distances.of_equal_length, last.distances.limit
    probability = np.zeros_like(ending.bound)
    np.add.at(probability, (last.owner, wrong), np.exp(last.logprob + own_logprob))
    may_change = wrong < errors
    np.add.at(
        probability,
        (last.owner[may_change], wrong[may_change] + 1),
        np.exp(last.logprob[may_change]) * -np.expm1(np.minimum(own_logprob[may_change], 0)),
    )
    is_inexact = ending.complete.distances.of_equal_length > 0
    inexact = ending.complete.part(np.flatnonzero(is_inexact & (np.exp(ending.complete.logprob) >= min_probability)))
    order, _ = inexact.ranked(len(probability))
    row_and_errors = inexact.owner * (errors + 1) + inexact.distances.of_equal_length
    likeliest = inexact.part(order[place_among_equals(row_and_errors[order]) < best]).joined(last)
    tokens = likeliest.tokens.reshape(len(likeliest.owner), length)
    return InexactMatches(probability, ending.bound, ending.first_row + likeliest.owner, tokens, likeliest.logprob)


def count_partial_suffixes(policy: Policy, length: int, errors: int) -> float:
    """Return the number of partial suffixes of `length` - 1 tokens with at most `errors` substitutions.

    The number is infinite if the policy has no top-k.
    """
    if policy.top_k is None:
        return math.inf
    return sum(math.comb(length - 1, wrong) * float(policy.top_k - 1) ** wrong for wrong in range(errors + 1))
