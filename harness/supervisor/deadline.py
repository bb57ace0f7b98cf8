"""The hard end of a run: a thread that neither a slow disk nor a large ranking holds up."""

import threading
from collections.abc import Callable

from harness.core.times import seconds_since_boot
from harness.supervisor.ledger import Budget

_LONGEST_WAIT_SECONDS = 1.0


class Deadline:
    """Calls `end` in a thread of its own when the budget is spent, unless it is cancelled before."""

    def __init__(self, budget: Budget, end: Callable[[], object]) -> None:
        self._budget = budget
        self._end = end
        self._is_cancelled = threading.Event()
        self._has_passed = threading.Event()
        threading.Thread(target=self._wait, name="deadline", daemon=True).start()

    @property
    def has_passed(self) -> bool:
        """The budget was spent before anybody cancelled; what comes from the worker now does not count."""
        return self._has_passed.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait until the budget is spent, `seconds` at the most; whether it is."""
        return self._has_passed.wait(seconds)

    def cancel(self) -> None:
        """The worker ended by itself."""
        self._is_cancelled.set()

    def _wait(self) -> None:
        # In short waits: they are measured on a clock that stops while the machine sleeps, and the budget's goes on.
        while (left := self._budget.remaining(seconds_since_boot())) > 0:
            if self._is_cancelled.wait(min(left, _LONGEST_WAIT_SECONDS)):
                return
        self._has_passed.set()
        self._end()
