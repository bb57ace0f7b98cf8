"""Rate limit and waiting times, on a simulated clock."""

from datetime import UTC, datetime

import pytest

from harness.audits.endpoint.client import RateLimiter, retry_after_seconds


class Clock:
    """A clock that only sleep moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def read(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_requests_are_spaced_evenly() -> None:
    clock = Clock()
    limiter = RateLimiter(30, clock=clock.read, sleep=clock.sleep)
    starts = []
    for _ in range(4):
        limiter.wait()
        starts.append(clock.now)
    assert starts == [100, 102, 104, 106]


def test_a_paused_limiter_continues_after_the_pause() -> None:
    clock = Clock()
    limiter = RateLimiter(60, clock=clock.read, sleep=clock.sleep)
    limiter.wait()
    limiter.pause(10)
    limiter.wait()
    assert clock.now == 110


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("7", 7.0),
        (" 0 ", 0.0),
        ("Wed, 21 Oct 2015 07:28:30 GMT", 30.0),
        ("Wed, 21 Oct 2015 07:00:00 GMT", 0.0),
        ("soon", None),
        ("Wed, 21 Oct 2015 07:28:30 +999999999999999999", None),
        ("-5", None),
        ("1.5e300", None),
        ("\u00b2", None),
        ("9" * 400, 999_999_999.0),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(header, datetime(2015, 10, 21, 7, 28, 0, tzinfo=UTC)) == seconds
