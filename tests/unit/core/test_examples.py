"""Training examples, folds and clusters of a round, and what the training rows reveal."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core import examples
from harness.core.errors import HarnessError
from harness.core.examples import Training, exact_rows, overlap, rows_with
from harness.core.rounds import load_round
from harness.core.windows import cluster_ids, stitched
from tests.tools.data import DATA, SATML, require_data


@pytest.fixture
def training() -> Training:
    rows = np.arange(20, dtype=np.uint16)[:, None]
    return Training(np.repeat(rows, 4, axis=1), np.repeat(rows, 3, axis=1), None, np.arange(20))


def test_drawn_examples_depend_on_the_seed_and_keep_their_order(training: Training) -> None:
    drawn = training.drawn(7, 3)
    assert len(drawn) == 7 and (np.diff(drawn.clusters) > 0).all()
    assert (drawn.prefixes[:, 0] == drawn.clusters).all() and (drawn.suffixes[:, 0] == drawn.clusters).all()
    assert drawn.clusters.tolist() == training.drawn(7, 3).clusters.tolist() != training.drawn(7, 4).clusters.tolist()


@pytest.mark.parametrize("count", [0, 20, 500])
def test_zero_or_too_large_counts_draw_all_examples(training: Training, count: int) -> None:
    assert training.drawn(count, 1).clusters.tolist() == list(range(20))


def test_the_clusters_of_a_fold_are_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(examples, "cluster_ids", lambda parts: calls.append(1) or cluster_ids(parts))
    for name in ("prefixes", "train_prefixes", "train_suffixes"):
        np.save(tmp_path / f"{name}.npy", np.arange(120, dtype=np.uint16).reshape(20, 6))
    (tmp_path / "r.toml").write_text(
        'name = "r"\ntitle = "R"\nprefix_file = "prefixes.npy"\ntrain_prefix_file = "train_prefixes.npy"\n'
        'train_suffix_file = "train_suffixes.npy"\nprefix_length = 6\nsuffix_length = 6\nvocabulary = 200\n'
        'target = "none"\n'
    )
    fold = load_round(f"{tmp_path / 'r.toml'}:fold0of2")
    for _ in range(2):
        for load in (examples.load_prefixes, examples.load_answers, examples.load_training):
            load(fold)
    assert len(calls) == 1
    np.save(tmp_path / "train_suffixes.npy", np.zeros((20, 6), np.uint16))
    changed = examples.load_answers(fold)
    assert changed is not None and not changed.any() and len(calls) == 2


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
        assert (found.suffixes[index].tolist(), found.copied[index]) == (suffix, length)


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


def test_an_example_is_in_train_if_stitching_finds_its_answer(tmp_path):
    found = overlap(small_round(tmp_path))
    assert found.is_stitched.tolist() == [True, True, False]
    assert found.is_in_train.tolist() == [True, False, False]
    assert found.has_known_prefix.tolist() == [True, True, False]
    assert found.known_prefix_is_right.tolist() == [True, False, False]


def test_overlap_of_a_blind_round_omits_correctness(tmp_path):
    found = overlap(small_round(tmp_path, answers=False))
    assert found.is_stitched.tolist() == [True, True, False]
    assert found.is_in_train is None and found.known_prefix_is_right is None


def test_a_round_without_training_rows_has_no_overlap(tmp_path):
    with pytest.raises(HarnessError, match="no training rows"):
        overlap(small_round(tmp_path, training=False))


def test_training_rows_with_a_suffix_are_counted_wherever_it_begins(tmp_path):
    round_ = small_round(tmp_path)
    np.save(tmp_path / "tp.npy", tokens([8, 8], [7, 8], [3, 4], [8, 3], [4, 3]))
    np.save(tmp_path / "ts.npy", tokens([3, 4], [8, 8], [3, 4], [4, 8], [3, 3]))
    assert [rows_with(suffix, round_) for suffix in tokens([3, 4], [8, 8], [4, 4], [3, 3])] == [3, 2, 0, 1]
    assert rows_with(tokens([3, 4])[0], small_round(tmp_path, training=False)) is None


@pytest.mark.slow
def test_the_challenge_has_its_known_overlap(monkeypatch):
    require_data(SATML)
    monkeypatch.setenv("HARNESS_DATA", str(DATA))
    dev = overlap(load_round("satml-dev"))
    assert dev.has_known_prefix.sum() == dev.known_prefix_is_right.sum() == 229
    assert (dev.is_stitched.sum(), dev.is_in_train.sum()) == (442, 438)
    assert (len(set(dev.clusters.tolist())), np.bincount(dev.clusters).max()) == (547, 241)
    val = overlap(load_round("satml-val"))
    assert (val.has_known_prefix.sum(), val.is_stitched.sum()) == (229, 471)
    test_prefixes, known = np.load(DATA / "satml" / "test_prefix.npy"), np.load(DATA / "satml" / "train_prefix.npy")
    assert (exact_rows(test_prefixes, known) >= 0).sum() == 213
