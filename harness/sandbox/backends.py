"""Which way of confining a process this machine offers: each is tried, none guessed."""

import functools
import os
import subprocess
import sys
import tempfile
from enum import StrEnum
from pathlib import Path

from harness.core.errors import HarnessError
from harness.sandbox.bubblewrap import bubblewrapped, is_installed
from harness.sandbox.plan import launched, written_plan
from harness.sandbox.policy import SandboxPolicy
from harness.sandbox.seccomp import is_known_machine
from harness.sandbox.view import view_for

_PROBE_SECONDS = 10.0


class SandboxBackend(StrEnum):
    """How a machine can confine a process, strongest first; `none` leaves every file readable and the network open."""

    BWRAP = "bwrap"
    LANDLOCK = "landlock"
    NONE = "none"

    @property
    def promise(self) -> str:
        """What holds under this means, as `show` and `doctor` say it."""
        return _PROMISES[self]


_PROMISES = {
    SandboxBackend.BWRAP: "own root without answers, data and home; read-only system, no network, own processes",
    SandboxBackend.LANDLOCK: "answers, data and home unreadable; read-only system, no network; file names visible",
    SandboxBackend.NONE: "no sandbox: an attack could read the answers by path; only its processes are contained",
}


@functools.cache
def detect_backend() -> SandboxBackend:
    """The strongest means that works on this machine.

    `HARNESS_SANDBOX` names one instead. Raises HarnessError when that one is unknown or does not work here.
    """
    asked = os.environ.get("HARNESS_SANDBOX", "")
    if asked not in ("", *SandboxBackend):
        raise HarnessError(f"HARNESS_SANDBOX={asked!r}: the means are bwrap, landlock and none.")
    if asked:
        means = SandboxBackend(asked)
        if not works(means):
            raise HarnessError(f"HARNESS_SANDBOX={asked}: {_WHY_NOT[means]}")
        return means
    return next(means for means in SandboxBackend if works(means))


_WHY_NOT = {
    SandboxBackend.BWRAP: "bubblewrap is not installed, or may not make namespaces here.",
    SandboxBackend.LANDLOCK: "this kernel refuses landlock or a filter of system calls.",
}


def works(means: SandboxBackend) -> bool:
    """Whether a process can be started under `means` here."""
    if means is SandboxBackend.NONE:
        return True
    if sys.platform != "linux" or not is_known_machine() or (means is SandboxBackend.BWRAP and not is_installed()):
        return False
    with tempfile.TemporaryDirectory(prefix="harness-probe-") as scratch:
        confinement = SandboxPolicy(writable=(Path(scratch),))
        view = view_for(confinement)
        plan = written_plan(
            confinement, view if means is SandboxBackend.LANDLOCK else None, has_own_users=means is SandboxBackend.BWRAP
        )
        command = launched(["/bin/true"], plan, report=-1)
        if means is SandboxBackend.BWRAP:
            command = bubblewrapped(command, view, network=False, cwd=Path(scratch))
        try:
            probe = subprocess.run(
                command, capture_output=True, timeout=_PROBE_SECONDS, check=False, pass_fds=(plan,), env={}
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        finally:
            os.close(plan)
    return probe.returncode == 0
