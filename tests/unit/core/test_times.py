"""Timestamps and durations as text. A value that cannot be formatted is shown as a dash."""

import time

import pytest

from harness.core.times import (
    date_and_time,
    day_and_time,
    duration_text,
    format_duration,
    parse_duration,
    time_of_day,
    utc_date_and_time,
)


def test_timestamps_are_shown_in_local_time(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_utc_timestamps_ignore_the_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert utc_date_and_time(0.0) == "1970-01-01 00:00 UTC"
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("at", [1e300, -1e300, float("nan"), float("inf")])
def test_an_impossible_timestamp_is_a_dash(at: float) -> None:
    assert time_of_day(at) == day_and_time(at) == date_and_time(at) == utc_date_and_time(at) == "–"


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), float("-inf")])
def test_an_infinite_duration_is_a_dash(seconds: float) -> None:
    assert format_duration(seconds) == "–"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(86400.0, "24h"), (5400.0, "1h30m"), (3601.0, "1h1s"), (7.5, "7.5s"), (1e7, "2777h46m40s"), (0.25, "0.25s")],
)
def test_a_duration_as_text_is_read_back(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text and parse_duration(text) == seconds
