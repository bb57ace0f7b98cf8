"""The probability that a policy draws a suffix with a given number of substituted tokens, exactly or with a bound.

A partial suffix that the search does not follow can add at most its probability. The last position needs no search,
because every token other than the suffix's last one is a substitution. For long suffixes the probability of one
substitution is estimated from sampled ones.

This module loads torch, so the audit imports it only where a model is measured.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from harness.audits.beam import Beam, BeamSearch, Ending
from harness.audits.edit_distance import Substitutions
from harness.audits.report import share_of
from harness.core.arrays import Floats, Ints, Tokens
from harness.core.policy import Policy, PrefixView
from harness.engine.model_runner import ModelRunner
from harness.engine.shaping import apply_policy, sample_tokens
from harness.engine.target import Target
from harness.engine.tree import prefix_groups, to_device

_FOLLOW_ALL = 4096
"""If at most this many partial suffixes exist, all are followed."""
_EXPECTED = 64
"""The expected number of partial suffixes of a suffix at one step."""


class InexactMatches(NamedTuple):
    """Probabilities of suffixes with exactly 0, 1, … substitutions, and the likeliest such suffixes.

    probability: [rows, errors + 1] float64, of the suffixes that were followed. bound: the same shape, an upper bound
    of the probability of the others. row: [matches] int64, matches: [matches, length] int64 and logprob: [matches]
    float64 hold the matches with at least one substitution, ordered by row and then by probability.
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
    least: float = 1e-5,
    best: int = 8,
) -> InexactMatches:
    """Return how likely `policy` draws `suffixes` [rows, length] with exactly 0 … `errors` substituted tokens.

    The result is exact if top-k leaves few possibilities. Otherwise the `branches` likeliest partial suffixes of each
    suffix are followed, unless their probability is below `least`, and `bound` limits what the others can add. best:
    the maximum number of inexact matches returned for each suffix. Raises HarnessError as `Target.sample` does.
    """
    target.check_pairs(prefixes, suffixes)
    length = suffixes.shape[1]
    if len(prefixes) == 0:
        none = np.empty((0, errors + 1))
        return InexactMatches(none, none, np.empty(0, np.int64), np.empty((0, length), np.int64), np.empty(0))
    beam = Beam(branches, least, has_bound=True)
    if count_partial_suffixes(policy, length, errors) <= _FOLLOW_ALL:
        beam = Beam(_FOLLOW_ALL, has_bound=True)
    start = Substitutions(errors, np.zeros(1, np.int64))

    def search(rows_at_once: int) -> InexactMatches:
        beam_search = BeamSearch(target.runner, policy, start, beam, rows_at_once)
        endings = [
            ending
            for group in prefix_groups(target.runner, prefixes, rows_at_once // _EXPECTED)
            for ending in beam_search.run(prefixes[group], suffixes[group].astype(np.int64), group.start)
        ]
        parts = [_matches_of(ending, length, best) for ending in endings]
        return InexactMatches(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    return target.run_within_memory(search, purpose="the substitutions of one suffix")


def _matches_of(ending: Ending, length: int, best: int) -> InexactMatches:
    """Return the probabilities of suffixes of `length` tokens, and the `best` likeliest inexact ones of each row."""
    last, own = ending.last, ending.own
    wrong, errors = last.distances.of_equal_length, last.distances.limit
    probability = np.zeros_like(ending.bound)
    np.add.at(probability, (last.owner, wrong), np.exp(last.logprob + own))
    may_change = wrong < errors
    np.add.at(
        probability,
        (last.owner[may_change], wrong[may_change] + 1),
        np.exp(last.logprob[may_change]) * -np.expm1(np.minimum(own[may_change], 0)),
    )
    inexact = ending.complete.part(np.flatnonzero(ending.complete.distances.of_equal_length > 0))
    order, place = inexact.ranked(len(probability))
    likeliest = inexact.part(order[place < best]).joined(last)
    tokens = likeliest.tokens.reshape(len(likeliest.owner), length)
    return InexactMatches(probability, ending.bound, ending.first_row + likeliest.owner, tokens, likeliest.logprob)


def count_partial_suffixes(policy: Policy, length: int, errors: int) -> float:
    """Return the number of partial suffixes of `length` - 1 tokens with at most `errors` substitutions.

    The number is infinite if the policy has no top-k.
    """
    if policy.top_k is None:
        return math.inf
    return sum(math.comb(length - 1, wrong) * float(policy.top_k - 1) ** wrong for wrong in range(errors + 1))


def draw_substitutes(
    target: Target, prefixes: Tokens, suffixes: Tokens, positions: Ints, uniform: Floats, policy: Policy
) -> Ints:
    """Draw tokens from `policy` at `positions` [rows, draws] that differ from the suffixes' own tokens, [rows, draws].

    uniform: [rows, draws] in [0, 1), the only source of randomness. The policy must give some other token a positive
    probability there. Raises HarnessError as `Target.sample` does.
    """
    target.check_pairs(prefixes, suffixes)
    return target.run_within_memory(
        lambda rows_at_once: _draw_substitutes(
            target.runner, prefixes, suffixes, positions, uniform, policy, rows_at_once=rows_at_once
        )
    )


def _draw_substitutes(
    runner: ModelRunner,
    prefixes: Tokens,
    suffixes: Tokens,
    positions: Ints,
    uniform: Floats,
    policy: Policy,
    *,
    rows_at_once: int,
) -> Ints:
    taken = np.empty(positions.shape, np.int64)
    length = suffixes.shape[1]
    if runner.head is None:
        rows_at_once = min(rows_at_once, max(1, runner.logit_bytes // (4 * runner.vocabulary * length)))
    for part in prefix_groups(runner, prefixes, rows_at_once, further=length):
        whole = np.concatenate([prefixes[part], suffixes[part]], axis=1)
        tokens = to_device(runner, whole)  # [rows, prefix length + length]
        shown, _ = runner.shown(tokens[:, :-1], PrefixView())
        states = runner.states(shown, keep=length)  # [rows, length, width]
        places = torch.as_tensor(positions[part], device=runner.device)  # [rows, draws]
        rows, draws = places.shape
        of_draw = torch.arange(rows, device=runner.device).repeat_interleave(draws)
        ends = places.reshape(-1) + prefixes.shape[1]  # [rows * draws]
        own = tokens[of_draw, ends]
        chances = torch.as_tensor(uniform[part].reshape(-1), dtype=torch.float64, device=runner.device)
        found = torch.empty_like(own)
        for logits in runner.logit_blocks(states[of_draw, places.reshape(-1)]):
            if policy.repetition_penalty != 1:
                columns = torch.arange(tokens.shape[1], device=runner.device)
                seen = torch.where(columns < ends[logits.rows].unsqueeze(1), columns, 0)
                support = apply_policy(logits.scores, policy, tokens[of_draw[logits.rows]].gather(1, seen))
            else:
                support = apply_policy(logits.scores, policy)
            ids = support.ids
            columns = torch.arange(support.logprobs.shape[1], device=runner.device)
            is_own = (columns if ids is None else ids) == own[logits.rows].unsqueeze(1)
            others = type(support)(ids, support.logprobs.masked_fill(is_own, -math.inf))
            row = torch.arange(len(support.logprobs), device=runner.device)
            found[logits.rows], _ = sample_tokens(others, row, chances[logits.rows])
        taken[part] = found.view(rows, draws).cpu().numpy()
    return taken


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
