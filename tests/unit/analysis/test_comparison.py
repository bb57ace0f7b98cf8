"""What recall stood at a time, from the times at which each came."""

import math

import pytest

from harness.analysis.comparison import recall_after

STOOD = [(0.0, 0.0), (2.0, 0.1), (5.0, 0.3)]


@pytest.mark.parametrize(("seconds", "recall"), [(0.0, 0.0), (1.9, 0.0), (2.0, 0.1), (4.9, 0.1), (6.0, 0.3)])
def test_the_last_recall_that_had_come_is_the_one_that_stood(seconds, recall):
    assert recall_after(seconds, STOOD, reached=6.0) == recall


def test_a_run_that_goes_on_has_no_recall_at_a_time_to_come():
    assert recall_after(6.1, STOOD, reached=6.0) is None


def test_a_run_that_is_over_keeps_its_last_recall_for_good():
    assert recall_after(86_400.0, STOOD, reached=math.inf) == 0.3


def test_nothing_is_said_of_the_time_when_the_round_was_blind():
    stood = [(0.0, 0.0), (2.0, None), (5.0, 0.3)]
    assert [recall_after(seconds, stood, math.inf) for seconds in (1.0, 3.0, 5.0)] == [0.0, None, 0.3]
