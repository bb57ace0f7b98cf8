"""What a process that runs strangers' code may see: a command wrapped so that answers and network are out of reach."""

import functools
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path

from harness.core.errors import HarnessError

_PROBE_SECONDS = 10.0
_DOORS = tuple(
    Path("/run") / name
    for name in ("user", "dbus", "systemd", "docker.sock", "containerd", "podman", "crio", "snapd.socket", "libvirt")
)
"""Where services listen that would start a process outside: a namespace without network does not close them."""


class Means(StrEnum):
    """How a machine can confine a process; `none` leaves every file readable and the network open."""

    BWRAP = "bwrap"
    NONE = "none"

    @property
    def promise(self) -> str:
        """What holds under this means, as `show` and `doctor` say it."""
        if self is Means.BWRAP:
            return "read-only system, answers and data hidden, no network, own process namespace"
        return "no sandbox: an attack could read the answers by path; only its processes are contained"


@functools.cache
def offered_means() -> Means:
    """The strongest means that this machine really offers: each is tried, not guessed.

    `HARNESS_SANDBOX` names one instead. Raises HarnessError when that one is unknown or does not work here.
    """
    asked = os.environ.get("HARNESS_SANDBOX", "")
    if asked == Means.NONE:
        return Means.NONE
    if asked not in ("", Means.BWRAP):
        raise HarnessError(f"HARNESS_SANDBOX={asked!r}: the means are bwrap and none.")
    if _bwrap_works():
        return Means.BWRAP
    if asked:
        raise HarnessError("HARNESS_SANDBOX=bwrap: bubblewrap is not installed, or may not make namespaces here.")
    return Means.NONE


def confined_command(
    argv: Sequence[str],
    *,
    hidden: Iterable[Path] = (),
    readable: Iterable[Path] = (),
    writable: Iterable[Path] = (),
) -> list[str]:
    """`argv`, wrapped in the offered means: a read-only system without network, in a process namespace of its own.

    `hidden` folders appear empty and hidden files appear as /dev/null; `readable` and `writable` paths are shown again,
    also inside a hidden folder. Unwrapped where the machine offers no means.
    """
    if offered_means() is Means.NONE:
        return list(argv)
    return [*_bwrap(hidden, readable, writable), "--", *argv]


def _bwrap(hidden: Iterable[Path], readable: Iterable[Path], writable: Iterable[Path]) -> list[str]:
    command = ["bwrap", "--die-with-parent", "--new-session", "--unshare-pid", "--unshare-net", "--unshare-ipc"]
    # Root keeps its capabilities otherwise, and with them unmounts what hides the answers.
    command += ["--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for node in sorted(map(str, [*Path("/dev").glob("nvidia*"), *Path("/dev").glob("dri")])):
        command += ["--dev-bind", node, node]
    for path in _outermost([*hidden, *_DOORS]):
        if path.is_dir():
            command += ["--tmpfs", str(path)]
        elif path.exists():
            command += ["--ro-bind", "/dev/null", str(path)]
    for path in readable:
        command += ["--ro-bind", str(path.resolve()), str(path.resolve())]
    for path in writable:
        command += ["--bind", str(path.resolve()), str(path.resolve())]
    return command


def _outermost(paths: Iterable[Path]) -> list[Path]:
    """The paths that lie in no other of them: what is inside a hidden folder cannot be mounted over."""
    resolved = sorted({path.resolve() for path in paths})
    return [path for path in resolved if not any(other in path.parents for other in resolved)]


def _bwrap_works() -> bool:
    if shutil.which("bwrap") is None:
        return False
    try:
        probe = subprocess.run(
            [*_bwrap((), (), ()), "--", "/bin/true"], capture_output=True, timeout=_PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return probe.returncode == 0
