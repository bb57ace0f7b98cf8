"""The trash: what was deleted is moved there and can be restored for a day. It knows only names and files."""

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import HarnessError
from harness.core.files import file_errors, remove_tree, sync_folder
from harness.core.paths import state_home

KEPT_SECONDS = 24 * 3600


@dataclass(frozen=True)
class Deleted:
    """A run, or the file of another record, in the trash: `HOME/trash/KIND/TIME-NAME` was `HOME/KIND/NAME`."""

    path: Path
    deleted_at: int
    """Nanoseconds since the epoch, the same for all that one command deleted."""
    name: str

    @property
    def kind(self) -> str:
        """The directory that it was in, such as `runs`."""
        return self.path.parent.name

    @property
    def id(self) -> str:
        """The id of the run, or of the record in the file."""
        return self.name if self.kind == "runs" else Path(self.name).stem

    @property
    def seconds_left(self) -> float:
        """The seconds for which it can still be restored."""
        return self.deleted_at / 1e9 + KEPT_SECONDS - time.time()

    @property
    def is_expired(self) -> bool:
        """True if it can no longer be restored."""
        return self.seconds_left <= 0

    @property
    def size(self) -> int:
        """The bytes that it uses on the disk."""
        blocks, folders = 0, [self.path]
        while folders:
            with contextlib.suppress(OSError):
                entry = folders.pop()
                blocks += entry.lstat().st_blocks
                folders += entry.iterdir() if entry.is_dir() and not entry.is_symlink() else ()
        # st_blocks counts units of 512 bytes.
        return 512 * blocks


def move_to_trash(path: Path, deleted_at: int) -> Deleted:
    """Move the run or the file at HOME/KIND/NAME to the trash with one rename.

    Raises HarnessError if there is no such file, or if it cannot be moved.
    """
    home = state_home() / "trash" / path.parent.name
    deleted = Deleted(home / f"{deleted_at}-{path.name}", deleted_at, path.name)
    with file_errors(path, "deleted"):
        home.parent.mkdir(mode=0o700, exist_ok=True)
        home.mkdir(mode=0o700, exist_ok=True)
        path.rename(deleted.path)
        sync_folder(home)
        sync_folder(path.parent)
    return deleted


def deleted_records() -> list[Deleted]:
    """Return everything in the trash, the last deleted first."""
    records = []
    for path in (state_home() / "trash").glob("*/*"):
        stamp, dash, name = path.name.partition("-")
        if dash and name and stamp.isdecimal():
            records.append(Deleted(path, int(stamp), name))
    return sorted(records, key=lambda record: (-record.deleted_at, record.kind, record.name))


def restorable() -> list[Deleted]:
    """Return the deletions that can be undone, the last one first."""
    return [record for record in deleted_records() if not record.is_expired]


def restore(deleted: Deleted) -> None:
    """Move it back. Raises HarnessError if another run has its id, or if it cannot be moved."""
    path = state_home() / deleted.kind / deleted.name
    if path.exists():
        raise HarnessError(f"{deleted.id}: cannot be restored, because a run has this id again. Delete that run first.")
    with file_errors(path, "restored"):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        deleted.path.rename(path)
        sync_folder(path.parent)


def free(deleted: Deleted) -> None:
    """Delete it for good. Raises HarnessError if that fails; the next `free_expired` tries again."""
    # Renamed first, so that it cannot be restored when a part of it is gone.
    expired = deleted.path.with_name(f"0-{deleted.name}")
    with file_errors(deleted.path, "deleted"):
        if deleted.path != expired:
            remove_tree(expired)
            deleted.path.rename(expired)
        remove_tree(expired)


def free_expired() -> None:
    """Delete for good what can no longer be restored. What cannot be deleted stays."""
    for record in deleted_records():
        if record.is_expired:
            with contextlib.suppress(HarnessError):
                free(record)
