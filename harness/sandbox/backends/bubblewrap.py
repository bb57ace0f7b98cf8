"""Isolation by bubblewrap: namespaces, and a root file system that contains only what the policy shows."""

import functools
import os
import subprocess
from pathlib import Path

from harness.sandbox.backend import LauncherSetup, SandboxBackend
from harness.sandbox.policy import SHARED_MEMORY_BYTES, SandboxPolicy
from harness.sandbox.view import Access, FileView, accelerator_devices, file_view

_HELP_SECONDS = 10.0


class Bubblewrap(SandboxBackend):
    """Run the command under bwrap."""

    name = "bwrap"
    description = "own root without answers, data and home; read-only system, no network, own processes"
    advice = "Install bubblewrap (Debian: apt-get install bubblewrap), and allow user namespaces."
    namespaces = frozenset({"user", "mount", "pid", "ipc", "net"})

    def launcher_setup(self, policy: SandboxPolicy) -> LauncherSetup:
        """Return a setup that also makes the device nodes read-only, whose permissions root could change."""
        return LauncherSetup(makes_files_read_only=os.getuid() == 0)

    def wrap(self, command: list[str], policy: SandboxPolicy, *, cwd: Path) -> list[str]:
        """Return the bwrap command that starts `command` in `cwd`."""
        bwrap = ["bwrap", "--die-with-parent", "--new-session", "--unshare-pid", "--unshare-ipc"]
        if not policy.network:
            bwrap.append("--unshare-net")
        # Otherwise root keeps its capabilities. The launcher drops the two that it needs as well: CAP_SETPCAP to empty
        # the bounding set, and CAP_SYS_ADMIN for mounts.
        bwrap += ["--cap-drop", "ALL"]
        if os.getuid() == 0:
            bwrap += ["--cap-add", "CAP_SETPCAP", "--cap-add", "CAP_SYS_ADMIN"]
        return [*bwrap, *_mounts(file_view(policy)), "--chdir", str(cwd.resolve()), "--", *command]


def _mounts(view: FileView) -> list[str]:
    """Return the options that mount each path, parents first: a later mount covers what lies below it."""
    options: list[str] = []
    covers: list[str] = []
    for path in sorted(view.paths, key=lambda path: len(path.parts)):
        access, name = view.paths[path], str(path)
        if access in (Access.READ, Access.WRITE):
            options += ["--ro-bind" if access is Access.READ else "--bind", name, name]
        elif access is Access.HIDDEN and view.access(path.parent) in (Access.READ, Access.WRITE):
            if path.is_dir():
                covers.append(name)
                options += ["--tmpfs", name]
            else:
                options += ["--ro-bind", os.devnull, name]
    options += ["--proc", "/proc", "--dev", "/dev"]
    for node in map(str, accelerator_devices()):
        options += ["--dev-bind", node, node]
    for link, target in view.links.items():
        options += ["--symlink", target, str(link)]
    if _can_limit_tmpfs_size():
        options += ["--size", str(SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm"]  # noqa: S108 (the sandbox's own)
    # Root can write to kernel settings in /proc even without capabilities. The other mounts are in memory without a
    # size limit, and have to be writable until the mounts inside them exist.
    for path_to_lock in ("/", "/dev", "/proc", *covers):
        options += ["--remount-ro", path_to_lock]
    return options


@functools.cache
def _can_limit_tmpfs_size() -> bool:
    """Return True for bubblewrap 0.8 or newer. Older versions get no /dev/shm, because nothing would limit its size."""
    usage = subprocess.run(["bwrap", "--help"], capture_output=True, timeout=_HELP_SECONDS, check=False)
    return b"--size" in usage.stdout + usage.stderr
