"""Edit distances (Levenshtein 1966): of two sequences, and of growing sequences to a given one within a limit."""

from collections.abc import Sequence

import numpy as np

from harness.core.arrays import Ints, padded


def edit_distance(first: Ints, second: Ints) -> int:
    """Return the fewest insertions, deletions and substitutions that turn first [n] into second [m]."""
    places = np.arange(len(second) + 1)
    row = places
    for number in first:
        without_insertion = np.minimum(row[1:] + 1, row[:-1] + (second != number))
        head = np.concatenate([[row[0] + 1], without_insertion])
        # A run of insertions costs 1 each: the minimum of all cells before, each plus its distance.
        row = np.minimum.accumulate(head - places) + places
    return int(row[-1])


def characters(text: str) -> Ints:
    """Return the code points of a text, [characters]."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.int64)


def numbered_words(*texts: Sequence[str]) -> list[Ints]:
    """Return each text of words as numbers, equal for equal words."""
    numbers: dict[str, int] = {}
    return [np.array([numbers.setdefault(word, len(numbers)) for word in text], np.int64) for text in texts]


class Substitutions:
    """The numbers of substituted tokens, [sequences], after `length` tokens."""

    def __init__(self, limit: int, counts: Ints, length: int = 0) -> None:
        self.limit, self.counts, self.length = limit, counts, length

    def extended(self, parents: Ints, tokens: Ints, originals: Ints) -> "Substitutions":
        """Return the numbers after one more token. The arguments are those of `Bands.extended`."""
        return Substitutions(self.limit, self.counts[parents] + (tokens != originals[:, self.length]), self.length + 1)

    def part(self, sequences: Ints) -> "Substitutions":
        """Return the numbers of some sequences."""
        return Substitutions(self.limit, self.counts[sequences], self.length)

    @property
    def minimum(self) -> Ints:
        """The substitutions so far, [sequences]."""
        return self.counts

    @property
    def minimum_after_unknown(self) -> Ints:
        """One substitution more, [sequences]."""
        return self.counts + 1

    @property
    def of_equal_length(self) -> Ints:
        """The substitutions so far, [sequences]."""
        return self.counts


class Bands:
    """Rows of the table of edit distances between growing sequences and the given ones, as far as they can matter.

    After t tokens of a sequence, costs [sequences, 2 * limit + 1] hold its distances to the first t - limit, … and
    t + limit tokens of its given sequence. Distances above `limit` count as limit + 1.
    """

    def __init__(self, limit: int, costs: Ints, length: int) -> None:
        self.limit, self.costs, self.length = limit, costs, length

    @classmethod
    def empty(cls, sequences: int, limit: int) -> "Bands":
        """Return the rows of `sequences` without tokens."""
        first = np.arange(-limit, limit + 1)
        row = np.where(first < 0, limit + 1, first)
        return cls(limit, np.tile(row, (sequences, 1)), 0)

    def extended(self, parents: Ints, tokens: Ints, originals: Ints) -> "Bands":
        """Return the rows after one more token.

        parents: [new], the sequence that each extends.
        tokens: [new].
        originals: [new, length], the sequences that they are compared with.
        """
        before = self.costs[parents]
        new = np.full_like(before, self.limit + 1)
        for column in range(2 * self.limit + 1):
            # The number of tokens of the given sequence that this column stands for.
            place = self.length + 1 + column - self.limit
            if place < 0 or place > originals.shape[1]:
                continue
            # Delete the new token; or pair it with the given one; or insert the given one.
            costs = before[:, column + 1] + 1 if column < 2 * self.limit else np.full(len(tokens), self.limit + 1)
            if place > 0:
                costs = np.minimum(costs, before[:, column] + (originals[:, place - 1] != tokens))
                if column:
                    costs = np.minimum(costs, new[:, column - 1] + 1)
            new[:, column] = np.minimum(costs, self.limit + 1)
        return Bands(self.limit, new, self.length + 1)

    def part(self, sequences: Ints) -> "Bands":
        """Return the rows of some sequences."""
        return Bands(self.limit, self.costs[sequences], self.length)

    @property
    def minimum(self) -> Ints:
        """The smallest distance that each sequence can still have, [sequences]."""
        return np.asarray(self.costs.min(axis=1))

    @property
    def minimum_after_unknown(self) -> Ints:
        """The smallest distance that each sequence can still have: the token may be a later one of the given ones."""
        return self.minimum

    @property
    def of_equal_length(self) -> Ints:
        """The distance of each sequence to as many tokens of its original, [sequences]."""
        return np.asarray(self.costs[:, self.limit])


Distances = Bands | Substitutions
"""The distances of growing sequences to their given ones, as far as they are at most a limit."""


def distances_within(sequences: Sequence[Ints], originals: Sequence[Ints], limit: int) -> Ints:
    """Return the distance of each sequence to its original, [sequences]; `limit` + 1 for all larger ones."""
    lengths, original_lengths = (np.array(list(map(len, part)), np.int64) for part in (sequences, originals))
    tokens, original_tokens = padded(sequences, -1), padded(originals, -2)
    column = original_lengths - lengths + limit
    is_possible = (column >= 0) & (column <= 2 * limit)
    distances = np.full(len(lengths), limit + 1)
    bands, everyone = Bands.empty(len(lengths), limit), np.arange(len(lengths))
    for length in range(tokens.shape[1] + 1):
        if length:
            bands = bands.extended(everyone, tokens[:, length - 1], original_tokens)
        ended = np.flatnonzero(is_possible & (lengths == length))
        distances[ended] = bands.costs[ended, column[ended]]
    return distances
