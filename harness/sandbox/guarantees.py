"""The guarantees of the sandbox, each tested by a process inside that tries to violate it."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import psutil

from harness.core import paths
from harness.core.paths import runs_home
from harness.sandbox import control_group, probe
from harness.sandbox.applied import AppliedSandbox
from harness.sandbox.backends import detect_backend
from harness.sandbox.environment import is_secret_name, plain_environment
from harness.sandbox.policy import SandboxPolicy
from harness.sandbox.process import SandboxedProcess
from harness.sandbox.view import model_cache

_PARALLEL_TESTS = 4
_PROBE_SECONDS = 10.0
_FILES_PER_DIRECTORY = 5
_MEMORY, _PROCESSES, _FILE = 64 << 20, 24, 1 << 20


@dataclass(frozen=True)
class Guarantee:
    """The result for one guarantee: the mechanism that enforces it, "" for none.

    advice: how this backend can enforce it; "" if only another backend can.
    """

    name: str
    mechanism: str
    advice: str


@dataclass(frozen=True)
class _Test:
    """A guarantee, the operation of probe.py that would violate it with its arguments, and the mechanism against that.

    mechanism: a text with keys of `_mechanisms`. is_violated: checks from outside if the operation succeeded, where the
    exit code of the probe is not enough.
    """

    name: str
    operation: Callable[..., bool]
    arguments: Sequence[object]
    mechanism: str
    advice: str = ""
    is_violated: Callable[[], bool] | None = None


def check_guarantees() -> list[Guarantee]:
    """Test every guarantee with the backend of this machine. Raises HarnessError as `detect_backend` does."""
    with _tests() as tests, ThreadPoolExecutor(_PARALLEL_TESTS) as pool:
        return list(pool.map(_run, tests))


@contextlib.contextmanager
def _tests() -> Iterator[list[_Test]]:
    """Create what the probes try to reach: a directory with answers, a process and listeners. Yield the tests."""
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="harness-outside-")))
        answers, path, mark = directory / "answers.npy", directory / "socket", f"orphan-of-{directory.name}"
        answers.write_bytes(b"answers")
        unchanged = answers.stat().st_ctime_ns
        port = stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
        for address in (str(path), f"\0{path}"):
            server = stack.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(address)
            server.listen()
        victim = subprocess.Popen(["sleep", "60"])
        stack.callback(victim.wait)
        stack.callback(victim.kill)
        setting = "/proc/sys/kernel/core_pattern"
        written = (directory, paths.PACKAGE / "__init__.py", tempfile.gettempdir(), "/dev", setting)
        secrets = ("HF_TOKEN", "SSH_AUTH_SOCK", *filter(is_secret_name, os.environ))
        yield [
            _Test("answers unreadable", probe.read, (answers, *paths.SHIPPED_ROUNDS.rglob("*.npy")), "{files}"),
            _Test("home, data, runs, other models unreadable", probe.read, (answers, *_private_files()), "{files}"),
            _Test("writes only to scratch", probe.write, written, "{files}"),
            _Test(
                "no changes of permissions, owners and times",
                probe.change_metadata,
                (answers,),
                "{metadata}",
                is_violated=lambda: answers.stat().st_ctime_ns != unchanged,
            ),
            _Test("no network", probe.connect, (port, path), "seccomp, {network}"),
            _Test("no secrets in its environment", probe.read_variable, secrets, "an allow-list"),
            _Test(
                "no signals to other processes",
                probe.kill_process,
                (victim.pid,),
                "{processes}",
                is_violated=lambda: victim.poll() is not None,
            ),
            _Test("no access to other processes", probe.inspect_process, (os.getpid(),), "seccomp, {processes}"),
            _Test("clock protected", probe.set_clock, (), "{clock}"),
            _Test("no privileges", probe.have_privileges, (), "no_new_privs, no capabilities"),
            _Test("memory limited", probe.allocate_memory, (4 * _MEMORY,), "{memory}", control_group.ADVICE),
            _Test("processes limited", probe.fork_processes, (2 * _PROCESSES,), "{count}", control_group.ADVICE),
            _Test("size of a file limited", probe.write_large_file, (_FILE,), "RLIMIT_FSIZE"),
            _Test("open files limited", probe.open_files, (5000,), "RLIMIT_NOFILE"),
            _Test(
                "no process left running",
                probe.leave_process,
                (mark,),
                "{cleanup}",
                is_violated=lambda: any(
                    mark in (one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"])
                ),
            ),
        ]


def _run(test: _Test) -> Guarantee:
    with tempfile.TemporaryDirectory(prefix="harness-probe-", ignore_cleanup_errors=True) as directory:
        scratch = Path(directory)
        process = SandboxedProcess(
            [sys.executable, "-I", "-S", probe.__file__, test.operation.__name__, *map(str, test.arguments)],
            SandboxPolicy(writable=(scratch,), memory=_MEMORY, processes=_PROCESSES, file_bytes=_FILE),
            cwd=scratch,
            environment=plain_environment(scratch),
        )
        try:
            applied = process.wait_until_applied()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.popen.wait(_PROBE_SECONDS)
            is_violated = process.popen.poll() == 0
        finally:
            process.close()
    if test.is_violated is not None:
        is_violated = test.is_violated()
    return Guarantee(test.name, "" if is_violated else test.mechanism.format_map(_mechanisms(applied)), test.advice)


def _mechanisms(applied: AppliedSandbox) -> dict[str, str]:
    """Return what enforces each kind of restriction, "" for nothing."""
    backend = detect_backend()
    namespaces = {*backend.namespaces, *applied.applied}
    # If the launcher enforces the rules for files, it reports the version of landlock: `landlock 7`.
    files = next((name for name in applied.applied if name.startswith("landlock ")), backend.name)
    return {
        "files": files,
        "metadata": "read-only mounts"
        if "read-only files" in applied.applied or "mount" in backend.namespaces
        else "seccomp",
        "network": "a net namespace" if "net" in namespaces else files,
        "processes": "a pid namespace" if "pid" in namespaces else files,
        "cleanup": "a pid namespace" if "pid" in namespaces else "the reaper",
        "clock": "seccomp, no capabilities" if backend.is_sandbox else "the missing privileges of this user",
        "memory": "" if applied.memory is None else applied.memory.by,
        "count": "" if applied.processes is None else applied.processes.by,
    }


def _private_files() -> Iterator[Path]:
    """Yield some files of this user, if there are any."""
    directories = [Path.home(), Path.home() / ".ssh", paths.data_home(), paths.cache_home(), model_cache()]
    for directory in (*directories, *islice(runs_home().glob("*"), _FILES_PER_DIRECTORY)):
        with contextlib.suppress(OSError):
            yield from islice((file for file in directory.iterdir() if file.is_file()), _FILES_PER_DIRECTORY)
