"""The queue for devices: which runs wait, in which order, and for how long at most.

The order is one file, replaced at each change. A run waits as long as its supervisor locks a file in the run's
directory. The kernel releases that lock when the supervisor dies, so entries whose file is not locked are ignored.
"""

import contextlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, Self

from pydantic import BaseModel, TypeAdapter, ValidationError

from harness.core.errors import HarnessError
from harness.core.files import is_locked, try_lock, write_atomically
from harness.core.inputs import as_harness_error
from harness.core.paths import locks_home
from harness.core.text import ordinal, pluralize
from harness.core.times import format_duration
from harness.runs.folder import RunFolder
from harness.runs.reader import RunReader

_CHANGE_SECONDS = 10.0
"""The longest wait for another change of the queue, which takes milliseconds."""


class QueuedRun(BaseModel, frozen=True):
    """A run in the queue."""

    run: str
    devices: dict[str, str]
    """The lock of each device that it may take, by the device's name."""
    budget_s: float
    """The wall seconds that are left of its budget."""
    needs_all: bool = False
    """The run takes all of its devices, not one of them."""

    @property
    def is_waiting(self) -> bool:
        """True if its supervisor waits now."""
        return is_locked(RunFolder.of(self.run).queue_lock)

    def competes_with(self, run: "QueuedRun") -> bool:
        """Return True if both runs may take the same device."""
        return not set(self.devices.values()).isdisjoint(run.devices.values())


_ORDER = TypeAdapter(list[QueuedRun])


class Move(StrEnum):
    """A change of a run's place in the queue, among the runs that may take the same device."""

    FIRST = "first"
    UP = "up"
    DOWN = "down"
    LAST = "last"


@dataclass(frozen=True)
class Wait:
    """The wait of one run.

    devices: names of the devices that it may take.
    holders: the runs that hold them now, the first to end first; "" for a process that is no run.
    position, length: place among the waiting runs that may take the same device, from 1, and their number.
    at_most_s: what is left of the holders' budgets and of the budgets of the runs before it; None if that is unknown.
    needs_all: it takes all of the devices, not one of them.
    about_s: the ETA of the run that holds the device, after which the first run in the queue starts.
    """

    devices: tuple[str, ...]
    holders: tuple[str, ...]
    position: int
    length: int
    at_most_s: float | None
    needs_all: bool = False
    about_s: float | None = None

    @property
    def waits_for(self) -> str | None:
        """The id of the run that holds the device; of several, the one whose budget ends first."""
        return next(filter(None, self.holders), None)

    @property
    def summary(self) -> dict[str, Any]:
        """The fields of `RunSummary` about the wait."""
        return {
            "queue_position": self.position,
            "queue_length": self.length,
            "waits_for": self.waits_for,
            "wait_at_most_s": self.at_most_s,
            "wait_about_s": self.about_s,
        }

    @property
    def sentence(self) -> str:
        """The reason of a queued run."""
        limit = "" if self.at_most_s is None else f", at most {format_duration(self.at_most_s)}"
        before = f" and {pluralize(self.position - 1, 'run')}" if self.position > 1 else ""
        limit = limit if self.about_s is None else f", about {format_duration(self.about_s)}{before}"
        names = " and ".join(f"run {holder}" if holder else "another process" for holder in self.holders)
        held = f"{names} {'holds it' if len(self.holders) == 1 else 'hold them'}; " if names else ""
        place = f"{ordinal(self.position)} of {self.length} in the queue"
        joined = (" and " if self.needs_all else " or ").join(self.devices)
        return f"waiting for {joined}{limit}: {held}{place}."


