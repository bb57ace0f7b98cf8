"""The view as bubblewrap's arguments: a root of its own that holds what may be seen, and namespaces around it."""

import functools
import os
import shutil
import subprocess
from pathlib import Path

from harness.sandbox.policy import SHARED_MEMORY_BYTES
from harness.sandbox.view import Access, FileView, devices

_HELP_SECONDS = 10.0


def bubblewrapped(argv: list[str], view: FileView, *, network: bool, cwd: Path) -> list[str]:
    """`argv`, to be started in `cwd` inside the view; the rest of the machine is not there."""
    command = ["bwrap", "--die-with-parent", "--new-session", "--unshare-pid", "--unshare-ipc"]
    if not network:
        command.append("--unshare-net")
    # Root keeps its capabilities otherwise; the launcher gives up this last one, once it has emptied the bounding set.
    command += ["--cap-drop", "ALL", *(["--cap-add", "CAP_SETPCAP"] if os.getuid() == 0 else [])]
    command += [*_mounts(view), "--chdir", str(cwd.resolve())]
    return [*command, "--", *argv]


def _mounts(view: FileView) -> list[str]:
    """The places, outer ones first, since what is mounted later covers what lies below it."""
    arguments: list[str] = []
    covers: list[str] = []
    for place in sorted(view.places, key=lambda path: len(path.parts)):
        access, name = view.places[place], str(place)
        if access in (Access.READ, Access.WRITE):
            arguments += ["--ro-bind" if access is Access.READ else "--bind", name, name]
        elif access is Access.HIDDEN and view.access(place.parent) in (Access.READ, Access.WRITE):
            if place.is_dir():
                covers.append(name)
                arguments += ["--tmpfs", name]
            else:
                arguments += ["--ro-bind", os.devnull, name]
    arguments += ["--proc", "/proc", "--dev", "/dev"]
    for node in map(str, devices()):
        arguments += ["--dev-bind", node, node]
    for link, text in view.links.items():
        arguments += ["--symlink", text, str(link)]
    if _can_limit_sizes():
        arguments += ["--size", str(SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm"]  # noqa: S108 (its own)
    # Root may write to the kernel's settings in /proc even without a capability; the others live in memory without a
    # limit, and were writable until everything had its place.
    for cover in ("/", "/dev", "/proc", *covers):
        arguments += ["--remount-ro", cover]
    return arguments


@functools.cache
def _can_limit_sizes() -> bool:
    """Without it (bubblewrap before 0.8) there is no shared memory: nothing else would limit what it takes."""
    told = subprocess.run(["bwrap", "--help"], capture_output=True, timeout=_HELP_SECONDS, check=False)
    return b"--size" in told.stdout + told.stderr


def is_installed() -> bool:
    """Whether there is a bubblewrap to try."""
    return shutil.which("bwrap") is not None
