"""Set the wall clock back for a while. A guard process restores it even if this process is killed."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator

# Restores the clock when its parent closes the pipe or ends, and after one minute at the latest.
_GUARD = """
import select, sys, time
offset = float(sys.argv[1])
select.select([sys.stdin], [], [], 60)
time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_BOOTTIME) + offset)
"""


@contextlib.contextmanager
def set_back(seconds: float) -> Iterator[None]:
    """Set CLOCK_REALTIME back by `seconds` inside the block, for at most one minute.

    Raises PermissionError if this process may not set the clock.
    """
    offset = time.clock_gettime(time.CLOCK_REALTIME) - time.clock_gettime(time.CLOCK_BOOTTIME)
    time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_BOOTTIME) + offset)
    guard = subprocess.Popen(
        [sys.executable, "-c", _GUARD, repr(offset)], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_BOOTTIME) + offset - seconds)
        yield
    finally:
        assert guard.stdin is not None
        guard.stdin.close()
        if guard.wait(timeout=10) != 0:
            raise RuntimeError("the wall clock was not restored")
