"""Timestamps and durations as text. A value that cannot be formatted is shown as a dash."""

import time
from datetime import UTC, datetime

import pytest

from harness.core.errors import HarnessError
from harness.core.times import (
    date_and_time,
    day_and_time,
    format_duration,
    moment_text,
    parse_moment,
    utc_date_and_time,
)


@pytest.mark.parametrize(
    ("zone", "texts"),
    [
        ("UTC", ("Jan 01 00:00", "1970-01-01 00:00")),
        ("Asia/Tokyo", ("Jan 01 09:00", "1970-01-01 09:00")),
    ],
)
def test_only_timestamps_in_utc_ignore_the_time_zone(
    monkeypatch: pytest.MonkeyPatch, zone: str, texts: tuple[str, ...]
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert (day_and_time(0.0), date_and_time(0.0)) == texts
        assert utc_date_and_time(0.0) == "1970-01-01 00:00 UTC"
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("at", [1e300, -1e300, float("nan"), float("inf")])
def test_an_impossible_timestamp_is_a_dash(at: float) -> None:
    assert day_and_time(at) == date_and_time(at) == utc_date_and_time(at) == "–"


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), float("-inf")])
def test_an_infinite_duration_is_a_dash(seconds: float) -> None:
    assert format_duration(seconds) == "–"


def test_a_date_alone_ends_when_it_is_over_everywhere_on_earth() -> None:
    deadline = parse_moment("2023-01-20")
    assert deadline < datetime(2023, 1, 21, 12, tzinfo=UTC)  # noon in Greenwich is midnight in UTC-12
    assert deadline >= datetime(2023, 1, 21, 11, 59, 59, 999_999, tzinfo=UTC)
    assert moment_text(deadline) == "2023-01-20 AoE"


def test_a_moment_keeps_its_offset() -> None:
    moment = parse_moment(" 2023-01-20 18:00+01:00 ")
    assert moment == datetime(2023, 1, 20, 17, tzinfo=UTC) and moment_text(moment) == "2023-01-20 18:00:00 UTC+01:00"
    assert moment_text(parse_moment("2023-01-21T11:59:59.999999Z")) == "2023-01-21 11:59:59 UTC"


@pytest.mark.parametrize("text", ["", "soon", "2023-01-20T18:00", "2023-13-01", "20230120", "7", "2023-01-20 AoE"])
def test_a_moment_without_an_offset_is_refused(text: str) -> None:
    with pytest.raises(HarnessError, match="is not a date, such as 2023-01-20, or a date with time and offset"):
        parse_moment(text)
    with pytest.raises(HarnessError, match="is not a date with time and offset"):
        parse_moment("2023-01-20", may_be_date=False)
