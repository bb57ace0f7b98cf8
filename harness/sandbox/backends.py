"""The ways to isolate a process, and the choice of one for this machine."""

import contextlib
import functools
import marshal
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import HarnessError
from harness.sandbox import launcher
from harness.sandbox.policy import OPEN_FILES, SHARED_MEMORY_BYTES, SandboxPolicy
from harness.sandbox.seccomp import filter_program, is_supported_machine
from harness.sandbox.view import PLAIN_DEVICES, Access, FileView, accelerator_devices, file_view

FileRule = tuple[str, str]
"""A path, and the access to it and to everything below it: a key of `_RIGHTS` in launcher.py."""
_TRIAL_SECONDS = 10.0
_HELP_SECONDS = 10.0


@dataclass(frozen=True)
class LauncherSetup:
    """The steps that the launcher applies to itself inside the backend, besides limits and the seccomp filter."""

    creates_namespaces: bool = False
    """Create the namespaces that the kernel allows."""
    makes_files_read_only: bool = False
    """Mount everything read-only except for the writable paths, if the process is in a mount namespace of its own."""
    file_rules: list[FileRule] | None = None
    """Allow only these accesses to files, enforced by landlock; None for no rules."""


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
        """Return the steps by which the launcher enforces `policy`."""
        return LauncherSetup()

    def wrap(self, command: list[str], policy: SandboxPolicy, *, cwd: Path) -> list[str]:
        """Return the command that starts `command` (the launcher) in `cwd`, isolated as `policy` says."""
        return command


def launcher_command(
    argv: list[str], backend: SandboxBackend, policy: SandboxPolicy, *, cwd: Path, report: int = -1
) -> tuple[list[str], int]:
    """Return the command that starts `argv` in `cwd` inside `backend`, and the descriptor of its configuration.

    The process must inherit this descriptor, which the caller closes, and `report`, the end of a pipe to which the
    launcher writes what it applied (-1 for no report).
    """
    setup = backend.launcher_setup(policy)
    # Not RLIMIT_AS: a GPU driver reserves terabytes of address space.
    limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_NOFILE, OPEN_FILES)]
    if policy.file_bytes is not None:
        limits.append((resource.RLIMIT_FSIZE, policy.file_bytes))
    content: dict[str, object] = {
        "limits": limits,
        "processes": policy.processes,
        "has_user_namespace": "user" in backend.namespaces,
        "has_own_root": "mount" in backend.namespaces,
        "creates_namespaces": setup.creates_namespaces,
        "makes_files_read_only": setup.makes_files_read_only,
        "shared_memory": SHARED_MEMORY_BYTES,
        "file_rules": setup.file_rules,
        "network": policy.network,
        "filter": b"",
        "writable": [str(path.resolve()) for path in policy.writable],
    }
    if backend.is_sandbox:
        content["filter"] = filter_program(network=policy.network, has_read_only_files=True)
        content["filter_for_writable_files"] = filter_program(network=policy.network, has_read_only_files=False)
    config = os.memfd_create("launcher-config")
    try:
        os.write(config, marshal.dumps(content))
        command = [sys.executable, "-I", "-S", launcher.__file__, str(config), str(report), *argv]
        return backend.wrap(command, policy, cwd=cwd), config
    except BaseException:
        os.close(config)
        raise


