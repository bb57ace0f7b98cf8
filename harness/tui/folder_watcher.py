"""Watch the directories of attacks, so that the list follows every saved file."""

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event

from watchfiles import watch

_CHECK_MILLISECONDS = 1000
_RETRY_SECONDS = 1.0
_Folders = list[tuple[Path, int]]


def watch_folders(folders: Callable[[], Sequence[Path]], on_change: Callable[[], object], *, stop: Event) -> None:
    """Call `on_change` whenever a file in one of `folders()` or that list itself changes, until `stop` is set.

    Where the system cannot watch (no inotify handles left, a network file system), call it once a second.
    """
    while not stop.is_set():
        existing = _existing(folders())
        if not existing or not _watch_until_replaced(existing, folders, on_change, stop):
            stop.wait(_RETRY_SECONDS)
        on_change()


def _watch_until_replaced(
    watched: _Folders, folders: Callable[[], Sequence[Path]], on_change: Callable[[], object], stop: Event
) -> bool:
    """Watch until `folders()` differ from `watched` or `stop` is set. Return False if the system cannot watch."""
    changes = watch(
        *(path for path, _ in watched),
        stop_event=stop,
        rust_timeout=_CHECK_MILLISECONDS,
        yield_on_timeout=True,
        raise_interrupt=False,
        recursive=False,
        debounce=200,
    )
    try:
        for changed in changes:
            if changed:
                on_change()
            if _existing(folders()) != watched:
                break
    except OSError:
        return False
    return True


def _existing(folders: Sequence[Path]) -> _Folders:
    """Return the directories that exist, with their inodes: one that was deleted and created again is another."""
    existing = []
    for folder in folders:
        try:
            existing.append((folder, folder.stat().st_ino))
        except OSError:
            continue
    return existing
