"""A control group that limits one sandboxed process and its descendants, of version 2 or version 1.

The group is created below this process's own group, or below the next ancestor that this user may write to and that
delegates its controllers. Its name contains this process's id, so that a later process can clean up after a crash.
"""

import contextlib
import itertools
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

ADVICE = "needs control groups that this user may write to, version 2 or 1."
_STALL_SECONDS = 5.0
_REMOVE_SECONDS = 1.0
_number = itertools.count()
Controller = Literal["memory", "pids"]


@dataclass(frozen=True)
class _Hierarchy:
    """A mounted hierarchy, and the directories in which a group may be created, this process's own group first."""

    version: int
    controllers: tuple[Controller, ...]
    parents: tuple[Path, ...]


@dataclass(frozen=True)
class _Group:
    """A directory that was created in one hierarchy, and the limits that were set in it."""

    path: Path
    limits: frozenset[Controller]
    version: int


class ControlGroup:
    """Limits on memory and on the number of processes: both, one or none, as the machine allows."""

    def __init__(self, *, memory: int | None, processes: int | None) -> None:
        """Create the group. `memory` in bytes; `processes` counts threads too; None sets no limit."""
        wanted: dict[Controller, int] = {}
        if memory is not None:
            wanted["memory"] = memory
        if processes is not None:
            wanted["pids"] = processes
        groups = [_create_group(hierarchy, wanted) for hierarchy in _hierarchies()]
        self._groups = [group for group in groups if group is not None]

    @property
    def version_by_limit(self) -> dict[str, int]:
        """The version of control groups that enforces each limit."""
        return {limit: group.version for group in self._groups for limit in group.limits}

    def enter_command(self, argv: list[str]) -> list[str]:
        """Return a command that moves itself into the group and then becomes `argv`."""
        if not self._groups:
            return argv
        script = 'until [ "$1" = -- ]; do echo 0 > "$1" || exit 125; shift; done; shift; exec "$@"'
        files = [str(group.path / "cgroup.procs") for group in self._groups]
        return ["/bin/sh", "-c", script, "sh", *files, "--", *argv]

    def memory_kills(self) -> int:
        """Return how many processes the kernel killed because the group exceeded its memory limit."""
        files = {1: "memory.oom_control", 2: "memory.events"}
        return sum(_event_count(group, files, "oom_kill") for group in self._groups if "memory" in group.limits)

    def refused_forks(self) -> int:
        """Return how often a process or thread beyond the limit was refused."""
        files = {1: "pids.events", 2: "pids.events"}
        return sum(_event_count(group, files, "max") for group in self._groups if "pids" in group.limits)

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


def _hierarchies() -> list[_Hierarchy]:
    """Return the hierarchies that can limit something: version 2 if it delegates memory, otherwise also version 1."""
    own = _own_groups()
    controllers: dict[str, tuple[Controller, ...]] = {
        "": ("memory", "pids"),
        "memory": ("memory",),
        "pids": ("pids",),
    }
    hierarchies: list[_Hierarchy] = []
    for name, limits in controllers.items():
        if name in own:
            mount, group = own[name]
            parents = tuple(path for path in (group, *group.parents) if path.is_relative_to(mount))
            hierarchies.append(_Hierarchy(1 if name else 2, limits, parents))
            if not name and any(_delegates(parent, ("memory",)) for parent in parents):
                break
    return hierarchies


def _own_groups() -> dict[str, tuple[Path, Path]]:
    """Return where each hierarchy is mounted and this process's group in it, by controller; version 2 is named ''."""
    with contextlib.suppress(OSError, ValueError):
        groups: dict[str, str] = {}
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            groups |= dict.fromkeys(controllers.split(","), path)
        found: dict[str, tuple[Path, Path]] = {}
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            fields, _, after = line.partition(" - ")
            kind, _, options = after.split(" ", 2)
            root, mount = fields.split()[3:5]
            names = {"cgroup2": [""], "cgroup": options.split(",")}.get(kind, [])
            for name in names:
                if name in groups and Path(groups[name]).is_relative_to(root):
                    group = Path(mount) / Path(groups[name]).relative_to(root)
                    found.setdefault(name, (Path(mount), group))
        return found
    return {}


def _delegates(parent: Path, controllers: tuple[Controller, ...]) -> bool:
    """Return True if groups below `parent`, of version 2, get one of the controllers."""
    with contextlib.suppress(OSError):
        return not set(controllers).isdisjoint((parent / "cgroup.subtree_control").read_text().split())
    return False


def _create_group(hierarchy: _Hierarchy, wanted: dict[Controller, int]) -> _Group | None:
    for parent in hierarchy.parents:
        if hierarchy.version == 2 and not _delegates(parent, hierarchy.controllers):
            continue
        path = parent / f"{_prefix()}{os.getpid()}-{next(_number)}"
        try:
            _remove_abandoned(parent)
            path.mkdir()
        except OSError:
            continue
        limits = frozenset(
            name for name in hierarchy.controllers if name in wanted and _set_limit(path, hierarchy, name, wanted[name])
        )
        # A group inside another user's group can be created, but no process can be moved into it.
        if limits and (hierarchy.version == 1 or os.access(parent / "cgroup.procs", os.W_OK)):
            return _Group(path, limits, hierarchy.version)
        _remove(path)
    return None


def _set_limit(group: Path, hierarchy: _Hierarchy, controller: Controller, value: int) -> bool:
    """Set a limit, for memory also the one on swap. Return False if the group does not have it."""
    if controller == "pids":
        return _write(group / "pids.max", value)
    file, swap_file, swap = ("memory.max", "memory.swap.max", 0)
    if hierarchy.version == 1:
        file, swap_file, swap = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", value)
    is_limited = _write(group / file, value)
    # Kernels without swap accounting do not have this file.
    _write(group / swap_file, swap)
    return is_limited


def _write(file: Path, value: int) -> bool:
    """Write `value` if the file exists already. Return False if it cannot be written."""
    try:
        with file.open("r+") as opened:
            opened.write(str(value))
    except OSError:
        return False
    return True


def _event_count(group: _Group, file_by_version: dict[int, str], event: str) -> int:
    with contextlib.suppress(OSError, ValueError):
        for line in (group.path / file_by_version[group.version]).read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == event:
                return int(value)
    return 0


def _kill_until_empty(group: Path) -> bool:
    deadline, fewest = 0.0, 1 << 30
    while (members := _kill_members(group)) > 0:
        if members < fewest:
            # The kernel needs more time for thousands of processes.
            deadline, fewest = time.monotonic() + _STALL_SECONDS, members
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


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
    deadline = time.monotonic() + _REMOVE_SECONDS
    while True:
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            # The kernel releases the memory of the last process with a delay.
            if time.monotonic() > deadline:
                return
            time.sleep(0.005)
        else:
            return


def _remove_abandoned(parent: Path) -> None:
    """Kill and remove the groups of supervisors that no longer exist."""
    for group in parent.glob(f"{_prefix()}*-*"):
        creator = group.name.removeprefix(_prefix()).partition("-")[0]
        if creator.isdigit() and not psutil.pid_exists(int(creator)) and _kill_until_empty(group):
            _remove(group)


def _prefix() -> str:
    # A process id is valid in one namespace only, and containers may share one cgroup hierarchy.
    return f"harness-{Path('/proc/self/ns/pid').stat().st_ino}-"
