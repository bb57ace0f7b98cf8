"""The processes of a run, found by what stands in their arguments: quickly, since a soak looks thousands of times."""

import os
from pathlib import Path

from harness.runs.folder import RunFolder
from tests.functional.machine import kill_and_wait

_WORKER, _SUPERVISOR = b"harness.worker", b"harness.supervisor"


def processes_of(folder: RunFolder) -> dict[int, list[bytes]]:
    """The arguments of every living process that names the run's folder, by process id."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                arguments = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            # A zombie has none.
            if bytes(folder.path) in arguments:
                found[int(name)] = arguments.split(b"\0")
    return found


def workers_of(folder: RunFolder) -> list[int]:
    """The worker, its sandbox or reaper, and whatever else was started with the worker's inputs."""
    inputs = bytes(folder.scratch / "inputs")
    return [pid for pid, arguments in processes_of(folder).items() if inputs in arguments]


def supervisors_of(folder: RunFolder) -> list[int]:
    """Whatever process supervises the run, known to its record or not yet."""
    return [pid for pid, arguments in processes_of(folder).items() if _SUPERVISOR in arguments]


def killed_worker(folder: RunFolder) -> bool:
    """Kill the process that runs the attack's code; false when there is none."""
    for pid, arguments in processes_of(folder).items():
        # A sandbox and a reaper have the same arguments, and more before them.
        if _WORKER in arguments[:5]:
            kill_and_wait(pid)
            return True
    return False


def killed_supervisor(folder: RunFolder) -> bool:
    """Kill the run's supervisor; false when there is none."""
    supervisors = supervisors_of(folder)
    for pid in supervisors:
        kill_and_wait(pid)
    return bool(supervisors)
