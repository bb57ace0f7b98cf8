"""Separate the sequences of a round into training and attacked ones, so that no split gives another one away."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Ints, Tokens
from harness.core.windows import cluster_ids


def without_overlaps(positions: Ints, length: int) -> Ints:
    """Return the numbers of the sequences that overlap no earlier one in the stream, in their order.

    positions: [sequences], where each begins. length: the number of tokens of each.
    """
    taken: dict[int, int] = {}
    kept = []
    for number, position in enumerate(positions.tolist()):
        place = position // length
        # Two sequences in one block overlap. Those in neighboring blocks may.
        near = (taken.get(place + step) for step in (-1, 0, 1))
        if all(other is None or abs(other - position) >= length for other in near):
            taken[place] = position
            kept.append(number)
    return np.array(kept, np.int64)


def stratum_of(copies: Ints, strata: Sequence[int]) -> Ints:
    """Return the stratum of each number of copies, [sequences]; -1 if it is below the first.

    strata: the least number of copies of each stratum, ascending.
    """
    return np.searchsorted(np.array(strata), copies, side="right") - 1


@dataclass(frozen=True)
class Assignment:
    """The sequences of each split.

    splits: their numbers, by name. clusters: [sequences], of all sequences. lacking: the strata of which a split has
    too few.
    """

    splits: Mapping[str, Ints]
    clusters: Ints
    lacking: frozenset[int]


def assign_splits(tokens: Tokens, stratum: Ints, strata: int, sizes: Mapping[str, int], window: int) -> Assignment:
    """Assign sequences to splits, so that those that share `window` tokens are in one split.

    tokens: [sequences, tokens]. stratum: [sequences], of `strata`; each split has the same number of sequences from
    each stratum, and one more from the first strata if the number is not divisible. sizes: the wanted number by name.
    An unused cluster goes to the split that lacks the largest part of its size.
    """
    clusters = cluster_ids([tokens], window)
    room = {name: [(size + strata - 1 - layer) // strata for layer in range(strata)] for name, size in sizes.items()}
    found: dict[str, list[int]] = {name: [] for name in sizes}
    split_of_cluster: dict[int, str] = {}
    for number, (cluster, layer) in enumerate(zip(clusters.tolist(), stratum.tolist(), strict=True)):
        split = split_of_cluster.get(cluster)
        if split is None:
            _, split = max((room[name][layer] / size, name) for name, size in sizes.items())
        if room[split][layer] > 0:
            split_of_cluster[cluster] = split
            room[split][layer] -= 1
            found[split].append(number)
    lacking = frozenset(layer for layers in room.values() for layer, count in enumerate(layers) if count)
    return Assignment({name: np.array(numbers, np.int64) for name, numbers in found.items()}, clusters, lacking)
