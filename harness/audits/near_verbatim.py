"""A lower bound of the probability that a policy draws a suffix within a few edits of the given one.

A beam search keeps the likeliest partial suffixes that can still be within the allowed distance, and always the given
suffix itself. The suffixes that it completes are distinct, so the sum of their probabilities is a lower bound
(decoding-constrained beam search, Cooper et al. 2026).

This module loads torch, so an audit imports it only where a model is measured.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from harness.audits.branching import next_tokens
from harness.audits.edit_distance import Bands, characters, distances_within
from harness.audits.exact import exact_logprobs
from harness.audits.near_results import CHARACTER_EDITS, NearParams
from harness.audits.probabilities import log_esp
from harness.core.arrays import Bools, Floats, Ints, Tokens
from harness.core.policy import Policy
from harness.engine.branches import Placement, Predictor
from harness.engine.target import Target
from harness.engine.tree import assign_rows, begin_branches, prefix_groups, to_device

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_MOST_TEXTS = 64
"""Suffixes of a row, the likeliest first, whose distance in characters is computed."""


class NearSuffixes(NamedTuple):
    """Suffixes within the allowed distance of the given ones, ordered by row and then by probability.

    row: [found] int64. tokens: [found, length] int64. logprob: [found] float64. edits: [found] int64, the distance in
    tokens.
    """

    row: Ints
    tokens: Ints
    logprob: Floats
    edits: Ints

    def probability(self, rows: int, most: int, edits: Ints | None = None) -> Floats:
        """Return the summed probability of the suffixes of each row within 0, 1, … `most` edits, [rows, most + 1].

        edits: the distances to use, [found], by default those in tokens.
        """
        distance = self.edits if edits is None else edits
        summed = np.zeros((rows, most + 1))
        near = distance <= most
        np.add.at(summed, (self.row[near], distance[near]), np.exp(self.logprob[near]))
        return np.asarray(np.minimum(1.0, np.cumsum(summed, axis=1)))


def near_suffixes(
    target: Target, prefixes: Tokens, suffixes: Tokens, policy: Policy, *, edits: int = 5, beams: int = 16
) -> NearSuffixes:
    """Return likely suffixes within `edits` token edits of `suffixes` [rows, length] after `prefixes` [rows, any].

    beams: partial suffixes of a row that are followed at a time, besides the given one. Raises HarnessError as
    `Target.sample` does.
    """
    target.check_pairs(prefixes, suffixes)
    length = suffixes.shape[1]
    none = np.empty(0, np.int64)
    if len(prefixes) == 0:
        return NearSuffixes(none, np.empty((0, length), np.int64), np.empty(0), none)

    def find(rows_at_once: int) -> NearSuffixes:
        groups = prefix_groups(target.runner, prefixes, rows_at_once // (beams + 1))
        search = _Search(target.runner, policy, edits, beams)
        parts = [search.run(prefixes[group], suffixes[group].astype(np.int64), group.start) for group in groups]
        return NearSuffixes(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    return target.run_within_memory(find, minimum=beams + 1, purpose=f"{beams + 1} partial suffixes of one prefix")


def near_probabilities(
    target: Target,
    prefixes: Tokens,
    suffixes: Tokens,
    policy: Policy,
    params: NearParams,
    tokenizer: "Tokenizer | None",
) -> tuple[Floats, Floats]:
    """Return lower bounds of the probability of a suffix near the given one.

    The first result is [rows, edits + 1], within 0, 1, … token edits; the second one [rows, 3], within each number of
    `CHARACTER_EDITS` of the text, NaN without a tokenizer.
    """
    rows = len(prefixes)
    found = near_suffixes(target, prefixes, suffixes, policy, edits=params.edits, beams=params.beams)
    # The search and this pass round differently, and the bound is never to be below the verbatim probability.
    (logprobs,) = exact_logprobs(target, prefixes, suffixes, [policy])
    verbatim = np.exp(log_esp(logprobs))[:, None]
    by_tokens = np.maximum(found.probability(rows, params.edits), verbatim)
    if tokenizer is None:
        return by_tokens, np.full((rows, len(CHARACTER_EDITS)), np.nan)
    place = np.arange(len(found.row)) - np.searchsorted(found.row, np.arange(rows))[found.row]
    likely = np.flatnonzero(place < _MOST_TEXTS)
    some = NearSuffixes(found.row[likely], found.tokens[likely], found.logprob[likely], found.edits[likely])
    given = [characters(text) for text in tokenizer.decode_batch(suffixes.tolist(), skip_special_tokens=False)]
    texts = tokenizer.decode_batch(some.tokens.tolist(), skip_special_tokens=False)
    most = CHARACTER_EDITS[-1]
    distances = distances_within([characters(text) for text in texts], [given[row] for row in some.row], most)
    by_characters = some.probability(rows, most, distances)[:, list(CHARACTER_EDITS)]
    return by_tokens, np.maximum(by_characters, verbatim)


@dataclass
class _Alive:
    """The partial suffixes at one step. is_given: whether all tokens are those of the given suffix."""

    owner: Ints
    logprob: Floats
    is_given: Bools
    tokens: Ints
    bands: Bands


@dataclass(frozen=True)
class _Search:
    predictor: Predictor
    policy: Policy
    edits: int
    beams: int

    def run(self, prefixes: Tokens, suffixes: Ints, first_row: int) -> NearSuffixes:
        """Return the suffixes near the given ones, the first of which has the number `first_row`."""
        rows, length = suffixes.shape
        tokens = to_device(self.predictor, prefixes)
        states, branches, _ = begin_branches(self.predictor, tokens, room=max(1, length - 1), is_shared=True)
        alive = _Alive(
            np.arange(rows),
            np.zeros(rows),
            np.ones(rows, bool),
            np.empty((rows, 0), np.int64),
            Bands.empty(rows, self.edits),
        )
        for step in range(length):
            of_prefix = tokens[to_device(self.predictor, alive.owner)]
            found = next_tokens(
                self.predictor, states, of_prefix, alive.tokens, suffixes[alive.owner, step], self.policy
            )
            own = np.flatnonzero(~np.isneginf(found.own))
            parents = np.concatenate([own, found.parent])
            token = np.concatenate([suffixes[alive.owner[own], step], found.token])
            logprob = alive.logprob[parents] + np.concatenate([found.own[own], found.logprob])
            is_given = alive.is_given[parents] & (np.arange(len(parents)) < len(own))
            kept, bands = self._select(alive, suffixes, parents, token, logprob, is_given, is_last=step == length - 1)
            if step < length - 1:
                order = np.argsort(assign_rows(parents[kept]))
                kept, bands = kept[order], bands.part(order)
            parents, token = parents[kept], token[kept]
            alive = _Alive(
                alive.owner[parents],
                logprob[kept],
                is_given[kept],
                np.column_stack([alive.tokens[parents], token]),
                bands,
            )
            if not len(kept):
                break
            if step < length - 1:
                placement = Placement.of(parents, alive.owner, self.predictor.device)
                states = self.predictor.advance(branches, to_device(self.predictor, token), placement)
        order = np.lexsort((*alive.tokens.T[::-1], -alive.logprob, alive.owner))
        found_tokens = alive.tokens[order] if len(order) else np.empty((0, length), np.int64)
        return NearSuffixes(
            first_row + alive.owner[order], found_tokens, alive.logprob[order], alive.bands.of_equal_length[order]
        )

    def _select(
        self,
        alive: _Alive,
        suffixes: Ints,
        parents: Ints,
        token: Ints,
        logprob: Floats,
        is_given: Bools,
        *,
        is_last: bool,
    ) -> tuple[Ints, Bands]:
        """Return which children are followed, and their distances: those that may be near, the likeliest of each row.

        At the last step all that are near are kept.
        """
        owner = alive.owner[parents]
        bands = alive.bands.extended(parents, token, suffixes[owner])
        distance = bands.of_equal_length if is_last else bands.least
        near = np.flatnonzero(distance <= self.edits)
        if not is_last:
            order = near[np.lexsort((token[near], parents[near], -logprob[near], owner[near]))]
            of_row = owner[order]
            place = np.arange(len(order)) - np.searchsorted(of_row, np.arange(len(suffixes)))[of_row]
            near = order[(place < self.beams) | is_given[order]]
        return near, bands.part(near)
