"""Clusters, compared with a brute-force implementation, and the clusters of the challenge data."""

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core import windows
from harness.core.windows import cluster_ids, first_equals, windows_of


def brute_force_ids(blocks, window):
    rows = [row.tolist() for block in blocks for row in block]
    windows_of_row = [{tuple(row[at : at + window]) for at in range(len(row) - window + 1)} for row in rows]
    cluster = list(range(len(rows)))
    for left, right in combinations(range(len(rows)), 2):
        if windows_of_row[left] & windows_of_row[right]:
            old, new = max(cluster[left], cluster[right]), min(cluster[left], cluster[right])
            cluster = [new if each == old else each for each in cluster]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(cluster))}
    return [numbers[name] for name in cluster]


@st.composite
def token_blocks(draw):
    blocks = []
    for _ in range(draw(st.integers(0, 3))):
        rows, tokens = draw(st.integers(0, 8)), draw(st.integers(0, 9))
        cells = draw(st.lists(st.integers(0, 2), min_size=rows * tokens, max_size=rows * tokens))
        dtype = draw(st.sampled_from([np.uint16, np.uint32, np.int64]))
        blocks.append(np.array(cells, dtype).reshape(rows, tokens))
    return blocks


@given(token_blocks(), st.integers(1, 7))
def test_clusters_are_the_connected_components_of_rows_that_share_a_window(blocks, window):
    assert cluster_ids(blocks, window).tolist() == brute_force_ids(blocks, window)


@given(token_blocks(), st.integers(1, 5))
@settings(max_examples=50)
def test_colliding_hashes_do_not_join_different_rows(blocks, window):
    real = windows.window_hashes
    try:
        windows.window_hashes = lambda tokens, length: real(tokens, length) % np.uint64(2)
        found = cluster_ids(blocks, window).tolist()
    finally:
        windows.window_hashes = real
    assert found == brute_force_ids(blocks, window)


@given(token_blocks(), st.integers(1, 5))
def test_each_window_finds_the_first_equal_window(blocks, length):
    found = windows_of(blocks, length)
    texts = [tuple(row) for row in found.at(np.arange(len(found.start))).tolist()]
    assert first_equals(found).tolist() == [texts.index(text) for text in texts]
