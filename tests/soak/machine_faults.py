"""Faults of a whole machine: a full disk, a wall clock that is set back, and a suspension.

Each fault is a function on its own machine that raises Violation, or returns a few figures.
"""

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from harness.runs.folder import RunFolder
from tests.functional.machine import OVER, Machine, fill_disk, guess_count, processes_that_name, wait_until
from tests.soak import invariants, record
from tests.soak.invariants import Violation
from tests.soak.observer import Observer, boot_seconds
from tests.soak.processes import kill_supervisor
from tests.soak.runner import Workload, start_charges
from tests.soak.wall_clock import set_back

DISK = "6m"
_SET_BACK_SECONDS = 3600.0
_SUSPENDED_SECONDS = 6.0


def full_disk(machine: Machine, workload: Workload) -> dict[str, Any]:
    """Fill the disk: the run keeps every acknowledged guess, and resumes to the same bytes once there is space."""
    reference = workload.reference(machine)
    folder, observer = _start(machine, workload)
    rest = fill_disk(machine.runs.parent)
    wait_until(lambda: machine.summary(folder)["status"] in OVER)
    invariants.check_status(machine, folder, "crashed")
    if not machine.summary(folder)["reason"].startswith("disk full"):
        raise Violation(f"{folder.path}: a full disk ended it with {machine.summary(folder)['reason']!r}")
    lifetime = observer.lifetime()
    acknowledged = invariants.check_after_fault(folder, observer)
    rest.unlink()
    margin = _resume(machine, folder, lifetime)
    _check_finished(machine, folder, observer, reference)
    return {"acknowledged": acknowledged, "charged_beyond_lifetime_s": round(margin, 3)}


def clock_set_back(machine: Machine, workload: Workload) -> dict[str, Any]:
    """Set the clock back by an hour during a run that is killed and resumed: its budget and result do not change."""
    reference = workload.reference(machine)
    folder, observer = _start(machine, workload)
    with set_back(_SET_BACK_SECONDS):
        time.sleep(1.0)
        invariants.check_status(machine, folder, "running")
        kill_supervisor(folder)
        lifetime = observer.lifetime()
        invariants.check_status(machine, folder, "lost")
        margin = _resume(machine, folder, lifetime)
    if margin > 2.0:
        raise Violation(f"{folder.path}: charged {margin:.3f} s beyond the lifetime of its workers")
    return {"charged_beyond_lifetime_s": round(_check_finished(machine, folder, observer, reference), 3)}


def suspension(machine: Machine, workload: Workload) -> dict[str, Any]:
    """Stop all processes of a run for a while: the time is charged, and a budget that is over ends the run at once."""
    reference = workload.reference(machine)
    folder, observer = _start(machine, workload)
    before = record.ledger(folder.store)[-1].spent
    with _stopped(folder):
        time.sleep(_SUSPENDED_SECONDS)
    wait_until(lambda: record.ledger(folder.store)[-1].spent >= before + _SUSPENDED_SECONDS, seconds=3.0)
    _check_finished(machine, folder, observer, reference)

    late, observer = _start(machine, workload, "--budget", "6s", "--set", "pause=0.5")
    with _stopped(late):
        time.sleep(_SUSPENDED_SECONDS)
    continued = boot_seconds()
    wait_until(lambda: machine.summary(late)["status"] != "running")
    invariants.check_no_worker(late)
    ended_after = boot_seconds() - continued
    wait_until(lambda: machine.summary(late)["status"] in OVER)
    invariants.check_status(machine, late, "out_of_time")
    if ended_after > 1.0:
        raise Violation(f"{late.path}: it ran for {ended_after:.2f} s after a suspension longer than its budget")
    invariants.check_after_fault(late, observer)
    observer.close()
    return {"suspended_s": 2 * _SUSPENDED_SECONDS, "ended_after_suspension_s": round(ended_after, 3)}


@contextlib.contextmanager
def small_disk(place: Path) -> Iterator[None]:
    """Mount a small disk at `place`. Raises CalledProcessError if that is not allowed."""
    place.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(place)], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def _start(machine: Machine, workload: Workload, *options: str) -> tuple[RunFolder, Observer]:
    """Start a slow run, or one with `options`, and wait for its first guesses."""
    folder = workload.start(machine, *(options or workload.slow))
    observer = Observer(folder)
    wait_until(lambda: guess_count(folder) > 0)
    return folder, observer


def _resume(machine: Machine, folder: RunFolder, lifetime: float) -> float:
    """Resume a run whose workers were alive for `lifetime` seconds. Return the seconds that it was charged beyond."""
    starts = len(start_charges(folder))
    machine.run("resume", folder.id, "--detach")
    wait_until(lambda: len(start_charges(folder)) > starts)
    return invariants.check_charge(folder, charged=start_charges(folder)[starts], lifetime=lifetime)


def _check_finished(machine: Machine, folder: RunFolder, observer: Observer, reference: Path) -> float:
    wait_until(lambda: machine.summary(folder)["status"] in OVER, seconds=60)
    invariants.check_status(machine, folder, "finished")
    return invariants.check_finished(folder, observer, reference)


@contextlib.contextmanager
def _stopped(folder: RunFolder) -> Iterator[None]:
    """Stop every process of the run, as a suspension does."""
    processes = processes_that_name(str(folder.path))
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()
