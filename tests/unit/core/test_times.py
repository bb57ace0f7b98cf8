"""A moment is read by people in local time; one that no clock can show is a dash and no error."""

import time

import pytest

from harness.core.times import date_and_time, day_and_time, format_duration, time_of_day, utc_date_and_time


def test_a_moment_reads_as_local_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    try:
        assert (time_of_day(0.0), day_and_time(0.0), date_and_time(0.0)) == (
            "00:00:00",
            "Jan 01 00:00",
            "1970-01-01 00:00",
        )
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_moment_in_utc_reads_the_same_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert utc_date_and_time(0.0) == "1970-01-01 00:00 UTC"
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("at", [1e300, -1e300, float("nan"), float("inf")])
def test_a_moment_that_no_clock_can_show_is_a_dash(at: float) -> None:
    assert time_of_day(at) == day_and_time(at) == date_and_time(at) == utc_date_and_time(at) == "–"


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), float("-inf")])
def test_a_duration_that_is_no_number_is_a_dash(seconds: float) -> None:
    assert format_duration(seconds) == "–"
