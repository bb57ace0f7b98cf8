"""Estimate the probability that a long suffix is returned with one token substituted, from sampled substitutions."""

from dataclasses import dataclass

import numpy as np

from harness.audits.report import share_of
from harness.core.arrays import Floats, Ints


@dataclass(frozen=True)
class Plan:
    """The plan to estimate the probability of a long suffix with one token substituted.

    The probability that the first substitution is at a given position is known; only the continuation is sampled.
    certain: the probability of one substitution, at the last position. shared: that of a first substitution elsewhere.
    positions: [draws] int64, the position of each sampled substitution, empty if `shared` is 0.
    """

    certain: float
    shared: float
    positions: Ints


def plan_draws(token_logprobs: Floats, draws: int, generator: np.random.Generator) -> Plan:
    """Sample positions of the first substitution in a suffix of token_logprobs [length]."""
    before = np.concatenate([[0.0], np.cumsum(token_logprobs)[:-1]])
    first_wrong = np.exp(before) * -np.expm1(np.minimum(token_logprobs, 0))  # [length]
    elsewhere = first_wrong[:-1]
    shared = float(elsewhere.sum())
    if shared <= 0:
        return Plan(float(first_wrong[-1]), 0.0, np.empty(0, np.int64))
    positions = generator.choice(len(elsewhere), size=draws, p=elsewhere / shared)
    return Plan(float(first_wrong[-1]), shared, positions.astype(np.int64))


def estimate(plan: Plan, log_rest: Floats) -> tuple[float, float, float]:
    """Return the probability of exactly one substitution and its 95 % interval.

    log_rest: [draws] the log-probability that the suffix continues without another substitution after each sampled one.
    Wilson's (1927) interval of their mean is conservative for numbers in [0, 1], and its width is never 0.
    """
    total = float(np.exp(log_rest).sum())
    share = share_of(min(total, len(log_rest)), len(log_rest))
    value, low, high = (plan.certain + plan.shared * part for part in share[:3])
    return value, low, high
