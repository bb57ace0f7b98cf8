"""What befalls a whole machine: a disk that fills, a wall clock set back, a machine that is suspended.

Each calamity is a function on a machine of its own that raises Violation, and returns what it saw in a few figures.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.runs.folder import RunFolder
from tests.functional.machine import Machine, guess_count, wait_until
from tests.soak import laws, record
from tests.soak.lane import Work
from tests.soak.laws import Violation
from tests.soak.processes import killed_supervisor, processes_of
from tests.soak.wall_clock import set_back
from tests.soak.witness import Witness, boot_seconds

DISK = "6m"
_FULL_SECONDS = 4.0
_SET_BACK_SECONDS = 3600.0
_SUSPENDED_SECONDS = 6.0


def full_disk(machine: Machine, work: Work) -> dict[str, Any]:
    """Fill the disk: the run ends with every acknowledged guess, and resumes to the same bytes once there is space."""
    reference = Path(machine.json("run", *work.base, *work.quickly)["directory"])
    folder, witness = _begun(machine, work)
    _wait_for_guesses(folder)
    rest = _fill(machine)
    laws.status_is(machine, folder, "crashed")
    if not machine.summary(folder)["reason"].startswith("disk full"):
        raise Violation(f"{folder.path}: a full disk ended it with {machine.summary(folder)['reason']!r}")
    alive = witness.alive()
    laws.nothing_of_it_is_alive(folder)
    laws.store_is_readable(folder)
    acknowledged = laws.every_acknowledged_guess_is_stored(folder, witness)
    rest.unlink()
    starts = len(_starts(folder))
    machine.run("resume", folder.id, "--detach")
    wait_until(lambda: len(_starts(folder)) > starts)
    margin = laws.no_second_is_gained(folder, charged=_starts(folder)[starts], alive=alive)
    _finished_alike(machine, folder, witness, reference)
    return {"acknowledged": acknowledged, "charged_beyond_life_s": round(margin, 3)}


def wall_clock_set_back(machine: Machine, work: Work) -> dict[str, Any]:
    """An hour back while a run goes on, killed and resumed meanwhile: neither its budget nor its end are another."""
    reference = Path(machine.json("run", *work.base, *work.quickly)["directory"])
    folder, witness = _begun(machine, work)
    _wait_for_guesses(folder)
    with set_back(_SET_BACK_SECONDS) as means:
        time.sleep(1.0)
        laws.status_is(machine, folder, "running")
        killed_supervisor(folder)
        alive, starts = witness.alive(), len(_starts(folder))
        laws.status_is(machine, folder, "lost")
        machine.run("resume", folder.id, "--detach")
        wait_until(lambda: len(_starts(folder)) > starts)
    margin = laws.no_second_is_gained(folder, charged=_starts(folder)[starts], alive=alive)
    if margin > 2.0:
        raise Violation(f"{folder.path}: a clock set back was charged: {margin:.3f} s beyond its workers' life")
    _finished_alike(machine, folder, witness, reference)
    charged = record.ledger(folder.store)[-1].spent
    return {"means": means, "charged_beyond_life_s": round(charged - witness.alive(), 3)}


def suspended(machine: Machine, work: Work) -> dict[str, Any]:
    """Everything of a run stopped for a while: it is charged, and a budget that ended meanwhile ends at once."""
    reference = Path(machine.json("run", *work.base, *work.quickly)["directory"])
    folder, witness = _begun(machine, work)
    _wait_for_guesses(folder)
    before = record.ledger(folder.store)[-1].spent
    with _stopped(folder):
        time.sleep(_SUSPENDED_SECONDS)
    wait_until(lambda: record.ledger(folder.store)[-1].spent >= before + _SUSPENDED_SECONDS, seconds=3.0)
    _finished_alike(machine, folder, witness, reference)

    late, witness = _begun(machine, work, "--budget", "6s", "--set", "pause=0.5")
    _wait_for_guesses(late)
    with _stopped(late):
        time.sleep(_SUSPENDED_SECONDS)
    woken = boot_seconds()
    wait_until(lambda: machine.summary(late)["status"] != "running")
    laws.nothing_of_it_is_alive(late)
    ended_after = boot_seconds() - woken
    wait_until(lambda: machine.summary(late)["status"] in ("out_of_time", "crashed", "finished"))
    laws.status_is(machine, late, "out_of_time")
    if ended_after > 1.0:
        raise Violation(f"{late.path}: its budget was over when it woke, and it went on for {ended_after:.2f} s")
    laws.every_acknowledged_guess_is_stored(late, witness)
    laws.ledger_never_shrinks(late)
    witness.close()
    return {"suspended_s": 2 * _SUSPENDED_SECONDS, "ended_after_waking_s": round(ended_after, 3)}


@contextlib.contextmanager
def small_disk(place: Path) -> Iterator[None]:
    """A disk of its own at `place`. Raises CalledProcessError where none can be mounted."""
    place.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(place)], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def _begun(machine: Machine, work: Work, *instead: str) -> tuple[RunFolder, Witness]:
    """A run that goes on, slowly, or as `instead` says."""
    options = instead or work.slowly
    folder = RunFolder(Path(machine.json("run", *work.base, *options, "--detach")["directory"]))
    return folder, Witness(folder)


def _wait_for_guesses(folder: RunFolder) -> None:
    wait_until(lambda: guess_count(folder) > 0)


def _fill(machine: Machine) -> Path:
    """Return a file that takes the rest of the disk."""
    rest = machine.runs.parent / "rest"
    with contextlib.suppress(OSError), rest.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    return rest


def _starts(folder: RunFolder) -> list[float]:
    return [row.spent for row in record.ledger(folder.store) if row.entry == "start"]


def _finished_alike(machine: Machine, folder: RunFolder, witness: Witness, reference: Path) -> None:
    wait_until(lambda: machine.summary(folder)["status"] in ("finished", "crashed", "lost", "out_of_time"), seconds=60)
    witness.close()
    laws.status_is(machine, folder, "finished")
    laws.store_is_readable(folder)
    laws.results_are(folder, reference)
    laws.every_acknowledged_guess_is_stored(folder, witness)
    laws.no_second_is_gained(folder, charged=laws.ledger_never_shrinks(folder), alive=witness.alive())


@contextlib.contextmanager
def _stopped(folder: RunFolder) -> Iterator[None]:
    """Every process of the run stopped, as a machine is that sleeps."""
    processes = list(processes_of(folder))
    for pid in processes:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
