"""The guarantees of the sandbox, each tested by a process inside that tries to violate it."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import psutil

from harness.core import paths
from harness.core.files import is_larger_than
from harness.core.paths import runs_home
from harness.sandbox import probe
from harness.sandbox.applied import AppliedSandbox
from harness.sandbox.backends import detect_backend
from harness.sandbox.environment import is_secret_name, plain_environment
from harness.sandbox.policy import SandboxPolicy
from harness.sandbox.process import SandboxedProcess
from harness.sandbox.view import model_cache

_PARALLEL_TESTS = 4
_PROBE_SECONDS = 10.0
_FILES_PER_DIRECTORY = 5
_MIB = 1 << 20
_MEMORY, _PROCESSES, _FILE = 64 * _MIB, 24, _MIB
_NEEDS_SANDBOX = "install bubblewrap and allow user namespaces, or use a kernel with landlock."
_NEEDS_CGROUPS = "needs control groups that this user may write to, version 2 or 1."


@dataclass(frozen=True)
class Guarantee:
    """The result for one guarantee: the mechanism that enforces it, None for none, and advice how to get one."""

    name: str
    mechanism: str | None
    advice: str


@dataclass(frozen=True)
class _Outside:
    """What a probe tries to reach from inside: a directory with secrets, a listener, a process to kill."""

    directory: Path
    port: int
    socket: Path
    victim: "subprocess.Popen[bytes]"

    @property
    def orphan_mark(self) -> str:
        return f"orphan-of-{self.directory.name}"


Mechanism = Callable[[AppliedSandbox], str]


@dataclass(frozen=True)
class _Test:
    """A guarantee, the operation of probe.py that would violate it, and the mechanism that prevents that.

    is_violated: checks from outside if the operation succeeded, where the exit code of the probe is not enough.
    """

    name: str
    operation: Callable[..., bool]
    arguments: Callable[[_Outside], list[str]]
    mechanism: Mechanism
    advice: str = _NEEDS_SANDBOX
    is_violated: Callable[[_Outside, Path], bool] | None = None


def check_guarantees() -> list[Guarantee]:
    """Test every guarantee with the backend of this machine. Raises HarnessError as `detect_backend` does."""
    with _outside() as outside, ThreadPoolExecutor(_PARALLEL_TESTS) as pool:
        return list(pool.map(lambda test: _run(test, outside), _TESTS))


def _run(test: _Test, outside: _Outside) -> Guarantee:
    with tempfile.TemporaryDirectory(prefix="harness-probe-", ignore_cleanup_errors=True) as directory:
        scratch = Path(directory)
        process = SandboxedProcess(
            [sys.executable, "-I", "-S", probe.__file__, test.operation.__name__, *test.arguments(outside)],
            SandboxPolicy(writable=(scratch,), memory=_MEMORY, processes=_PROCESSES, file_bytes=_FILE),
            cwd=scratch,
            environment=plain_environment(scratch),
        )
        try:
            applied = process.wait_until_applied()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.popen.wait(_PROBE_SECONDS)
            is_violated = process.popen.poll() == 0
            # `is_violated` looks at what is left after the end of the process.
            process.kill()
        finally:
            process.close()
        if test.is_violated is not None:
            is_violated = test.is_violated(outside, scratch)
    return Guarantee(test.name, None if is_violated else test.mechanism(applied), test.advice)


@contextlib.contextmanager
def _outside() -> Iterator[_Outside]:
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="harness-outside-")))
        (directory / "answers.npy").write_bytes(b"answers")
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        path = directory / "socket"
        for address in (str(path), f"\0{path}"):
            server = stack.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(address)
            server.listen()
        victim = subprocess.Popen(["sleep", "60"], env={"SECRET": "secret", "PATH": os.environ.get("PATH", "")})
        stack.callback(victim.wait)
        stack.callback(victim.kill)
        yield _Outside(directory, listener.getsockname()[1], path, victim)


def _file_isolation(applied: AppliedSandbox) -> str:
    # The launcher reports the version of landlock: `landlock 7`.
    return next((name for name in applied.applied if name.startswith(applied.means)), applied.means)


def _namespace_or(kind: str, otherwise: Mechanism) -> Mechanism:
    def mechanism(applied: AppliedSandbox) -> str:
        has_namespace = kind in (*detect_backend().namespaces, *applied.applied)
        return f"a {kind} namespace" if has_namespace else otherwise(applied)

    return mechanism


def _seccomp_and(mechanism: Mechanism) -> Mechanism:
    return lambda applied: f"seccomp, {mechanism(applied)}"


def _privileges(mechanism: str) -> Mechanism:
    return lambda _: mechanism if detect_backend().is_sandbox else "the missing privileges of this user"


def _private_files(outside: _Outside) -> list[str]:
    """Return some files of this user, if there are any, and one outside of the system's directories."""
    directories = [Path.home(), Path.home() / ".ssh", paths.data_home(), paths.cache_home(), model_cache()]
    files = [outside.directory / "answers.npy"]
    for directory in (*directories, *islice(runs_home().glob("*"), _FILES_PER_DIRECTORY)):
        with contextlib.suppress(OSError):
            files += islice((file for file in directory.iterdir() if file.is_file()), _FILES_PER_DIRECTORY)
    return [str(file) for file in files]


