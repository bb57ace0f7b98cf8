"""The status of a run is derived from its last phase and its lock."""

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from harness.core.files import is_locked, try_lock
from harness.core.times import seconds_since_boot
from harness.runs.status import Process, Status, derived_status

ACTIVE = [Status.QUEUED, Status.STARTING, Status.RUNNING, Status.FINISHING]
OVER = [Status.FINISHED, Status.OUT_OF_TIME, Status.STOPPED, Status.CRASHED]


@pytest.mark.parametrize("status", ACTIVE)
def test_an_active_phase_without_a_supervisor_is_lost(status: Status) -> None:
    assert derived_status(status, is_alive=True) is status
    assert derived_status(status, is_alive=False) is Status.LOST
    assert not status.is_over


@pytest.mark.parametrize("status", OVER)
def test_a_final_phase_is_the_status(status: Status) -> None:
    assert derived_status(status, is_alive=True) is status
    assert derived_status(status, is_alive=False) is status
    assert status.is_over


def test_a_run_without_a_phase_is_starting_or_lost() -> None:
    assert derived_status(None, is_alive=True) is Status.STARTING
    assert derived_status(None, is_alive=False) is Status.LOST


def test_a_held_lock_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not is_locked(path) and not path.exists()
    held = try_lock(path)
    assert held is not None and is_locked(path)
    assert try_lock(path, patience=0.0) is None
    held.close()
    assert not is_locked(path)


def test_checking_a_lock_does_not_block_a_supervisor(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    checker = multiprocessing.get_context("spawn").Process(target=check_forever, args=(path,), daemon=True)
    checker.start()
    try:
        for _ in range(50):
            held = try_lock(path)
            assert held is not None
            held.close()
    finally:
        checker.kill()
        checker.join()


def check_forever(path: Path) -> None:
    while True:
        is_locked(path)


def test_a_process_is_found_until_it_ends() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = Process.from_record(Process.of(child.pid).as_record())
    assert process.is_here
    child.kill()
    while psutil.Process(child.pid).status() != psutil.STATUS_ZOMBIE:
        pass
    assert not process.is_here, "a zombie has ended"
    child.wait()
    assert not process.is_here
    with pytest.raises(psutil.NoSuchProcess):
        Process.of(child.pid)


def test_a_reused_process_id_is_a_different_process() -> None:
    own = Process.of(os.getpid())
    assert own.is_here
    assert not Process(own.pid, own.created - 10, own.boot).is_here
    assert not Process(own.pid, own.created, "another boot").is_here


def test_the_creation_time_does_not_depend_on_the_wall_clock() -> None:
    created = Process.of(os.getpid()).created
    assert 0 < created <= seconds_since_boot() < created + 3600
