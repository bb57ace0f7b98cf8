"""The hard end of a run: a thread that neither a slow disk nor a large ranking delays."""

import threading
from collections.abc import Callable
from typing import Self

from harness.core.times import seconds_since_boot
from harness.supervisor.ledger import Budget

_LONGEST_WAIT_SECONDS = 1.0


class Deadline:
    """Calls `end` in a thread of its own when the budget is spent, unless the `with` block has ended before."""

    def __init__(self, budget: Budget, end: Callable[[], object]) -> None:
        self._budget = budget
        self._end = end
        self._is_cancelled = threading.Event()
        self._has_passed = threading.Event()
        self._thread = threading.Thread(target=self._wait, name="deadline", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Cancel the deadline, because the worker has ended; wait for an `end` that is under way."""
        self._is_cancelled.set()
        self._thread.join()

    @property
    def has_passed(self) -> bool:
        """True if the budget was spent inside the block. What the worker sends from then on does not count."""
        return self._has_passed.is_set()

    def _wait(self) -> None:
        # Waits are measured on a clock that stops while the machine sleeps; the clock of the budget does not stop.
        while (left := self._budget.remaining(seconds_since_boot())) > 0:
            if self._is_cancelled.wait(min(left, _LONGEST_WAIT_SECONDS)):
                return
        self._has_passed.set()
        self._end()
