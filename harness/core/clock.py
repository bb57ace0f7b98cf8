"""The clock that budgets are measured on, shared by supervisor and worker."""

import time


def now() -> float:
    """Seconds on a clock that nobody sets and that goes on while the machine sleeps."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()
