import numpy as np
import pytest

from harness.core.training import Training


@pytest.fixture
def training() -> Training:
    rows = np.arange(20, dtype=np.uint16)[:, None]
    return Training(np.repeat(rows, 4, axis=1), np.repeat(rows, 3, axis=1), None, np.arange(20))


def test_some_examples_are_drawn_by_the_seed_and_stay_in_order(training: Training) -> None:
    some = training.drawn(7, 3)
    assert len(some) == 7 and (np.diff(some.clusters) > 0).all()
    assert (some.prefixes[:, 0] == some.clusters).all() and (some.suffixes[:, 0] == some.clusters).all()
    assert some.clusters.tolist() == training.drawn(7, 3).clusters.tolist() != training.drawn(7, 4).clusters.tolist()


@pytest.mark.parametrize("count", [0, 20, 500])
def test_none_and_too_many_stand_for_all(training: Training, count: int) -> None:
    assert training.drawn(count, 1).clusters.tolist() == list(range(20))
