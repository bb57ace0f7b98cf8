import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.audits.edit_distance import Bands, characters, distances_within, edit_distance

WORDS = st.lists(st.integers(0, 3), max_size=9)


def recursive_distance(one: list[int], other: list[int]) -> int:
    if not one or not other:
        return len(one) + len(other)
    if one[-1] == other[-1]:
        return recursive_distance(one[:-1], other[:-1])
    return 1 + min(
        recursive_distance(one[:-1], other),
        recursive_distance(one, other[:-1]),
        recursive_distance(one[:-1], other[:-1]),
    )


@given(st.lists(st.integers(0, 3), max_size=5), st.lists(st.integers(0, 3), max_size=5))
def test_the_distance_is_the_fewest_edits(one, other):
    assert edit_distance(np.array(one, int), np.array(other, int)) == recursive_distance(one, other)


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=6), st.integers(0, 4))
def test_distances_up_to_a_limit_are_exact(pairs, limit):
    one, other = ([np.array(part, np.int64) for part in parts] for parts in zip(*pairs, strict=True))
    wanted = [min(limit + 1, edit_distance(*pair)) for pair in zip(one, other, strict=True)]
    assert distances_within(one, other, limit).tolist() == wanted


@given(st.lists(st.lists(st.integers(0, 2), min_size=6, max_size=6), min_size=1, max_size=5), st.integers(1, 3))
def test_growing_sequences_know_how_near_they_can_still_be(sequences, limit):
    wanted = np.array([[0, 1, 2, 0, 1, 2]] * len(sequences))
    tokens = np.array(sequences)
    bands = Bands.empty(len(tokens), limit)
    for length in range(1, 7):
        bands = bands.extended(np.arange(len(tokens)), tokens[:, length - 1], wanted)
        for row in range(len(tokens)):
            to_each = [edit_distance(tokens[row, :length], wanted[row, :end]) for end in range(7)]
            assert bands.minimum[row] == min(limit + 1, *to_each)
            assert bands.of_equal_length[row] == min(limit + 1, to_each[length])


def test_characters_are_code_points():
    assert characters("a\U0001f600\ud800").tolist() == [97, 0x1F600, 0xD800]
    assert edit_distance(characters("kitten"), characters("sitting")) == 3


def test_no_sequences_have_no_distances():
    assert distances_within([], [], 3).tolist() == []
    assert distances_within([np.array([], int)], [np.array([1, 2])], 1).tolist() == [2]
    assert pytest.approx(0) == edit_distance(np.array([], int), np.array([], int))
