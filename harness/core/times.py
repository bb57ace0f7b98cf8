"""The clock that budgets are measured on, durations and deadlines that people write and read, timestamps as text."""

import contextlib
import math
import re
import time
from datetime import date, datetime, timedelta, timezone
from datetime import time as day_time

from harness.core.errors import HarnessError
from harness.core.text import format_number, shorten

_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[dhms])+")
_PRECISE_BELOW_SECONDS = 60.0
_PART = re.compile(r"(\d+(?:\.\d+)?)([dhms])")
_ANYWHERE_ON_EARTH = timezone(timedelta(hours=-12), "AoE")
_END_OF_DAY = day_time.max.replace(tzinfo=_ANYWHERE_ON_EARTH)


def seconds_since_boot() -> float:
    """Return CLOCK_BOOTTIME, which nobody can set and which keeps running while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as `24h`, `1h30m` or a plain number of seconds.

    Raises HarnessError unless the duration is positive and at most 366 days.
    """
    text = text.strip()
    if _DURATION.fullmatch(text):
        seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    else:
        try:
            seconds = float(text)
        except ValueError:
            seconds = float("nan")
    if not 0 < seconds <= 366 * 86400:
        raise HarnessError(f"{shorten(text)!r} is not a duration: write 24h, 90m, 1h30m or 45s.")
    return seconds


def format_duration(seconds: float) -> str:
    """Return a duration as hours, minutes and seconds: 0:07, 12:34, 23:59:59. A value that is not finite is a dash."""
    if not math.isfinite(seconds):
        return "–"
    whole = max(0, int(seconds))
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"


def format_seconds(seconds: float) -> str:
    """Return a duration with the digits that a short one needs: `2.35 s`, `12:34`."""
    return format_duration(seconds) if seconds >= _PRECISE_BELOW_SECONDS else f"{format_number(seconds)} s"


def day_and_time(timestamp: float) -> str:
    """Return a timestamp in local time as `Nov 21 14:03`.

    A timestamp is in seconds since the epoch, here and below. One that the platform cannot format is a dash.
    """
    return _format("%b %d %H:%M", timestamp)


def date_and_time(timestamp: float) -> str:
    """Return a timestamp in local time as `2026-11-21 14:03`."""
    return _format("%Y-%m-%d %H:%M", timestamp)


def utc_date_and_time(timestamp: float) -> str:
    """Return a timestamp in UTC as `2026-11-21 14:03 UTC`, which reads the same on every machine."""
    return _format("%Y-%m-%d %H:%M UTC", timestamp, is_utc=True)


def _format(pattern: str, timestamp: float, *, is_utc: bool = False) -> str:
    try:
        return time.strftime(pattern, time.gmtime(timestamp) if is_utc else time.localtime(timestamp))
    except (OverflowError, ValueError, OSError):
        return "–"


def parse_moment(text: str, *, may_be_date: bool = True) -> datetime:
    """Return the moment of an ISO date with a time and an offset from UTC, such as `2023-01-20T18:00+01:00`.

    A date alone is the end of that day Anywhere on Earth (UTC-12). Raises HarnessError for any other text, and for a
    date alone unless `may_be_date`.
    """
    text = text.strip()
    with contextlib.suppress(ValueError):
        if may_be_date and re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            return datetime.combine(date.fromisoformat(text), _END_OF_DAY)
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return moment
    alone = "a date, such as 2023-01-20, or " if may_be_date else ""
    raise HarnessError(f"{shorten(text)!r} is not {alone}a date with time and offset, such as 2023-01-20T18:00+01:00.")


def moment_text(moment: datetime) -> str:
    """Return a moment as text with time and offset, or as `2023-01-20 AoE` for the end of a day Anywhere on Earth."""
    if moment.timetz() == _END_OF_DAY and moment.tzinfo == _ANYWHERE_ON_EARTH:
        return f"{moment:%Y-%m-%d} AoE"
    return f"{moment:%Y-%m-%d %H:%M:%S} {moment.tzname()}"
