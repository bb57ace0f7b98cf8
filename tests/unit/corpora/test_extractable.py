"""The shortest context from which a model completes a sequence."""

from pathlib import Path

import numpy as np

from harness.core.arrays import Tokens
from harness.corpora.sequences import ContextFinder, Sequences, contexts_for
from tests.unit.corpora.streams import stream_of


def test_contexts_are_multiples_of_the_prefix() -> None:
    assert contexts_for(50, None) == (50, 100, 200, 450)
    assert contexts_for(50, 206) == (50, 100, 200, 206)
    assert contexts_for(100, None) == (100, 200, 400, 450)
    assert contexts_for(50, 10) == (50,)
    assert contexts_for(500, None) == (500,)


def test_the_shortest_context_is_found_once(tmp_path: Path) -> None:
    # The suffix at position p follows from a context of more than p // 10 tokens.
    document = list(range(80))
    stream = stream_of(tmp_path / "stream", [[90] * 3, document])
    calls: list[int] = []

    def complete(contexts: Tokens) -> Tokens:
        calls.append(len(contexts))
        last = contexts[:, -1:].astype(np.int64)
        knows = contexts.shape[1] > last // 10
        return np.where(knows, last + 1 + np.arange(2), 99)

    begins = np.array([0, 17, 30, 45, 74])
    rows = np.array([document[begin : begin + 5] for begin in begins])
    first_in_stream = 4
    nothing = np.zeros(len(rows), np.int64)
    sequences = Sequences(rows, begins + first_in_stream, nothing, nothing)
    shown: list[tuple[int, int]] = []

    def find() -> list[int]:
        finder = ContextFinder(stream, 3, contexts_for(3, 6), complete, tmp_path / "contexts.npy")
        return finder.shortest(sequences, lambda done, total: shown.append((done, total))).tolist()

    # The first has no longer context in its document, and the last would need eight tokens.
    assert find() == [3, 3, 6, 6, 0] and shown == [(5, 5)]
    assert calls == [5, 3]
    assert find() == [3, 3, 6, 6, 0] and len(calls) == 2 and len(shown) == 1
