"""Stitching from training windows, compared with a slow implementation, and the overlap of a round."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import HarnessError
from harness.core.overlap import exact_rows, overlap
from harness.core.rounds import load_round
from harness.core.stitch import stitched
from tests.data import DATA, SATML, require_data


def tokens(*rows):
    return np.array(rows, np.uint16)


def stitched_by_hand(prefix, rows, length):
    """Return the suffix of one prefix, padded with zeros, and its length before padding."""
    window, text = len(prefix), list(prefix)
    while len(text) < window + length:
        context = text[-window:]
        places = [
            (at, index)
            for index, row in enumerate(rows)
            for at in range(len(row) - window)
            if row[at : at + window] == context
        ]
        if not places:
            break
        at, index = min(places)
        text += rows[index][at + window :]
    suffix = text[window : window + length]
    return suffix + [0] * (length - len(suffix)), len(suffix)


small_rows = st.integers(4, 9).flatmap(
    lambda width: st.lists(st.lists(st.integers(0, 2), min_size=width, max_size=width), min_size=0, max_size=6).map(
        lambda rows: np.array(rows, np.uint16).reshape(-1, width)
    )
)


@given(small_rows, st.lists(st.lists(st.integers(0, 2), min_size=3, max_size=3), min_size=1, max_size=6))
def test_stitching_equals_a_slow_implementation(rows, prefixes):
    found = stitched(tokens(*prefixes), rows, 5)
    for index, prefix in enumerate(prefixes):
        suffix, length = stitched_by_hand(prefix, rows.tolist(), 5)
        assert (found.suffixes[index].tolist(), found.found[index]) == (suffix, length)


def test_a_suffix_is_assembled_from_overlapping_rows():
    rows = tokens([1, 2, 3, 4, 5], [3, 4, 5, 6, 7], [5, 6, 7, 8, 9])
    found = stitched(tokens([1, 2, 3]), rows, 6)
    assert found.is_complete.tolist() == [True] and found.suffixes.tolist() == [[4, 5, 6, 7, 8, 9]]


def test_stitching_ends_if_no_row_continues_the_text():
    found = stitched(tokens([1, 2, 3], [9, 9, 9]), tokens([1, 2, 3, 4, 5]), 4)
    assert found.found.tolist() == [2, 0] and not found.is_complete.any()
    assert found.suffixes.tolist() == [[4, 5, 0, 0], [0, 0, 0, 0]]


def test_the_row_with_the_earliest_window_is_preferred():
    rows = tokens([0, 0, 1, 2, 8, 8], [0, 1, 2, 7, 7, 7], [0, 1, 2, 6, 6, 6])
    assert stitched(tokens([1, 2]), rows, 3).suffixes.tolist() == [[7, 7, 7]]


def test_an_exact_prefix_finds_its_first_row():
    assert exact_rows(tokens([1, 2], [3, 4]), tokens([0, 0], [1, 2], [1, 2])).tolist() == [1, -1]


def small_round(folder, *, answers=True, training=True):
    text = (
        'name = "small"\ntitle = "small"\nprefix_file = "p.npy"\nprefix_length = 2\nsuffix_length = 2\ntarget = "t"\n'
    )
    np.save(folder / "p.npy", tokens([1, 2], [5, 6], [40, 41]))
    if answers:
        text += 'answer_file = "s.npy"\n'
        np.save(folder / "s.npy", tokens([3, 4], [7, 9], [42, 43]))
    if training:
        text += 'train_prefix_file = "tp.npy"\ntrain_suffix_file = "ts.npy"\n'
        np.save(folder / "tp.npy", tokens([1, 2], [5, 6], [30, 31]))
        np.save(folder / "ts.npy", tokens([3, 4], [7, 8], [32, 33]))
    (folder / "small.toml").write_text(text)
    return load_round(str(folder / "small.toml"))


def test_an_example_is_reachable_if_stitching_finds_its_answer(tmp_path):
    found = overlap(small_round(tmp_path))
    assert found.is_stitched.tolist() == [True, True, False]
    assert found.is_reachable.tolist() == [True, False, False]
    assert found.has_known_prefix.tolist() == [True, True, False]
    assert found.known_prefix_is_right.tolist() == [True, False, False]


def test_overlap_of_a_blind_round_omits_correctness(tmp_path):
    found = overlap(small_round(tmp_path, answers=False))
    assert found.is_stitched.tolist() == [True, True, False]
    assert found.is_reachable is None and found.known_prefix_is_right is None


def test_a_round_without_training_rows_has_no_overlap(tmp_path):
    with pytest.raises(HarnessError, match="no training rows"):
        overlap(small_round(tmp_path, training=False))


@pytest.mark.slow
def test_the_challenge_has_its_known_overlap(monkeypatch):
    require_data(SATML)
    monkeypatch.setenv("HARNESS_DATA", str(DATA))
    dev = overlap(load_round("satml-dev"))
    assert dev.has_known_prefix.sum() == dev.known_prefix_is_right.sum() == 229
    assert (dev.is_stitched.sum(), dev.is_reachable.sum()) == (442, 438)
    assert (len(set(dev.clusters.tolist())), np.bincount(dev.clusters).max()) == (547, 241)
    val = overlap(load_round("satml-val"))
    assert (val.has_known_prefix.sum(), val.is_stitched.sum()) == (229, 471)
    test_prefixes, known = np.load(DATA / "satml" / "test_prefix.npy"), np.load(DATA / "satml" / "train_prefix.npy")
    assert (exact_rows(test_prefixes, known) >= 0).sum() == 213
