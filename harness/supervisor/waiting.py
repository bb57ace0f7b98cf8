"""What a supervisor does while its disk is full: it says so, charges the run, and tries again until it may not."""

import contextlib
import sys
from collections.abc import Callable

from harness.core.times import seconds_since_boot
from harness.runs.disk import RETRY_SECONDS, DiskFull
from harness.supervisor.deadline import Deadline
from harness.supervisor.standby import Standby
from harness.supervisor.ticking import Ticking


class WaitingForRoom:
    """Called between two tries: it takes a second, in which the budget goes on and the deadline holds."""

    def __init__(self, standby: Standby, deadline: Deadline, ticking: Ticking, is_given_up: Callable[[], bool]) -> None:
        """`is_given_up` is asked once a second for a reason to wait no longer, other than the deadline."""
        self._standby = standby
        self._deadline = deadline
        self._ticking = ticking
        self._is_given_up = is_given_up
        self._since: float | None = None

    def __call__(self) -> None:
        """Wait. Raises DiskFull at the deadline, when waiting was given up, or when the run cannot be charged."""
        if self._since is None:
            self._since = seconds_since_boot()
            say("disk full; nothing is acknowledged until there is room, and the budget goes on")
        try:
            self._standby.beat(is_waiting=True)
        except OSError as error:
            raise DiskFull from error
        if self._ticking.fault is not None or self._is_given_up() or self._deadline.wait(RETRY_SECONDS):
            raise DiskFull

    def end_if_there_is_room(self) -> None:
        """Take back what was said, if anything was: whatever waited has been written."""
        if self._since is not None:
            say(f"the disk was full for {seconds_since_boot() - self._since:.0f} s; there is room again")
            self._since = None
            with contextlib.suppress(OSError):
                self._standby.beat(is_waiting=False)


def say(words: str) -> None:
    """A line for supervisor.log, which lies on the disk that may be full."""
    with contextlib.suppress(OSError):
        print(words, file=sys.stderr, flush=True)