def is_available(backend: SandboxBackend) -> bool:
    """Return True if `backend` works on this machine; a sandbox is tried with a process that does nothing."""
    if not backend.is_sandbox:
        return True
    if not is_supported_machine():
        return False
    with tempfile.TemporaryDirectory(prefix="harness-probe-") as scratch:
        policy = SandboxPolicy(writable=(Path(scratch),))
        try:
            command, config = launcher_command(["/bin/sh", "-c", ":"], backend, policy, cwd=Path(scratch))
            with os.fdopen(config):
                trial = subprocess.run(
                    command, capture_output=True, timeout=_TRIAL_SECONDS, check=False, pass_fds=(config,), env={}
                )
        except (OSError, subprocess.TimeoutExpired):
            return False
    return trial.returncode == 0


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
        bwrap = [_bubblewrap(), "--die-with-parent", "--new-session", "--unshare-pid", "--unshare-ipc"]
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
    if _can_limit_tmpfs_size(_bubblewrap()):
        options += ["--size", str(SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm"]  # noqa: S108 (the sandbox's own)
    # Root can write to kernel settings in /proc even without capabilities. The other mounts are in memory without a
    # size limit, and have to be writable until the mounts inside them exist.
    for path_to_lock in ("/", "/dev", "/proc", *covers):
        options += ["--remount-ro", path_to_lock]
    return options


def _bubblewrap() -> str:
    """Return the absolute path of bwrap, because the started process may have no PATH. Raises OSError without one."""
    program = shutil.which("bwrap")
    if program is None:
        raise FileNotFoundError("bwrap is not on PATH")
    return str(Path(program).absolute())


@functools.cache
def _can_limit_tmpfs_size(bubblewrap: str) -> bool:
    """Return True for bubblewrap 0.8 or newer. Older versions get no /dev/shm, because nothing would limit its size."""
    usage = subprocess.run([bubblewrap, "--help"], capture_output=True, timeout=_HELP_SECONDS, check=False)
    return b"--size" in usage.stdout + usage.stderr


class Landlock(SandboxBackend):
    """Run the command under landlock rules, which the launcher applies to itself."""

    name = "landlock"
    description = "answers, data and home unreadable; read-only system, no network; file names visible"
    advice = "Use a kernel with landlock and seccomp (Linux 5.13 or newer)."

    def launcher_setup(self, policy: SandboxPolicy) -> LauncherSetup:
        """Return a setup with a rule for each path that `policy` shows."""
        return LauncherSetup(True, True, file_rules(file_view(policy)))


def file_rules(view: FileView) -> list[FileRule]:
    """Return the rules that allow what `view` shows.

    A landlock rule allows a directory with everything below it. So a directory that contains a hidden path is allowed
    child by child and may be listed: names below it are visible, contents are not.
    """
    rules = [(f"/dev/{name}", "device") for name in PLAIN_DEVICES]
    rules += [(str(node), "device") for node in accelerator_devices()]
    for path, access in view.paths.items():
        if access is Access.LIST:
            rules.append((str(path), "list"))
        elif access is not Access.HIDDEN:
            rules += _rules_below(path, access, view)
    return rules


def _rules_below(path: Path, access: Access, view: FileView) -> Iterator[FileRule]:
    if not any(listed is Access.HIDDEN and path in below.parents for below, listed in view.paths.items()):
        yield str(path), access.value
        return
    yield str(path), "list"
    with contextlib.suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            child = path / entry.name
            # A rule would follow the link. If its target is visible, the target has a rule of its own.
            if not entry.is_symlink() and child not in view.paths:
                yield from _rules_below(child, access, view)


class Unsandboxed(SandboxBackend):
    """A backend without isolation, such as one that only a record names."""

    is_sandbox = False

    def __init__(self, name: str, description: str = "unknown to this version of the harness") -> None:
        self.name, self.description = name, description


NO_SANDBOX = Unsandboxed("none", "no sandbox: an attack could read the answers by path; only its resources are limited")
ON_NODES = Unsandboxed("ray", "the worker was on a node of a cluster; the log says in which sandbox")
"""The backend of our own process that passes on the messages of a worker, which is in the sandbox of a node."""
BACKENDS: tuple[SandboxBackend, ...] = (Bubblewrap(), Landlock(), NO_SANDBOX)
"""All backends. `detect_backend` takes the first that is available, so the strongest comes first."""


def backend_named(name: str) -> SandboxBackend:
    """Return the backend that a record names, of which this version of the harness may not know."""
    return {backend.name: backend for backend in (*BACKENDS, ON_NODES)}.get(name) or Unsandboxed(name)


@functools.cache
def detect_backend() -> SandboxBackend:
    """Return the strongest backend that works on this machine, or the one that HARNESS_SANDBOX names.

    Raises HarnessError if HARNESS_SANDBOX names an unknown backend or one that does not work here.
    """
    requested = os.environ.get("HARNESS_SANDBOX", "")
    if not requested:
        return next(backend for backend in BACKENDS if is_available(backend))
    try:
        backend = {backend.name: backend for backend in BACKENDS}[requested]
    except KeyError:
        names = ", ".join(backend.name for backend in BACKENDS)
        raise HarnessError(f"HARNESS_SANDBOX={requested} is not a sandbox backend. Use one of: {names}.") from None
    if not is_available(backend):
        raise HarnessError(f"HARNESS_SANDBOX={requested} does not work on this machine. {backend.advice}")
    return backend
