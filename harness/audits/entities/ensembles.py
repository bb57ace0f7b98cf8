"""Combine prompts: five ensembles, and baselines that need no search."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from harness.audits.entities.measurements import Half, Measurements
from harness.audits.entities.prompt import HAND_WRITTEN
from harness.audits.entities.ranking import PairScore, count_votes, majority_vote
from harness.core.errors import HarnessError


def pair_votes(measured: Measurements, half: Half) -> NDArray[np.uint16]:
    """Return how many of the used prompts each pair of `half` wins, [inside, outside].

    Raises HarnessError for more than 65,535 prompts.
    """
    if len(measured.used) > np.iinfo(np.uint16).max:
        raise HarnessError(f"the majority vote takes at most 65,535 prompts, not {len(measured.used):,}.")
    sides = (half.sides(confidences) for confidences in measured.used_confidences)
    return count_votes(sides, len(half.inside), len(half.outside))


def ensembles(measured: Measurements, half: Half, votes: NDArray[np.uint16]) -> Iterator[tuple[str, PairScore]]:
    """Yield the name and the score in `half` of each ensemble of the used prompts. votes: their votes on each pair.

    Majority vote on each pair; and the average, the average weighted by M-MEM in the dev half, the maximum and the
    minimum of the confidences (Xia et al. 2024).
    """
    confidences = measured.used_confidences
    weights = measured.dev_m_mem if measured.dev_m_mem.any() else np.ones(len(confidences))
    yield "majority vote", majority_vote(votes, len(confidences))
    yield "average", half.score(confidences.mean(axis=0))
    yield "weighted average", half.score(np.average(confidences, axis=0, weights=weights))
    yield "maximum", half.score(confidences.max(axis=0))
    yield "minimum", half.score(confidences.min(axis=0))


def baselines(measured: Measurements, half: Half) -> Iterator[tuple[str, PairScore]]:
    """Yield the name and the score in `half` of the name alone and of hand-written prompts, if they are used."""
    first, alone = measured.given, measured.given + len(HAND_WRITTEN)
    if measured.uses_prompt[alone]:
        yield "name alone", half.score(measured.confidences[alone])
    if measured.uses_prompt[first]:
        yield "one hand-written prompt", half.score(measured.confidences[first])
    if measured.uses_prompt[first:alone].all():
        hand_written = measured.confidences[first:alone]
        names = np.arange(hand_written.shape[1])
        generator = np.random.default_rng([int(measured.inputs.arrays["seed"]), 3])
        choice = generator.integers(len(hand_written), size=len(names))
        yield "a random hand-written prompt a name", half.score(hand_written[choice, names])
