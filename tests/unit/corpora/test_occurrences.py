"""Spans and windows of a sequence in a corpus, compared with a search of every part of it."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from harness.core.arrays import Tokens
from harness.corpora.occurrences import Place, Span, found_runs, longest_span, occurrences_of


class PlainIndex:
    """Searches every document at every position. queries: the number of calls of `count`."""

    def __init__(self, documents: Sequence[Sequence[int]]) -> None:
        self._documents = [list(document) for document in documents]
        self.queries = 0

    def find(self, tokens: Tokens, most: int) -> list[Place]:
        wanted = tokens.tolist()
        places = [
            Place(0, number, position)
            for number, document in enumerate(self._documents)
            for position in range(len(document) - len(wanted) + 1)
            if document[position : position + len(wanted)] == wanted
        ]
        return places[:most]

    def count(self, tokens: Tokens) -> int:
        self.queries += 1
        return len(self.find(tokens, most=1 << 30))


tokens = st.lists(st.integers(0, 2), max_size=24)


@given(documents=st.lists(tokens, max_size=4), generation=tokens, min_tokens=st.integers(1, 8))
def test_spans_and_windows_are_those_of_a_search_of_every_part(
    documents: list[list[int]], generation: list[int], min_tokens: int
) -> None:
    index, sequence = PlainIndex(documents), np.array(generation, np.int64)
    length = len(sequence)
    parts = [
        Span(start, size)
        for size in range(length, 0, -1)
        for start in range(length - size + 1)
        if index.count(sequence[start : start + size])
    ]
    found = occurrences_of(index, sequence, min_tokens=min_tokens)
    assert found.longest == longest_span(index, sequence)
    assert found.longest.length == (parts[0].length if parts else 0)
    assert not parts or found.longest == parts[0]
    assert found.windows == [part.start for part in parts if part.length == min_tokens]
    assert found.count == (index.count(sequence) if length else 0)
    assert list(found.runs) == found_runs(index, sequence, min_tokens=min_tokens)


def test_the_longest_span_may_lie_between_two_runs_of_windows() -> None:
    index = PlainIndex([[1, 2, 3, 4], [3, 4, 5, 6, 7], [0, 2, 3, 4, 5, 6]])
    sequence = np.array([1, 2, 3, 4, 5, 6, 7])
    found = occurrences_of(index, sequence, min_tokens=4)
    assert found.longest == Span(1, 5)
    assert found.windows == [0, 1, 2, 3]


def test_a_generation_that_is_whole_in_the_corpus_takes_one_query() -> None:
    generation = np.arange(200)
    index = PlainIndex([range(300)])
    assert occurrences_of(index, generation, min_tokens=50).count == 1
    assert index.queries == 1


def test_text_that_is_not_in_the_corpus_takes_few_queries() -> None:
    generator = np.random.default_rng(0)
    index = PlainIndex([generator.integers(0, 400, 2_000).tolist()])
    assert found_runs(index, generator.integers(0, 400, 500), min_tokens=50) == []
    # A search at every start would take 451 queries.
    assert 10 <= index.queries <= 60