def _paths_outside_scratch(outside: _Outside) -> list[str]:
    source = paths.PACKAGE / "__init__.py"
    return [*map(str, (outside.directory, source, tempfile.gettempdir(), "/dev", "/proc/sys/kernel/core_pattern"))]


def _answers(outside: _Outside) -> list[str]:
    shipped = [str(file) for file in paths.SHIPPED_ROUNDS.rglob("*.npy")]
    return [*shipped, str(outside.directory / "answers.npy")]


def _has_orphan(outside: _Outside) -> bool:
    return any(outside.orphan_mark in (process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))


_TESTS = (
    _Test("answers unreadable", probe.read, _answers, _file_isolation),
    _Test("home, data, runs, other models unreadable", probe.read, _private_files, _file_isolation),
    _Test("writes only to scratch", probe.write, _paths_outside_scratch, _file_isolation),
    _Test(
        "no network",
        probe.connect,
        lambda outside: [str(outside.port), str(outside.socket)],
        _seccomp_and(_namespace_or("net", _file_isolation)),
    ),
    _Test(
        "no secrets in its environment",
        probe.read_variable,
        lambda _: ["HF_TOKEN", "SSH_AUTH_SOCK", *filter(is_secret_name, os.environ)],
        lambda _: "an allow-list",
    ),
    _Test(
        "no signals to other processes",
        probe.kill_process,
        lambda outside: [str(outside.victim.pid)],
        _namespace_or("pid", _file_isolation),
        is_violated=lambda outside, _: outside.victim.poll() is not None,
    ),
    _Test(
        "no access to other processes",
        probe.inspect_process,
        lambda _: [str(os.getpid())],
        _seccomp_and(_namespace_or("pid", _file_isolation)),
    ),
    _Test("clock protected", probe.set_clock, lambda _: [], _privileges("seccomp, no capabilities")),
    _Test("no privileges", probe.have_privileges, lambda _: [], _privileges("no_new_privs, no capabilities")),
    _Test(
        "memory limited",
        probe.allocate_memory,
        lambda _: [str(4 * _MEMORY)],
        lambda applied: applied.memory.by if applied.memory else "",
        _NEEDS_CGROUPS,
    ),
    _Test(
        "processes limited",
        probe.fork_processes,
        lambda _: [str(2 * _PROCESSES)],
        lambda applied: applied.processes.by if applied.processes else "",
        _NEEDS_CGROUPS,
    ),
    _Test("size of a file limited", probe.write_large_file, lambda _: [str(_FILE)], lambda _: "RLIMIT_FSIZE"),
    _Test("open files limited", probe.open_files, lambda _: ["5000"], lambda _: "RLIMIT_NOFILE"),
    _Test(
        "size of scratch limited",
        probe.fill_directory,
        lambda _: [str(_MIB)],
        lambda _: "polling, every 2 s",
        is_violated=lambda _, scratch: not is_larger_than(scratch, _MIB // 2),
    ),
    _Test(
        "no process left running",
        probe.leave_process,
        lambda outside: [outside.orphan_mark],
        _namespace_or("pid", lambda _: "the reaper"),
        is_violated=lambda outside, _: _has_orphan(outside),
    ),
)
