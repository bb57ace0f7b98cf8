"""The recall of a run after some seconds, from its history."""

import math

import pytest

from harness.analysis.comparison import recall_after

HISTORY = [(0.0, 0.0), (2.0, 0.1), (5.0, 0.3)]
ROWS = [(0.0, 6, 0.0), (1.9, 6, 0.0), (2.0, 6, 0.1), (4.9, 6, 0.1), (6.0, 6, 0.3), (6.1, 6, None), (9e4, math.inf, 0.3)]


@pytest.mark.parametrize(("seconds", "reached", "recall"), ROWS)
def test_the_last_recall_before_a_time_counts_as_far_as_the_run_has_come(seconds, reached, recall):
    assert recall_after(seconds, HISTORY, reached=reached) == recall
