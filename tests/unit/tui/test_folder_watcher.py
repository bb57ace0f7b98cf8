"""The watcher notices saved files and new directories, and it stops on request."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.tui.folder_watcher import watch_folders


class Watched:
    """A watched directory; `is_noticed` returns whether there was a change since the last call."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stop, self._noticed = threading.Event(), threading.Event()
        self.thread = threading.Thread(
            target=watch_folders, args=(lambda: [folder], self._noticed.set), kwargs={"stop": self.stop}
        )
        self.thread.start()

    def is_noticed(self, *, within: float = 30.0) -> bool:
        noticed = self._noticed.wait(within)
        self._noticed.clear()
        return noticed


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    watching = Watched(tmp_path / "attacks")
    yield watching
    watching.stop.set()
    watching.thread.join(30)
    assert not watching.thread.is_alive()


def test_a_missing_directory_is_watched_once_it_exists(watched: Watched) -> None:
    assert watched.is_noticed() and watched.is_noticed()
    watched.folder.mkdir()
    while watched.is_noticed(within=1.5):
        pass
    (watched.folder / "new.py").write_text("")
    assert watched.is_noticed()
