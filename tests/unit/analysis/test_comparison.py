"""The recall of a run after some seconds, from its history."""

import math

import pytest

from harness.analysis.comparison import recall_after

HISTORY = [(0.0, 0.0), (2.0, 0.1), (5.0, 0.3)]


@pytest.mark.parametrize(("seconds", "recall"), [(0.0, 0.0), (1.9, 0.0), (2.0, 0.1), (4.9, 0.1), (6.0, 0.3)])
def test_the_last_recall_before_a_time_counts(seconds, recall):
    assert recall_after(seconds, HISTORY, reached=6.0) == recall


def test_a_live_run_has_no_recall_in_the_future():
    assert recall_after(6.1, HISTORY, reached=6.0) is None


def test_a_run_that_is_over_keeps_its_last_recall():
    assert recall_after(86_400.0, HISTORY, reached=math.inf) == 0.3
