"""Wall-clock durations as people write them: 24h, 90m, 1h30m, 45s."""

import math
import re

from harness.core.errors import HarnessError, shortened

_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[dhms])+")
_PART = re.compile(r"(\d+(?:\.\d+)?)([dhms])")


def seconds_in(text: str) -> float:
    """The seconds that a duration such as `24h`, `1h30m` or a plain number of seconds stands for.

    Raises HarnessError unless it is positive and at most 366 days.
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
        raise HarnessError(f"{shortened(text)!r} is not a duration: write 24h, 90m, 1h30m or 45s.")
    return seconds


def clock(seconds: float) -> str:
    """`seconds` as a clock reads: 0:07, 12:34, 23:59:59; a dash for what is no number."""
    if not math.isfinite(seconds):
        return "–"
    whole = max(0, int(seconds))
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"
