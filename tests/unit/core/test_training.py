"""Training examples: a random subset of them, and folds."""

from pathlib import Path

import numpy as np
import pytest

from harness.core import examples
from harness.core.clusters import cluster_ids
from harness.core.rounds import load_round
from harness.core.training import Training


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
