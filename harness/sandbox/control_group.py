"""A control group that limits one sandboxed process and its descendants, of version 2 or version 1.

The group is created below this process's own group, or below the next ancestor that this user may write to and that
delegates its controllers. Its name contains this process's id, so that a later process can clean up after a crash.
"""

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from harness.core.hardware import VERSION_2, own_groups
from harness.sandbox.reaper import kill_until_gone

ADVICE = "Give this user control groups (version 2 or 1) that it may write to."
_HIERARCHIES = {VERSION_2: ("memory", "pids"), "memory": ("memory",), "pids": ("pids",)}
"""The controllers in each hierarchy: version 2 has one for all, version 1 has one for each."""
_REMOVE_SECONDS = 1.0
_number = itertools.count()


@dataclass(frozen=True)
class _Group:
    """A directory that was created in a hierarchy of this version, and the controllers whose limit was set in it."""

    path: Path
    version: int
    controllers: frozenset[str]


class ControlGroup:
    """Limits on memory and on the number of processes: both, one or none, as the machine allows."""

    def __init__(self, *, memory: int | None, processes: int | None) -> None:
        """Create the group. `memory` in bytes; `processes` counts threads too; None sets no limit."""
        all_limits = {"memory": memory, "pids": processes}
        self._groups: list[_Group] = []
        parents = own_groups()
        for hierarchy, controllers in _HIERARCHIES.items():
            missing = set(controllers) - self.version_by_controller.keys()
            limits = {name: limit for name, limit in all_limits.items() if limit is not None and name in missing}
            version = 2 if hierarchy == VERSION_2 else 1
            if (group := _create_group(parents.get(hierarchy, ()), version, limits)) is not None:
                self._groups.append(group)

    @property
    def version_by_controller(self) -> dict[str, int]:
        """The version of control groups that enforces the limit of each controller ("memory", "pids")."""
        return {name: group.version for group in self._groups for name in group.controllers}

    def enter_command(self, argv: list[str]) -> list[str]:
        """Return a command that moves itself into the group and then becomes `argv`."""
        if not self._groups:
            return argv
        script = 'until [ "$1" = -- ]; do echo 0 > "$1" || exit 125; shift; done; shift; exec "$@"'
        files = [str(group.path / "cgroup.procs") for group in self._groups]
        return ["/bin/sh", "-c", script, "sh", *files, "--", *argv]

    def memory_kills(self) -> int | None:
        """Return how many processes the kernel killed because memory ran out; None if it does not count them here."""
        for group in self._groups:
            if "memory" in group.controllers:
                with contextlib.suppress(OSError, ValueError, KeyError):
                    file = group.path / ("memory.events" if group.version == 2 else "memory.oom_control")
                    return int(dict(line.split() for line in file.read_text().splitlines())["oom_kill"])
        return None

    def kill_once(self) -> None:
        """Kill all current members, without waiting."""
        for group in self._groups:
            _kill_members(group.path)

    def kill(self) -> bool:
        """Kill members until none is left. Return False if for 5 s no more members end."""
        return all(_kill_until_empty(group.path) for group in self._groups)

    def remove(self) -> None:
        """Delete the group, which must be empty."""
        for group in self._groups:
            _remove(group.path)


def _create_group(parents: Sequence[Path], version: int, limits: Mapping[str, int]) -> _Group | None:
    """Create a group with as many of the limits as possible; None if there is no limit, or nothing can be limited."""
    for parent in parents if limits else ():
        path = parent / f"{_prefix()}{os.getpid()}-{next(_number)}"
        try:
            if version == 2 and limits.keys().isdisjoint((parent / "cgroup.subtree_control").read_text().split()):
                continue
            _remove_abandoned(parent)
            path.mkdir()
        except OSError:
            continue
        controllers = frozenset(name for name, value in limits.items() if _set_limit(path, version, name, value))
        # A group inside another user's group can be created, but no process can be moved into it.
        if controllers and (version == 1 or os.access(parent / "cgroup.procs", os.W_OK)):
            return _Group(path, version, controllers)
        _remove(path)
    return None


def _set_limit(group: Path, version: int, controller: str, value: int) -> bool:
    """Set a limit, for memory also the one on swap. Return False if the group does not have it."""
    if controller == "pids":
        return _write(group / "pids.max", value)
    if version == 2:
        is_limited = _write(group / "memory.max", value)
        _write(group / "memory.swap.max", 0)  # absent in kernels without swap accounting
    else:
        is_limited = _write(group / "memory.limit_in_bytes", value)
        _write(group / "memory.memsw.limit_in_bytes", value)  # includes swap; absent as above
    return is_limited


def _write(file: Path, value: int) -> bool:
    """Write `value`. Return False if the file does not exist or cannot be written."""
    try:
        file.write_text(str(value))
    except OSError:
        return False
    return True


def _kill_until_empty(group: Path) -> bool:
    return kill_until_gone(lambda: _kill_members(group))


def _kill_members(group: Path) -> int:
    """Kill every member once. Return their number."""
    try:
        members = (group / "cgroup.procs").read_text().split()
    except OSError:
        return 0
    for pid in members:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    return len(members)


def _remove(group: Path) -> None:
    """Delete the group. The kernel releases the memory of its last process with a delay, so this tries for a second."""
    deadline = time.monotonic() + _REMOVE_SECONDS
    while group.exists() and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.005)


def _remove_abandoned(parent: Path) -> None:
    """Kill and remove the groups of supervisors that no longer exist."""
    for group in parent.glob(f"{_prefix()}*-*"):
        creator = group.name.removeprefix(_prefix()).partition("-")[0]
        if creator.isdigit() and not psutil.pid_exists(int(creator)) and _kill_until_empty(group):
            _remove(group)


def _prefix() -> str:
    # A process id is valid in one namespace only, and containers may share one cgroup hierarchy.
    return f"harness-{Path('/proc/self/ns/pid').stat().st_ino}-"
