"""The backend for machines without a sandbox: only resource limits and the cleanup of processes remain."""

from pathlib import Path

from harness.sandbox.backend import LauncherSetup
from harness.sandbox.policy import SandboxPolicy


class NoSandbox:
    """Run the command without isolation: every file is readable and the network is open."""

    name = "none"
    description = "no sandbox: an attack could read the answers by path; only its resources are limited"
    advice = ""
    is_sandbox = False
    namespaces: frozenset[str] = frozenset()

    def launcher_setup(self, policy: SandboxPolicy) -> LauncherSetup:
        """Return an empty setup: only resources are limited."""
        return LauncherSetup()

    def wrap(self, command: list[str], policy: SandboxPolicy, *, cwd: Path) -> list[str]:
        """Return `command` itself."""
        return command
