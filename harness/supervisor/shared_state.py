"""The stored results of a run's workers, written for workers that need the results of others."""

from collections.abc import Callable
from pathlib import Path

from harness.core.files import remove_tree


class SharedState:
    """Numbered directories with the stored arrays and guesses. Workers can read them and cannot write to them."""

    def __init__(self, folder: Path, write: Callable[[Path], None]) -> None:
        """`write` writes the present state into an existing directory. `folder` is emptied."""
        self._folder = folder
        self._write = write
        self._newest = 0
        self._is_current = False
        self._given: dict[int, int] = {}
        remove_tree(folder)

    def mark_changed(self) -> None:
        """Note that rows were stored since the last directory was written."""
        self._is_current = False

    def write_for(self, worker: int) -> int:
        """Return the number of a directory with the present state, and remove those that no worker reads."""
        if not self._is_current:
            self._newest += 1
            directory = self._folder / str(self._newest)
            directory.mkdir(parents=True)
            self._write(directory)
            self._is_current = True
        outdated = self._given.get(worker)
        self._given[worker] = self._newest
        if outdated is not None and outdated not in self._given.values():
            remove_tree(self._folder / str(outdated))
        return self._newest
