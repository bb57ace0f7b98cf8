"""The search for suffixes within a few edits of the given ones, and lower bounds of their probability.

The search always follows the given suffix, too. The suffixes that it completes are distinct, so the sum of their
probabilities is a lower bound (decoding-constrained beam search, Cooper et al. 2026).

This module loads torch, so an audit imports it only where a model is measured.
"""

from typing import NamedTuple

import numpy as np

from harness.audits.beam import Beam, Ending, search_suffixes
from harness.audits.edit_distance import Bands, characters, distances_within
from harness.audits.exact import exact_logprobs
from harness.audits.near_params import CHARACTER_EDITS, NearParams
from harness.audits.probabilities import log_esp
from harness.core.arrays import Floats, Ints, Tokens
from harness.core.policy import Policy
from harness.core.tokenizers import Tokenizer
from harness.engine.target import Target

_MAX_TEXTS = 64
"""Suffixes of a row, the likeliest first, whose distance in characters is computed."""


class NearSuffixes(NamedTuple):
    """Suffixes within the allowed distance of the given ones, ordered by row and then by probability.

    row: [found] int64.
    tokens: [found, length] int64.
    logprob: [found] float64.
    edits: [found] int64, the distance in tokens.
    """

    row: Ints
    tokens: Ints
    logprob: Floats
    edits: Ints

    def probability(self, rows: int, max_edits: int, edits: Ints | None = None) -> Floats:
        """Return the summed probability of the suffixes of each row within 0, 1, … edits, [rows, max_edits + 1].

        edits: the distances to use, [found], by default those in tokens.
        """
        distance = self.edits if edits is None else edits
        summed = np.zeros((rows, max_edits + 1))
        near = distance <= max_edits
        np.add.at(summed, (self.row[near], distance[near]), np.exp(self.logprob[near]))
        return np.asarray(np.minimum(1.0, np.cumsum(summed, axis=1)))


def near_suffixes(
    target: Target, prefixes: Tokens, suffixes: Tokens, policy: Policy, *, edits: int = 5, beams: int = 16
) -> NearSuffixes:
    """Return likely suffixes within `edits` token edits of `suffixes` [rows, length] after `prefixes` [rows, any].

    beams: partial suffixes of a row that are followed at a time, besides the given one. Raises HarnessError as
    `Target.sample` does.
    """
    parts = search_suffixes(
        target,
        prefixes,
        suffixes,
        policy,
        Bands.empty(1, edits),
        Beam(beams, keeps_given=True),
        lambda ending: _near_of(ending, suffixes.shape[1]),
        expected=beams + 1,
        minimum=beams + 1,
        purpose=f"{beams + 1} partial suffixes of one prefix",
    )
    return NearSuffixes(*parts)


def near_probabilities(
    target: Target,
    prefixes: Tokens,
    suffixes: Tokens,
    policy: Policy,
    params: NearParams,
    tokenizer: Tokenizer | None,
) -> tuple[Floats, Floats]:
    """Return lower bounds of the probability of a suffix near the given one.

    The first result is [rows, edits + 1], within 0, 1, … token edits; the second one [rows, 3], within each number of
    `CHARACTER_EDITS` of the text, NaN without a tokenizer.
    """
    rows = len(prefixes)
    near = near_suffixes(target, prefixes, suffixes, policy, edits=params.edits, beams=params.beams)
    # The search and this pass round differently, and the bound is never to be below the verbatim probability.
    (logprobs,) = exact_logprobs(target, prefixes, suffixes, [policy])
    verbatim = np.exp(log_esp(logprobs))[:, None]
    by_tokens = np.maximum(near.probability(rows, params.edits), verbatim)
    if tokenizer is None:
        return by_tokens, np.full((rows, len(CHARACTER_EDITS)), np.nan)
    place = np.arange(len(near.row)) - np.searchsorted(near.row, np.arange(rows))[near.row]
    likely = np.flatnonzero(place < _MAX_TEXTS)
    likeliest = NearSuffixes(near.row[likely], near.tokens[likely], near.logprob[likely], near.edits[likely])
    originals = [characters(text) for text in tokenizer.decode_batch(suffixes.tolist(), skip_special_tokens=False)]
    texts = tokenizer.decode_batch(likeliest.tokens.tolist(), skip_special_tokens=False)
    max_edits = CHARACTER_EDITS[-1]
    distances = distances_within(
        [characters(text) for text in texts], [originals[row] for row in likeliest.row], max_edits
    )
    by_characters = likeliest.probability(rows, max_edits, distances)[:, list(CHARACTER_EDITS)]
    return by_tokens, np.maximum(by_characters, verbatim)


def _near_of(ending: Ending, length: int) -> NearSuffixes:
    """Return the complete suffixes of `length` tokens within the allowed distance."""
    distances = ending.complete.distances
    near = ending.complete.part(np.flatnonzero(distances.of_equal_length <= distances.limit)).joined(ending.last)
    order = np.lexsort((*near.tokens.T[::-1], -near.logprob, near.owner))
    return NearSuffixes(
        ending.first_row + near.owner[order],
        near.tokens[order].reshape(len(order), length),
        near.logprob[order],
        near.distances.of_equal_length[order],
    )
