"""A store that is read again and again by one thread, into snapshots; what cannot be read is said in the last one."""

import dataclasses
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from harness.core.errors import HarnessError
from harness.runs.errors import as_harness_error
from harness.runs.folder import RunFolder
from harness.tui.snapshot import AuditSnapshot, Snapshot

Seen = TypeVar("Seen", Snapshot, AuditSnapshot)


class Polled(ABC, Generic[Seen]):
    """What is known of one run. Not thread-safe: one thread polls."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self._last: Seen | None = None

    def poll(self) -> Seen:
        """The run now. What cannot be read is said in the snapshot's `fault`; raises HarnessError only at the start."""
        try:
            with as_harness_error(self.folder.path):
                self._last = self._read()
        except HarnessError as error:
            if self._last is None:
                raise
            self._last = dataclasses.replace(self._last, fault=str(error))
        return self._last

    @abstractmethod
    def _read(self) -> Seen:
        """A snapshot of what the store holds now. Raises HarnessError when it cannot be read."""
