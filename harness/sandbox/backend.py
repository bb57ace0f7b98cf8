"""The protocol that every sandbox backend implements."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.sandbox.policy import SandboxPolicy

LandlockRule = tuple[str, str]
"""A path, and the kind of access to it: a key of `_RIGHTS` in launcher.py."""


@dataclass(frozen=True)
class LauncherSetup:
    """What the launcher applies to itself, inside the backend, before it becomes the command.

    filters_system_calls: drop all capabilities and install the seccomp filter. has_user_namespace: the backend has
    created a user namespace. landlock_rules: create namespaces and restrict files to these rules, None for neither.
    """

    filters_system_calls: bool = True
    has_user_namespace: bool = False
    landlock_rules: list[LandlockRule] | None = None


class SandboxBackend(Protocol):
    """One way to isolate a process."""

    @property
    def name(self) -> str:
        """The name in records and in HARNESS_SANDBOX."""

    @property
    def promise(self) -> str:
        """What the backend guarantees, in one clause for `show` and `doctor`."""

    @property
    def requirement(self) -> str:
        """What the backend needs from the machine, as a sentence for the error if it is not available."""

    @property
    def is_sandbox(self) -> bool:
        """False if the backend restricts neither files nor system calls."""

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces ("pid", "net", ...) that `wrap` creates for a policy without network.

        If "pid" is missing, `SandboxedProcess` adds a reaper that kills the remaining descendants.
        """

    def is_available(self) -> bool:
        """Return True if a process can be started on this machine; tries it."""

    def launcher_setup(self, policy: SandboxPolicy) -> LauncherSetup:
        """Return what the launcher applies to enforce `policy`."""

    def wrap(self, command: list[str], policy: SandboxPolicy, *, cwd: Path) -> list[str]:
        """Return the command that starts `command` (the launcher) in `cwd`, isolated as `policy` says."""
