"""A control group for one confined process and all that it starts: version 2 of them, else version 1's memory and pids.

A group is made below this process's own, or below an ancestor that hands its controllers down, wherever that may be
written to. It is named after this process, so that what a supervisor left behind when it died can be swept.
"""

import contextlib
import itertools
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

_SHRINKS_WITHIN_SECONDS = 5.0
_number = itertools.count()


@dataclass(frozen=True)
class _Folder:
    """One made group: of version 2, which has every controller, or of one controller of version 1."""

    path: Path
    limits: frozenset[str]
    version: int


class ControlGroup:
    """What holds a confined process's memory and number of processes; of either, of both, or of none."""

    def __init__(self, *, memory: int | None, processes: int | None) -> None:
        """Make what can be made here; `memory` in bytes, `processes` with threads, None for no limit."""
        self._folders = [
            folder
            for parents, version, controllers in _places()
            if (folder := _made(parents, version, controllers, memory, processes)) is not None
        ]

    @property
    def version_by_limit(self) -> dict[str, int]:
        """Of "memory" and "pids", those that are limited, and by which version of control groups."""
        return {limit: folder.version for folder in self._folders for limit in folder.limits}

    def entering(self, argv: list[str]) -> list[str]:
        """`argv`, started by a shell that first moves into the group: nothing it starts is ever outside."""
        if not self._folders:
            return argv
        script = 'until [ "$1" = -- ]; do echo 0 > "$1" || exit 125; shift; done; shift; exec "$@"'
        return [
            "/bin/sh",
            "-c",
            script,
            "sh",
            *(str(folder.path / "cgroup.procs") for folder in self._folders),
            "--",
            *argv,
        ]

    def memory_kills(self) -> int:
        """How many of its processes the kernel killed because they held more than the limit together."""
        return sum(_count(folder, "memory.oom_control", "memory.events", "oom_kill") for folder in self._with("memory"))

    def refused_forks(self) -> int:
        """How often a process or thread more than the limit was asked for."""
        return sum(_count(folder, "pids.events", "pids.events", "max") for folder in self._with("pids"))

    def strike(self) -> None:
        """Kill everything that is in it now, once."""
        for folder in self._folders:
            _struck(folder.path)

    def kill(self) -> bool:
        """Kill whatever is in it until nothing is; false when for 5 s nothing more would die."""
        return all(_emptied(folder.path) for folder in self._folders)

    def remove(self) -> None:
        """Delete it, which needs it to be empty."""
        for folder in self._folders:
            _removed(folder.path)

    def _with(self, limit: str) -> list[_Folder]:
        return [folder for folder in self._folders if limit in folder.limits]


def _places() -> list[tuple[list[Path], int, tuple[str, ...]]]:
    """Where groups may be made: own folder first, then its ancestors, for each hierarchy that limits something."""
    own = _own_groups()
    places: list[tuple[list[Path], int, tuple[str, ...]]] = []
    taken: set[str] = set()
    for controllers in ("", "memory", "pids"):
        if controllers in own:
            mount, inside = own[controllers]
            chain = [mount / inside, *(mount / inside).parents]
            parents = [path for path in chain if path == mount or mount in path.parents]
            kinds = tuple(kind for kind in ([controllers] if controllers else ["memory", "pids"]) if kind not in taken)
            places.append((parents, 1 if controllers else 2, kinds))
            if not controllers and any(_hands_down(parent, "memory") for parent in parents):
                taken |= {"memory", "pids"}
    return [place for place in places if place[2]]


def _own_groups() -> dict[str, tuple[Path, str]]:
    """This process's group in each hierarchy: where that is mounted, and the way from there; version 2 is named ''."""
    with contextlib.suppress(OSError, ValueError):
        groups: dict[str, str] = {}
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            groups |= dict.fromkeys(controllers.split(","), path)
        found: dict[str, tuple[Path, str]] = {}
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            fields, _, after = line.partition(" - ")
            kind, _, options = after.split(" ", 2)
            root, mount = fields.split()[3:5]
            names = [""] if kind == "cgroup2" else options.split(",") if kind == "cgroup" else []
            for name in names:
                if name in groups and (groups[name] == root or groups[name].startswith(root.rstrip("/") + "/")):
                    found.setdefault(name, (Path(mount), groups[name].removeprefix(root).lstrip("/")))
        return found
    return {}


