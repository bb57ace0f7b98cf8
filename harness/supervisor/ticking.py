"""The ledger's heartbeat, in a thread of its own: no long ranking and no full pipe holds up what has been spent."""

import sqlite3
import threading
from collections.abc import Callable

from harness.runs.disk import DiskFull
from harness.runs.store import RunStore
from harness.supervisor.ledger import TICK_SECONDS
from harness.supervisor.standby import Standby


class Ticking:
    """Commits what has been spent every half second, from its making until `stop`.

    A tick that finds the disk full goes to the standby. `fault` is the complaint once one could be written nowhere:
    nothing ticks after that, and the run must not go on.
    """

    def __init__(self, store: RunStore, standby: Standby, spent: Callable[[], float]) -> None:
        self.fault: sqlite3.Error | OSError | None = None
        self._store = store
        self._standby = standby
        self._spent = spent
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._tick, name="ledger", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """No tick follows."""
        self._is_over.set()
        self._thread.join()

    def _tick(self) -> None:
        try:
            while not self._is_over.wait(TICK_SECONDS):
                try:
                    self._store.commit_ledger("tick", self._spent)
                except DiskFull:
                    self._standby.beat(is_waiting=True)
        except (sqlite3.Error, OSError) as error:
            self.fault = error
