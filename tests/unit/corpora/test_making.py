"""Sequences that are drawn from a corpus, and the shortest context from which a model completes one."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from harness.core.arrays import Tokens
from harness.corpora import making, sequences, token_stream
from harness.corpora.contexts import ContextFinder, contexts_for
from harness.corpora.making import (
    Examples,
    Filters,
    Rules,
    assign_splits,
    copies_itself,
    draw_examples,
    stratum_of,
    token_statistics,
    trivial_sequences,
    without_overlaps,
)
from harness.corpora.sequences import Prefixes, Sequences, draw_prefixes
from harness.corpora.token_stream import TokenStream
from tests.unit.corpora.streams import stream_of


def continuations(
    documents: Sequence[Sequence[int]], prefix: int, suffix: int
) -> dict[tuple[int, ...], Counter[tuple[int, ...]]]:
    """Return the continuations of each prefix and their counts; one that the document cuts off is shorter."""
    found: dict[tuple[int, ...], Counter[tuple[int, ...]]] = {}
    for document in documents:
        for start in range(len(document) - prefix + 1):
            end = start + prefix
            found.setdefault(tuple(document[start:end]), Counter())[tuple(document[end : end + suffix])] += 1
    return found


def drawn(stream: TokenStream, between: tuple[float, float] = (0, 1), seed: int = 0) -> Prefixes:
    return draw_prefixes(stream, 3, 2, between=between, seed=seed, on_progress=lambda tokens: None)


def as_dict(stream: TokenStream, found: Prefixes) -> dict[tuple[int, ...], tuple[int, bool]]:
    """Return the copies of each prefix, and whether it has several continuations."""
    rows = stream.rows(found.positions, 3).tolist()
    return {
        tuple(row): (count, several)
        for row, count, several in zip(rows, found.copies.tolist(), found.is_ambiguous.tolist(), strict=True)
    }


@pytest.mark.parametrize("alphabet", [2, 3, 6, 50])
def test_all_prefixes_are_found_with_their_continuations(tmp_path: Path, alphabet: int) -> None:
    random = np.random.default_rng(alphabet)
    documents = [random.integers(0, alphabet, random.integers(0, 30)).tolist() for _ in range(60)]
    stream = stream_of(tmp_path, documents)
    wanted = {prefix: (sum(ends.values()), len(ends) > 1) for prefix, ends in continuations(documents, 3, 2).items()}
    assert as_dict(stream, drawn(stream)) == wanted


def test_positions_are_first_occurrences_and_chunks_do_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(1)
    stream = stream_of(tmp_path, [random.integers(0, 4, 50).tolist() for _ in range(10)])
    found = drawn(stream)
    text = stream.tokens.tolist()
    for position in found.positions.tolist():
        row = text[position : position + 3]
        assert next(start for start in range(len(text)) if text[start : start + 3] == row) == position
    monkeypatch.setattr(sequences, "_HASHED_AT_ONCE", 7)
    monkeypatch.setattr(token_stream, "_GATHERED", 15)
    again = drawn(stream)
    for name in ("positions", "copies", "is_ambiguous"):
        assert np.array_equal(getattr(again, name), getattr(found, name))


def test_parts_of_the_hashes_share_no_prefix_and_are_the_whole(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    stream = stream_of(tmp_path, [random.integers(0, 90, 2_000).tolist()])
    parts = [drawn(stream, between) for between in ((0, 0.1), (0.1, 0.4), (0.4, 1))]
    # A share of 0.1 has 200 ± 13 of 2,000 prefixes.
    assert 140 < len(parts[0].copies) < 260
    assert np.array_equal(np.concatenate([part.positions for part in parts]), drawn(stream).positions)
    other = drawn(stream, (0, 0.1), seed=1)
    assert len(set(other.positions.tolist()) & set(parts[0].positions.tolist())) < 60


def test_prefixes_with_equal_hashes_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = stream_of(tmp_path, [[1, 2, 3], [6, 7, 8], [1, 2, 4], [1, 2, 4]])

    def hashes(tokens: Tokens, length: int) -> Any:
        # The prefixes that begin with 1, 2, 3 and with 6 are made to collide.
        windows = sliding_window_view(tokens, length)
        return np.where(windows[:, 2] == 4, 1, 2).astype(np.uint64)

    monkeypatch.setattr(sequences, "window_hashes", hashes)
    assert as_dict(stream, drawn(stream)) == {(1, 2, 4): (2, False)}


def test_statistics_of_suffixes() -> None:
    share, entropy = token_statistics(np.array([[1, 1, 2, 2], [3, 3, 3, 3], [1, 2, 3, 4], [5, 5, 5, 6]]))
    assert share.tolist() == [0.5, 1, 0.25, 0.75]
    assert entropy == pytest.approx([1, 0, 2, 0.8112781])


def test_copies_of_the_prefix_are_found() -> None:
    random = np.random.default_rng(0)
    rows = random.integers(0, 5, (300, 14))
    rows[:50, 8:11] = rows[:50, 2:5]

    def is_copied(row: list[int]) -> bool:
        return any(row[late : late + 3] == row[early : early + 3] for late in range(8, 12) for early in range(8))

    found = copies_itself(rows, 8, 3)
    assert found.tolist() == [is_copied(row) for row in rows.tolist()] and 50 < found.sum() < 250
    assert not copies_itself(rows, 12, 3).any()


def test_a_sequence_is_counted_by_the_first_filter_that_removes_it() -> None:
    prefix = list(range(16))
    suffixes = {
        "repeated token": [99] * 9 + prefix[:7],
        "low entropy": [50, 51] * 8,
        "copied from the prefix": [60, 61, 62, *prefix[3:11], 63, 64, 65, 66, 67],
        "": list(range(70, 86)),
    }
    found = trivial_sequences(np.array([prefix + suffix for suffix in suffixes.values()]), 16, Filters())
    for name, mask in found.items():
        assert mask.tolist() == [name == wanted for wanted in suffixes]


@pytest.mark.parametrize("length", [1, 2, 5])
def test_a_short_suffix_is_trivial_if_the_prefix_contains_it_whole(length: int) -> None:
    rows = np.concatenate([np.arange(20), np.arange(length)])[None].repeat(2, axis=0)
    rows[1, -1] = 77
    assert {name: mask.tolist() for name, mask in trivial_sequences(rows, 20, Filters()).items()} == {
        "repeated token": [False, False],
        "low entropy": [False, False],
        "copied from the prefix": [length > 1, False],
    }
    assert all(len(mask) == 0 for mask in trivial_sequences(rows[:0], 20, Filters()).values())


def test_overlapping_sequences_are_left_out() -> None:
    random = np.random.default_rng(0)
    positions = random.integers(0, 500, 200)
    kept = positions[without_overlaps(positions, 10)]
    assert np.diff(np.sort(kept)).min() >= 10
    # Each other one overlaps one that was kept.
    assert np.abs(positions[:, None] - kept).min(axis=1).max() < 10


def test_strata_begin_at_their_numbers_of_copies() -> None:
    assert stratum_of(np.array([1, 2, 3, 9, 10, 99]), (2, 10)).tolist() == [-1, 0, 0, 0, 1, 1]


def test_a_cluster_is_in_one_split() -> None:
    random = np.random.default_rng(0)
    rows = random.integers(0, 50_000, (400, 40))
    # Each of 40 rows has nine others that share 32 tokens with it.
    rows[40:, :32] = rows[np.arange(360) % 40, :32]
    found = assign_splits(rows, np.zeros(400, np.int64), 1, {"train": 100, "val": 60, "test": 60}, 32)
    assert {name: len(numbers) for name, numbers in found.splits.items()} == {"train": 100, "val": 60, "test": 60}
    assert len(np.unique(found.clusters)) == 40 and not found.lacking
    of_split = [set(rows[numbers, 0].tolist()) for numbers in found.splits.values()]
    assert sum(map(len, of_split)) == len(set.union(*of_split))


def planted(seed: int = 0) -> list[list[int]]:
    """Return 200 documents of 300 random tokens, of which document d occurs d % 5 + 1 times in all."""
    random = np.random.default_rng(seed)
    documents = random.integers(0, 1_000, (200, 300)).tolist()
    return [documents[number] for copy in range(5) for number in range(200) if number % 5 >= copy]


def test_planted_copies_are_counted_and_stratified(tmp_path: Path) -> None:
    documents = planted()
    rules = Rules({"train": 90, "val": 30, "test": 30}, 20, 20, strata=(1, 2, 4))
    found = draw_examples(stream_of(tmp_path, documents, 1_000), rules, lambda number, tokens: None)
    assert_sound(found, documents, rules)
    for name, size in rules.sizes.items():
        copies = found.splits[name].copies
        assert [((least <= copies) & (copies < end)).sum() for least, end in ((1, 2), (2, 4), (4, 9))] == [
            size // 3
        ] * 3


def test_a_rare_stratum_is_searched_in_the_whole_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    documents = random.integers(0, 1_000, (400, 200)).tolist()
    documents += [documents[0], documents[1]] * 11
    rules = Rules({"val": 20}, 20, 20, strata=(1, 2, 10))
    stream = stream_of(tmp_path, documents, 1_000)
    passes: list[int] = []
    found = draw_examples(stream, rules, lambda number, tokens: passes.append(number))
    assert_sound(found, documents, rules)
    copies = found.splits["val"].copies
    # No sequence occurs 2 to 9 times, and two documents of 200 tokens have at most ten sequences of 40.
    assert (copies == 1).sum() == 7 and (copies == 12).sum() == 6 and len(copies) == 13
    # Smaller passes find the same.
    monkeypatch.setattr(making, "_MAX_TOKENS", 40 * 2_000)
    again = draw_examples(stream, rules, lambda number, tokens: passes.append(number))
    assert max(passes) > 30 and (again.splits["val"].copies == 12).sum() == 6
    assert_sound(again, documents, rules)


def test_a_corpus_that_is_too_small_gives_what_it_has(tmp_path: Path) -> None:
    documents = np.random.default_rng(0).integers(0, 1_000, (10, 100)).tolist()
    rules = Rules({"train": 100, "val": 10}, 20, 20)
    passes: list[int] = []
    found = draw_examples(stream_of(tmp_path, documents, 1_000), rules, lambda number, tokens: passes.append(number))
    assert_sound(found, documents, rules)
    # A document of 100 tokens has one or two sequences of 40 that do not overlap.
    assert 10 <= sum(len(part.copies) for part in found.splits.values()) <= 20
    assert found.counts["drawn prefixes"] == 10 * 81


def assert_sound(found: Examples, documents: list[list[int]], rules: Rules) -> None:
    """Check the examples against the documents by brute force."""
    every = continuations(documents, rules.prefix_length, rules.suffix_length)
    split_of_window: dict[tuple[int, ...], str] = {}
    width = min(32, rules.length // 2)
    for name, part in found.splits.items():
        for row, copies in zip(part.tokens.tolist(), part.copies.tolist(), strict=True):
            assert every[tuple(row[: rules.prefix_length])] == {tuple(row[rules.prefix_length :]): copies}
            for start in range(len(row) - width + 1):
                assert split_of_window.setdefault(tuple(row[start : start + width]), name) == name


def test_counts_add_up(tmp_path: Path) -> None:
    rules = Rules({"val": 20}, 20, 20)
    counts: Mapping[str, int] = draw_examples(
        stream_of(tmp_path, planted(), 1_000), rules, lambda number, tokens: None
    ).counts
    removed = sum(count for name, count in counts.items() if name.startswith("removed"))
    assert counts["drawn prefixes"] == removed + counts["not used"] + 20


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
