"""The processes of a run, by their arguments. A supervisor that is starting has no record yet."""

import contextlib

import psutil

from harness.runs.folder import RunFolder
from tests.functional.machine import kill_and_wait, processes_that_name, wait_until


def workers_of(folder: RunFolder) -> list[int]:
    """Return the worker, its sandbox or reaper, and all other processes with the worker's inputs."""
    return [process.pid for process in processes_that_name(str(folder.scratch_of(0) / "inputs"))]


def supervisors_of(folder: RunFolder) -> list[int]:
    """Return the supervisors of the run, in its record or not yet."""
    pids = []
    for process in processes_that_name(str(folder.path)):
        with contextlib.suppress(psutil.Error):
            if "harness.supervisor" in process.cmdline():
                pids.append(process.pid)
    return pids


def kill_supervisor(folder: RunFolder) -> bool:
    """Kill the run's supervisor. Return False if there is none."""
    supervisors = supervisors_of(folder)
    for pid in supervisors:
        kill_and_wait(pid)
    if supervisors:
        # The kernel releases the lock when the last thread is gone.
        wait_until(lambda: not folder.is_alive)
    return bool(supervisors)