class QueuePlace:
    """The place of one run in the queue, held by its supervisor inside a `with` block."""

    def __init__(
        self, folder: RunFolder, devices: Mapping[str, str], *, budget_s: float, needs_all: bool = False
    ) -> None:
        """`devices`, `budget_s` and `needs_all` are those of `QueuedRun`."""
        self._folder = folder
        self._entry = QueuedRun(run=folder.id, devices=dict(devices), budget_s=budget_s, needs_all=needs_all)
        self._lock: IO[bytes] | None = None

    def __enter__(self) -> Self:
        """Enter the queue at its end. Raises OSError or HarnessError if the queue cannot be changed."""
        self._lock = try_lock(self._folder.queue_lock)
        self._append()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the queue."""
        if self._lock is not None:
            with contextlib.suppress(OSError):
                self._folder.queue_lock.unlink()
            self._lock.close()

    def locks_wanted_before(self) -> set[str]:
        """Return the locks of the devices that runs before this one wait for."""
        order = _read_order()
        if not any(entry.run == self._entry.run for entry in order):
            # Somebody deleted the file.
            self._append()
            order = _read_order()
        before = itertools.takewhile(lambda entry: entry.run != self._entry.run, order)
        return {lock for entry in before if entry.is_waiting for lock in entry.devices.values()}

    def _append(self) -> None:
        with _changed_order() as order:
            order[:] = [entry for entry in order if entry.run != self._entry.run and entry.is_waiting]
            order.append(self._entry)


def queued_runs() -> list[QueuedRun]:
    """Return the runs that wait for a device now, in the order in which they are served."""
    return [entry for entry in _read_order() if entry.is_waiting]


def move_in_queue(run_id: str, move: Move) -> None:
    """Move a queued run before or behind the runs that may take the same device.

    Raises HarnessError if the run is not in the queue, or if the queue cannot be changed.
    """
    with as_harness_error(_order_file()), _changed_order() as order:
        waiting = [entry for entry in order if entry.is_waiting]
        moved = _entry_of(run_id, waiting)
        if moved is None:
            raise HarnessError(f"{run_id} does not wait for a device. harness list queue lists the runs that do.")
        rest = [entry for entry in waiting if entry is not moved]
        competing = [index for index, entry in enumerate(rest) if entry.competes_with(moved)]
        place = sum(index < waiting.index(moved) for index in competing)
        target = {Move.FIRST: 0, Move.UP: max(place - 1, 0), Move.DOWN: place + 1, Move.LAST: len(competing)}[move]
        if target < len(competing):
            rest.insert(competing[target], moved)
        else:
            rest.append(moved)
        order[:] = rest


def wait_of(run_id: str) -> Wait | None:
    """Return the reason why a run waits; None if it is not in the queue."""
    queue = queued_runs()
    queued = _entry_of(run_id, queue)
    if queued is None:
        return None
    competing = [entry for entry in queue if entry.competes_with(queued)]
    holders = {lock: device_holder(lock) for entry in queue for lock in entry.devices.values()}
    free_in = {lock: 0.0 if holder is None else _remaining_seconds(holder) for lock, holder in holders.items()}
    held = sorted((lock for lock in queued.devices.values() if holders[lock] is not None), key=free_in.__getitem__)
    # Each run before this one takes the device that is free first, or all of its own, and spends its whole budget.
    for entry in queue[: queue.index(queued)]:
        locks, end = tuple(entry.devices.values()), _start_of(entry, free_in) + entry.budget_s
        free_in |= dict.fromkeys(locks if entry.needs_all else [min(locks, key=free_in.__getitem__)], end)
    longest = _start_of(queued, free_in)
    return Wait(
        devices=tuple(queued.devices),
        holders=tuple(holders[lock] or "" for lock in held),
        position=competing.index(queued) + 1,
        length=len(competing),
        at_most_s=longest if math.isfinite(longest) else None,
        needs_all=queued.needs_all,
    )


def _start_of(run: QueuedRun, free_in: Mapping[str, float]) -> float:
    """Return in how many seconds a run can start if each device is free in `free_in` seconds, by its lock."""
    times = [free_in[lock] for lock in run.devices.values()]
    return max(times) if run.needs_all else min(times)


def device_holder(lock: str) -> str | None:
    """Return the id of the run that holds a device's lock, "" if the process has no run, None if the device is free."""
    file = locks_home() / lock
    if not is_locked(file):
        return None
    try:
        return file.read_text(encoding="utf-8", errors="replace").partition("\n")[0]
    except OSError:
        return ""


def _remaining_seconds(run_id: str) -> float:
    """Return the seconds that are left of a run's budget; infinity if its record cannot be read."""
    folder = RunFolder.of(run_id)
    try:
        spec = folder.spec()
        with RunReader(folder.store) as reader:
            last = reader.last_ledger()
    except HarnessError:
        return math.inf
    return max(0.0, spec.budget - (0.0 if last is None else last.spent))


def _entry_of(run_id: str, entries: Sequence[QueuedRun]) -> QueuedRun | None:
    return next((entry for entry in entries if entry.run == run_id), None)


def _order_file() -> Path:
    return locks_home() / "queue.json"


def _read_order() -> list[QueuedRun]:
    """Return all entries in order. A file that is missing or damaged has none: each run that waits enters again."""
    try:
        return _ORDER.validate_json(_order_file().read_bytes())
    except (OSError, ValidationError):
        return []


@contextlib.contextmanager
def _changed_order() -> Iterator[list[QueuedRun]]:
    """Give the entries to change, and store them when the block ends. One process at a time is inside the block.

    Raises HarnessError if another process does not leave it, and OSError if the file cannot be written.
    """
    file = _order_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    mutex = try_lock(file.with_suffix(".lock"), patience=_CHANGE_SECONDS)
    if mutex is None:
        raise HarnessError(f"{file}: locked by another process for {_CHANGE_SECONDS:g} s. Try again.")
    with mutex:
        order = _read_order()
        yield order
        write_atomically(file, _ORDER.dump_json(order))
