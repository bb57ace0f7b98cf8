"""Training examples: a random subset of them."""

import numpy as np
import pytest

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
