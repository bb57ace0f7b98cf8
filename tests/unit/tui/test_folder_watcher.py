"""The watcher detects saved files and new directories, and it stops on request."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.tui.folder_watcher import watch_folders


class Watched:
    """A directory that is watched in a thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stop, self._changed = threading.Event(), threading.Event()
        self.thread = threading.Thread(
            target=watch_folders, args=(lambda: [folder], self._changed.set), kwargs={"stop": self.stop}
        )
        self.thread.start()

    def wait_for_change(self, *, timeout: float = 30.0) -> bool:
        """Wait for a change since the last call, and return False after `timeout` seconds without one."""
        has_changed = self._changed.wait(timeout)
        self._changed.clear()
        return has_changed


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    directory = Watched(tmp_path / "attacks")
    yield directory
    directory.stop.set()
    directory.thread.join(30)
    assert not directory.thread.is_alive()


def test_a_missing_directory_is_watched_once_it_exists(watched: Watched) -> None:
    assert watched.wait_for_change() and watched.wait_for_change()
    watched.folder.mkdir()
    while watched.wait_for_change(timeout=1.5):
        pass
    (watched.folder / "new.py").write_text("")
    assert watched.wait_for_change()
