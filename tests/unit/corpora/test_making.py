"""Sequences that are drawn from a corpus, checked by brute force."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.core.clusters import cluster_ids
from harness.corpora.filters import Filters, copies_itself, token_statistics, trivial_sequences
from harness.corpora.making import Examples, Rules, draw_examples
from harness.corpora.sequences import draw_sequences
from harness.corpora.splits import assign_splits, stratum_of, without_overlaps
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


def drawn(stream: TokenStream, share: float = 1, seed: int = 0) -> Any:
    return draw_sequences(stream, 3, 2, share=share, seed=seed, on_progress=lambda tokens: None)


def as_dict(sequences: Any) -> dict[tuple[int, ...], int]:
    return {tuple(row): count for row, count in zip(sequences.tokens.tolist(), sequences.copies.tolist(), strict=True)}


@pytest.mark.parametrize("alphabet", [2, 3, 6, 50])
def test_all_prefixes_with_one_continuation_are_found(tmp_path: Path, alphabet: int) -> None:
    random = np.random.default_rng(alphabet)
    documents = [random.integers(0, alphabet, random.integers(0, 30)).tolist() for _ in range(60)]
    found = drawn(stream_of(tmp_path, documents))
    every = continuations(documents, 3, 2)
    wanted = {
        prefix + suffix: count
        for prefix, ends in every.items()
        for suffix, count in ends.items()
        if len(ends) == 1 and len(suffix) == 2
    }
    assert as_dict(found.sequences) == wanted
    assert found.prefixes == len(every)
    assert found.ambiguous == sum(len(ends) > 1 for ends in every.values())
    assert found.cut_off == len(every) - len(wanted) - found.ambiguous
    assert found.occurrences == sum(sum(ends.values()) for ends in every.values())


def test_positions_are_first_occurrences_and_chunks_do_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.corpora import sequences

    random = np.random.default_rng(1)
    documents = [random.integers(0, 4, 50).tolist() for _ in range(10)]
    stream = stream_of(tmp_path, documents)
    found = drawn(stream)
    text = stream.tokens.tolist()
    for row, position in zip(found.sequences.tokens.tolist(), found.sequences.positions.tolist(), strict=True):
        assert next(start for start in range(len(text)) if text[start : start + 5] == row) == position
    monkeypatch.setattr(sequences, "_HASHED_AT_ONCE", 7)
    monkeypatch.setattr(sequences, "_COMPARED_AT_ONCE", 3)
    again = drawn(stream)
    assert np.array_equal(again.sequences.tokens, found.sequences.tokens)
    assert np.array_equal(again.sequences.positions, found.sequences.positions)


def test_a_larger_share_contains_a_smaller_one(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    stream = stream_of(tmp_path, [random.integers(0, 90, 2_000).tolist()])
    some, more = (drawn(stream, share).sequences for share in (0.1, 0.4))
    # A share of 0.1 has 200 ± 13 of 2,000 prefixes.
    assert 140 < len(some.copies) < 260
    assert np.array_equal(more.tokens[: len(some.tokens)], some.tokens)
    other = drawn(stream, 0.1, seed=1).sequences
    assert len(set(as_dict(other)) & set(as_dict(some))) < 60


def test_prefixes_with_equal_hashes_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.corpora import sequences

    stream = stream_of(tmp_path, [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]])
    monkeypatch.setattr(
        sequences, "window_hashes", lambda tokens, length: np.zeros(len(tokens) - length + 1, np.uint64)
    )
    found = drawn(stream)
    assert len(found.sequences.copies) == 0 and found.prefixes == 0


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
def test_short_suffixes_are_not_trivial_by_chance(length: int) -> None:
    rows = np.concatenate([np.arange(20), np.arange(length)])[None]
    assert not any(mask.any() for mask in trivial_sequences(rows, 20, Filters()).values())
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
    splits, clusters = assign_splits(rows, np.zeros(400, np.int64), {"train": 100, "val": 60, "test": 60})
    assert {name: len(numbers) for name, numbers in splits.items()} == {"train": 100, "val": 60, "test": 60}
    assert len(np.unique(clusters)) == 40
    of_split = [set(clusters[numbers].tolist()) for numbers in splits.values()]
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


def test_a_corpus_that_is_too_small_gives_what_it_has(tmp_path: Path) -> None:
    documents = np.random.default_rng(0).integers(0, 1_000, (10, 100)).tolist()
    rules = Rules({"train": 100, "val": 10}, 20, 20)
    passes: list[int] = []
    found = draw_examples(stream_of(tmp_path, documents, 1_000), rules, lambda number, tokens: passes.append(number))
    assert_sound(found, documents, rules)
    # A document of 100 tokens has one or two sequences of 40 that do not overlap.
    assert 10 <= sum(len(part.copies) for part in found.splits.values()) <= 20
    assert found.counts["distinct prefixes"] == 10 * 81


def assert_sound(found: Examples, documents: list[list[int]], rules: Rules) -> None:
    """Check the examples against the documents by brute force."""
    every = continuations(documents, rules.prefix_length, rules.suffix_length)
    rows = []
    for part in found.splits.values():
        for row, copies in zip(part.tokens.tolist(), part.copies.tolist(), strict=True):
            assert every[tuple(row[: rules.prefix_length])] == {tuple(row[rules.prefix_length :]): copies}
            rows.append(row)
    clusters = cluster_ids([np.array(rows)])
    split_of_row = np.repeat(np.arange(len(found.splits)), [len(part.copies) for part in found.splits.values()])
    for cluster in range(clusters.max() + 1):
        assert len(np.unique(split_of_row[clusters == cluster])) == 1


def test_counts_add_up(tmp_path: Path) -> None:
    rules = Rules({"val": 20}, 20, 20)
    counts: Mapping[str, int] = draw_examples(
        stream_of(tmp_path, planted(), 1_000), rules, lambda number, tokens: None
    ).counts
    removed = sum(count for name, count in counts.items() if name.startswith("removed"))
    assert counts["distinct prefixes"] == removed + counts["not used"] + 20
