"""The base class of all sandbox backends."""

from dataclasses import dataclass
from pathlib import Path

from harness.sandbox.policy import SandboxPolicy

FileRule = tuple[str, str]
"""A path, and the access to it and to everything below it: a key of `_RIGHTS` in launcher.py."""


@dataclass(frozen=True)
class LauncherSetup:
    """The restrictions that the launcher applies to itself inside the backend, besides limits and system call filter.

    creates_namespaces: create the namespaces that the kernel allows. makes_files_read_only: mount everything read-only
    except for the writable paths, if the process is in a mount namespace of its own. file_rules: allow only these
    accesses to files, enforced by landlock; None for no rules.
    """

    creates_namespaces: bool = False
    makes_files_read_only: bool = False
    file_rules: list[FileRule] | None = None


class SandboxBackend:
    """One way to isolate a process. A subclass sets the attributes, and overrides the methods whose result differs."""

    name: str
    """The name in records and in HARNESS_SANDBOX."""
    description: str
    """A clause for `show` and `doctor` that says what is isolated."""
    advice = ""
    """A sentence that says how to make the backend available on a machine."""
    is_sandbox = True
    """False if the backend restricts neither files nor system calls."""
    namespaces: frozenset[str] = frozenset()
    """The namespaces ("pid", "net", ...) that `wrap` creates for an unprivileged user and a policy without network.

    If "pid" is missing, `SandboxedProcess` adds a reaper that kills the remaining descendants.
    """

    def launcher_setup(self, policy: SandboxPolicy) -> LauncherSetup:
        """Return what the launcher applies to enforce `policy`."""
        return LauncherSetup()

    def wrap(self, command: list[str], policy: SandboxPolicy, *, cwd: Path) -> list[str]:
        """Return the command that starts `command` (the launcher) in `cwd`, isolated as `policy` says."""
        return command
