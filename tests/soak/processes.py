"""Find the processes of a run by their arguments. Reads /proc directly, which is faster than psutil."""

import os
from pathlib import Path

from harness.runs.folder import RunFolder
from tests.functional.machine import kill_and_wait, wait_until

_WORKER, _SUPERVISOR = b"harness.worker", b"harness.supervisor"


def processes_of(folder: RunFolder) -> dict[int, list[bytes]]:
    """Return the arguments of each process that names the run's directory, by process id."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                arguments = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            # The arguments of a zombie are empty.
            if bytes(folder.path) in arguments:
                found[int(name)] = arguments.split(b"\0")
    return found


def workers_of(folder: RunFolder) -> list[int]:
    """Return the worker, its sandbox or reaper, and all other processes with the worker's inputs."""
    inputs = bytes(folder.scratch_of(0) / "inputs")
    return [pid for pid, arguments in processes_of(folder).items() if inputs in arguments]


def supervisors_of(folder: RunFolder) -> list[int]:
    """Return the supervisors of the run, in its record or not yet."""
    return [pid for pid, arguments in processes_of(folder).items() if _SUPERVISOR in arguments]


def kill_worker(folder: RunFolder) -> bool:
    """Kill the process that runs the attack's code. Return False if there is none."""
    for pid, arguments in processes_of(folder).items():
        # The sandbox and the reaper have the same arguments after their own.
        if _WORKER in arguments[:5]:
            kill_and_wait(pid)
            return True
    return False


def kill_supervisor(folder: RunFolder) -> bool:
    """Kill the run's supervisor. Return False if there is none."""
    supervisors = supervisors_of(folder)
    for pid in supervisors:
        kill_and_wait(pid)
    if supervisors:
        # The kernel releases the lock when the last thread is gone.
        wait_until(lambda: not folder.is_alive)
    return bool(supervisors)
