"""When a request may be sent, and how long to wait before a retry. Independent of what is requested."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import Random

_LONGEST_BACKOFF = 60.0  # seconds


class RateLimiter:
    """Spaces the starts of requests of all threads so that at most so many start per minute."""

    def __init__(
        self,
        requests_per_minute: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._spacing = 60.0 / requests_per_minute
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._next = clock()

    def wait(self) -> None:
        """Block until the next request may start."""
        with self._lock:
            turn = max(self._clock(), self._next)
            self._next = turn + self._spacing
        if (left := turn - self._clock()) > 0:
            self._sleep(left)

    def pause(self, seconds: float) -> None:
        """Let no request start for `seconds`."""
        with self._lock:
            self._next = max(self._next, self._clock() + seconds)


def backoff_seconds(attempt: int, random: Random) -> float:
    """Return 1, 2, 4, … seconds, at most 60, for `attempt` 0, 1, 2, …, times a random factor from 1/2 to 3/2."""
    return min(_LONGEST_BACKOFF, 2.0**attempt) * (0.5 + random.random())


def retry_after_seconds(header: str | None, now: datetime | None = None) -> float | None:
    """Return the seconds from `now` that a Retry-After header asks for (RFC 9110, 10.2.3); None if it is invalid."""
    if header is None:
        return None
    value = header.strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        moment = parsedate_to_datetime(value)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())
    except (TypeError, ValueError, OverflowError):
        return None
