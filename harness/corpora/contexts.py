"""The contexts from which a model completes sequences."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from harness.core.arrays import Ints, Tokens
from harness.core.files import atomic_file
from harness.corpora.sequences import Sequences
from harness.corpora.token_stream import TokenStream

Complete = Callable[[Tokens], Tokens]
"""Returns the greedy continuation [rows, suffix length] of contexts [rows, tokens]."""
MAX_CONTEXT = 450
_AT_ONCE = 512  # sequences


def contexts_for(prefix_length: int, max_tokens: int | None) -> tuple[int, ...]:
    """Return the contexts to try, ascending: 50, 100, 200 and 450 tokens for a prefix of 50.

    The last is 450 tokens or what the model can take.
    max_tokens: the tokens that it can take in addition to the suffix, None if that is unknown.
    """
    limit = MAX_CONTEXT if max_tokens is None else min(MAX_CONTEXT, max_tokens)
    lengths = {prefix_length, 2 * prefix_length, 4 * prefix_length, limit}
    return tuple(sorted(length for length in lengths if length == prefix_length or prefix_length < length <= limit))


class ContextFinder:
    """Finds the shortest of some contexts for sequences. Results are kept in a file, so no model call is repeated."""

    def __init__(
        self, stream: TokenStream, prefix_length: int, contexts: tuple[int, ...], complete: Complete, file: Path
    ) -> None:
        """contexts: their numbers of tokens, ascending, at least `prefix_length`."""
        self.contexts = contexts
        self._stream, self._prefix_length, self._complete, self._file = stream, prefix_length, complete, file
        table = np.load(file, allow_pickle=False) if file.exists() else np.empty((0, 2), np.int64)
        self._context_at: dict[int, int] = dict(table.tolist())

    def shortest(self, sequences: Sequences, on_progress: Callable[[int, int], None]) -> Ints:
        """Return the shortest context of each sequence, [sequences]; 0 if no context is enough.

        on_progress: called with the number of sequences that were tried, and that of all.
        """
        unknown = np.flatnonzero([position not in self._context_at for position in sequences.positions.tolist()])
        for first in range(0, len(unknown), _AT_ONCE):
            part = sequences.select(unknown[first : first + _AT_ONCE])
            self._context_at |= dict(zip(part.positions.tolist(), self._find(part).tolist(), strict=True))
            with atomic_file(self._file) as file:
                np.save(file, np.array(list(self._context_at.items()), np.int64), allow_pickle=False)
            on_progress(first + len(part.positions), len(unknown))
        return np.array([self._context_at[position] for position in sequences.positions.tolist()], np.int64)

    def _find(self, sequences: Sequences) -> Ints:
        counts = np.zeros(len(sequences.positions), np.int64)
        suffixes = sequences.tokens[:, self._prefix_length :]
        for length in self.contexts:
            starts = sequences.positions + self._prefix_length - length
            open_ = np.flatnonzero((counts == 0) & (starts >= 0))
            contexts = self._stream.rows(starts[open_], length)
            is_inside = (contexts != self._stream.separator).all(axis=1)
            open_, contexts = open_[is_inside], contexts[is_inside]
            if len(open_):
                is_right = (self._complete(contexts) == suffixes[open_]).all(axis=1)
                counts[open_[is_right]] = length
        return counts
