"""Invariants of a run that hold after any fault. Each check raises Violation."""

import time
from pathlib import Path

from harness.runs.folder import RunFolder
from tests.functional.machine import Machine
from tests.soak import record
from tests.soak.observer import Observer
from tests.soak.processes import workers_of

TOLERANCE_SECONDS = 0.05
"""The observer may overestimate a lifetime: the kernel rounds creation times down to hundredths of a second."""
_GONE_WITHIN_SECONDS = 5.0


class Violation(Exception):
    """An invariant is violated. The message names the invariant and the run."""


def check_store(folder: RunFolder) -> None:
    """Check that SQLite finds no corruption in the store."""
    if (error := record.integrity_error(folder.store)) is not None:
        raise Violation(f"{folder.path}: the store is corrupt: {error}")


def check_acknowledged(folder: RunFolder, observer: Observer) -> int:
    """Check that every acknowledged guess is stored. Return the number of acknowledged guesses."""
    acknowledged = observer.acknowledged()
    missing = acknowledged - record.stored_guesses(folder.store)
    if missing:
        raise Violation(
            f"{folder.path}: {missing.total()} acknowledged guesses are lost, such as {next(iter(missing))}"
        )
    return acknowledged.total()


def check_ledger(folder: RunFolder) -> float:
    """Check that the time in the ledger never decreases. Return the seconds spent."""
    last = 0.0
    for row in record.ledger(folder.store):
        if row.spent < last:
            raise Violation(f"{folder.path}: the ledger decreases from {last} to {row.spent} s at row {row.seq}")
        last = row.spent
    return last


def check_after_fault(folder: RunFolder, observer: Observer) -> int:
    """Check everything that holds once a supervisor has ended. Return the number of acknowledged guesses."""
    check_no_worker(folder)
    check_store(folder)
    check_ledger(folder)
    return check_acknowledged(folder, observer)


def check_finished(folder: RunFolder, observer: Observer, reference: Path) -> float:
    """Check a run that has finished, with the uninterrupted run `reference`. Return the seconds charged too much."""
    observer.close()
    check_store(folder)
    check_submission(folder, reference)
    check_acknowledged(folder, observer)
    return check_charge(folder, charged=check_ledger(folder), lifetime=observer.lifetime())


def check_charge(folder: RunFolder, *, charged: float, lifetime: float) -> float:
    """Check that the run was charged for the lifetime of its workers. Return the seconds charged beyond it."""
    if charged < lifetime - TOLERANCE_SECONDS:
        raise Violation(f"{folder.path}: charged {charged:.3f} s, but its workers were alive for {lifetime:.3f} s")
    return charged - lifetime


def check_no_worker(folder: RunFolder) -> None:
    """Check that all processes of the run end soon after its supervisor."""
    until = time.monotonic() + _GONE_WITHIN_SECONDS
    while left := workers_of(folder):
        if time.monotonic() > until:
            raise Violation(f"{folder.path}: processes {left} outlived the supervisor")
        time.sleep(0.02)


def check_status(machine: Machine, folder: RunFolder, *expected: str) -> str:
    """Check that the status of the run is one of `expected`. Return it."""
    summary = machine.summary(folder)
    if summary["status"] not in expected:
        raise Violation(f"{folder.path}: {summary['status']} ({summary['reason']}), expected one of {expected}")
    return str(summary["status"])


def check_submission(folder: RunFolder, reference: Path) -> None:
    """Check that the submission has the bytes of the uninterrupted run `reference`."""
    if folder.submission.read_bytes() != (reference / "submission.csv").read_bytes():
        raise Violation(f"{folder.path}: its submission differs from that of {reference}")