def _hands_down(parent: Path, controller: str) -> bool:
    """Whether groups below `parent` of version 2 have the controller."""
    with contextlib.suppress(OSError):
        return controller in (parent / "cgroup.subtree_control").read_text().split()
    return False


def _made(
    parents: list[Path], version: int, controllers: tuple[str, ...], memory: int | None, processes: int | None
) -> _Folder | None:
    files = _limit_files(version, controllers, memory, processes)
    if not files:
        return None
    for parent in parents:
        if version == 2 and not any(_hands_down(parent, controller) for controller in controllers):
            continue
        folder = parent / f"{_prefix()}{os.getpid()}-{next(_number)}"
        try:
            _sweep(parent)
            folder.mkdir()
        except OSError:
            continue
        limits = frozenset(limit for limit, name, value in files if _is_written(folder / name, value) and limit)
        # A group that may be made but not moved into (a parent of another user's) limits nothing.
        if limits and (version == 1 or os.access(parent / "cgroup.procs", os.W_OK)):
            return _Folder(folder, limits, version)
        _removed(folder)
    return None


def _limit_files(
    version: int, controllers: tuple[str, ...], memory: int | None, processes: int | None
) -> list[tuple[str, str, int]]:
    """(limit or '', file, value) in the order in which they are written."""
    files: list[tuple[str, str, int]] = []
    if memory is not None and "memory" in controllers:
        # Without the second, what is swapped out would not count.
        if version == 2:
            files += [("memory", "memory.max", memory), ("", "memory.swap.max", 0)]
        else:
            files += [("memory", "memory.limit_in_bytes", memory), ("", "memory.memsw.limit_in_bytes", memory)]
    if processes is not None and "pids" in controllers:
        files.append(("pids", "pids.max", processes))
    return files


def _is_written(file: Path, value: int) -> bool:
    # A group lacks the file where its controller is absent, and swap's where the kernel keeps no account of it.
    try:
        with file.open("r+") as opened:
            opened.write(str(value))
    except OSError:
        return False
    return True


def _count(folder: _Folder, name_1: str, name_2: str, key: str) -> int:
    with contextlib.suppress(OSError, ValueError):
        for line in (folder.path / (name_1 if folder.version == 1 else name_2)).read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == key:
                return int(value)
    return 0


def _emptied(group: Path) -> bool:
    until, fewest = 0.0, 1 << 30
    while left := _struck(group):
        if len(left) < fewest:
            # Thousands take a kernel longer than a few.
            until, fewest = time.monotonic() + _SHRINKS_WITHIN_SECONDS, len(left)
        if time.monotonic() > until:
            break
        time.sleep(0.002)
    return not left


def _struck(group: Path) -> list[int]:
    """Kill every member once; who they were."""
    try:
        members = [int(pid) for pid in (group / "cgroup.procs").read_text().split()]
    except OSError:
        return []
    for pid in members:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return members


def _removed(group: Path) -> None:
    until = time.monotonic() + 1.0
    while True:
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            # The last process's memory is given back a moment after it is gone.
            if time.monotonic() > until:
                return
            time.sleep(0.005)
        else:
            return


def _sweep(parent: Path) -> None:
    """End what is left in groups of supervisors that are gone."""
    for group in parent.glob(f"{_prefix()}*-*"):
        maker = group.name.removeprefix(_prefix()).partition("-")[0]
        if maker.isdigit() and not _is_alive(int(maker)) and _emptied(group):
            _removed(group)


def _prefix() -> str:
    # Process ids mean something in their own namespace alone, and containers may share one tree of groups.
    return f"harness-{Path('/proc/self/ns/pid').stat().st_ino}-"


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
