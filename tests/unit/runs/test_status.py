"""A status is what the record and the living processes say together."""

import os
import subprocess
import sys
import time

import psutil
import pytest

from harness.core.times import seconds_since_boot
from harness.runs.status import Process, Status, boot_id, derived_status, process_in, process_with

GOING = [Status.QUEUED, Status.STARTING, Status.RUNNING, Status.FINISHING]
OVER = [Status.FINISHED, Status.OUT_OF_TIME, Status.STOPPED, Status.CRASHED]


@pytest.mark.parametrize("status", GOING)
def test_a_phase_counts_while_its_supervisor_lives_and_is_lost_with_it(status: Status) -> None:
    assert derived_status(status, supervisor_is_alive=True) is status
    assert derived_status(status, supervisor_is_alive=False) is Status.LOST
    assert not status.is_over


@pytest.mark.parametrize("status", OVER)
def test_an_ending_stands_whether_its_supervisor_lives_or_not(status: Status) -> None:
    assert derived_status(status, supervisor_is_alive=True) is status
    assert derived_status(status, supervisor_is_alive=False) is status
    assert status.is_over


def test_a_run_without_a_phase_is_starting_or_lost() -> None:
    assert derived_status(None, supervisor_is_alive=True) is Status.STARTING
    assert derived_status(None, supervisor_is_alive=False) is Status.LOST


def test_a_process_is_itself_as_long_as_it_runs() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = Process.from_record(Process.of(child.pid).as_record())
    assert process.is_alive
    child.kill()
    time.sleep(0.1)
    assert not process.is_alive, "a zombie is dead"
    child.wait()
    assert not process.is_alive
    with pytest.raises(psutil.NoSuchProcess):
        Process.of(child.pid)


def test_a_number_that_is_used_again_is_another_process() -> None:
    ours = Process.of(os.getpid())
    assert ours.is_alive
    assert not Process(ours.pid, ours.created - 10, ours.boot).is_alive
    assert not Process(ours.pid, ours.created, "another boot").is_alive
    assert ours.boot == boot_id()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere the creation time is on the wall clock")
def test_setting_the_clock_makes_no_process_another() -> None:
    created = Process.of(os.getpid()).created
    # Seconds since the boot, not since the epoch: the wall clock has no part in it.
    assert 0 < created <= seconds_since_boot() < created + 3600
