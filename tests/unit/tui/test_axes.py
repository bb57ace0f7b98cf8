"""The axes of plots: labelled ticks for every range."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.tui.axes import Axis, ClockAxis, ErrorsAxis, Tick, axis_up_to

AXES: dict[str, st.SearchStrategy[Axis]] = {
    "numbers": st.builds(
        lambda low, length: Axis("value", low, low + length), st.floats(-1e9, 1e9), st.floats(1e-3, 1e9)
    ),
    "errors": st.builds(lambda highest: ErrorsAxis("errors", 0.0, highest), st.floats(1, 1e8)),
    "time": st.builds(lambda seconds: ClockAxis("time", 0.0, seconds), st.floats(1, 1e7)),
}


def assert_readable(ticks: Sequence[Tick]) -> None:
    """Check that there are two labelled ticks inside the axis, and that they increase."""
    places = [tick.at for tick in ticks]
    assert len(ticks) >= 2 and all(tick.label for tick in ticks)
    assert min(places) >= -1e-9 and max(places) <= 1 + 1e-9
    assert all(before < after for before, after in pairwise(places))


@pytest.mark.parametrize("kind", AXES)
@given(data=st.data(), most=st.integers(2, 20))
def test_every_axis_has_two_labelled_ticks(kind: str, data: st.DataObject, most: int) -> None:
    ticks = data.draw(AXES[kind]).ticks(most)
    assert_readable(ticks)
    assert len(ticks) <= max(2, most) or kind != "numbers"


@given(highest=st.floats(0, 1e12), least=st.floats(1e-9, 1e6))
def test_an_axis_up_to_a_number_contains_it_and_labels_two_ticks(highest: float, least: float) -> None:
    axis = axis_up_to("value", [np.array([highest, np.nan, np.inf])], min_high=least)
    assert axis.low == 0 and axis.high >= max(highest, least) * (1 - 1e-9)
    assert_readable(axis.ticks(6))


@given(errors=st.lists(st.integers(0, 10**6), min_size=2, unique=True).map(sorted))
def test_the_axis_of_errors_keeps_the_order(errors: list[int]) -> None:
    places = ErrorsAxis("errors", 0.0, 1e6).fractions(np.array(errors, float))
    assert (np.diff(places) > 0).all() and places[0] >= 0 and places[-1] <= 1


@pytest.mark.parametrize(("seconds", "labels"), [(60.0, ["0:00", "0:30", "1:00"]), (5400.0, ["0:00", "1:00:00"])])
def test_ticks_of_time_are_at_round_times(seconds: float, labels: list[str]) -> None:
    assert [tick.label for tick in ClockAxis("time", 0.0, seconds).ticks(3)] == labels


def test_ticks_are_round_numbers() -> None:
    assert [tick.label for tick in Axis("value", 0.0, 0.5).ticks(6)] == ["0", "0.1", "0.2", "0.3", "0.4", "0.5"]
    assert [tick.label for tick in ErrorsAxis("errors", 0.0, 1000.0).ticks(2)] == ["0", "1", "10", "100", "1,000"]
