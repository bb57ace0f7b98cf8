"""A process that runs in the sandbox, and deleted files that processes keep open."""

import contextlib
import os
import select
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from harness.sandbox import reaper
from harness.sandbox.backends import ON_NODES, SandboxBackend, detect_backend, launcher_command
from harness.sandbox.control_group import ControlGroup
from harness.sandbox.policy import OPEN_FILES, AppliedSandbox, Limit, SandboxPolicy
from harness.sandbox.view import shown_files

_WAIT_SECONDS = 10.0
_REPORT_BYTES = 4096
Stream = int | Any
_MAX_ENTRIES = 200_000


class SandboxedProcess:
    """A command that runs under this machine's sandbox backend, from its start until it is killed and closed."""

    def __init__(
        self,
        argv: Sequence[str],
        policy: SandboxPolicy,
        *,
        cwd: Path,
        environment: Mapping[str, str],
        stdin: Stream = subprocess.DEVNULL,
        stdout: Stream = subprocess.DEVNULL,
        stderr: Stream = subprocess.DEVNULL,
        inherited: Iterable[int] = (),
        backend: SandboxBackend | None = None,
    ) -> None:
        """Start `argv` in `cwd`, which `policy` must show, with exactly this environment and these descriptors.

        `backend` replaces the one of this machine. Raises HarnessError as `detect_backend` does.
        """
        self._backend = backend or detect_backend()
        self._policy = policy
        self._group = ControlGroup(memory=policy.memory, processes=policy.processes)
        self._lifeline: int | None = None
        self._report: int | None = None
        pass_fds = list(inherited)
        with contextlib.ExitStack() as child_descriptors, contextlib.ExitStack() as on_failure:
            on_failure.callback(self._release)
            command = self._command(list(argv), cwd, pass_fds, child_descriptors)
            self.popen: subprocess.Popen[bytes] = subprocess.Popen(
                self._group.enter_command(command),
                cwd=cwd,
                env=dict(environment),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                pass_fds=pass_fds,
                start_new_session=True,
            )
            on_failure.pop_all()
        self.pid = self.popen.pid

    def _command(
        self, argv: list[str], cwd: Path, pass_fds: list[int], child_descriptors: contextlib.ExitStack
    ) -> list[str]:
        """Return the whole command. The descriptors that it inherits are added to `pass_fds` and to the stack."""

        def inherit(descriptor: int) -> int:
            child_descriptors.callback(os.close, descriptor)
            pass_fds.append(descriptor)
            return descriptor

        report = -1
        if self._backend.is_sandbox:
            self._report, report = os.pipe()
            inherit(report)
        command, config = launcher_command(argv, self._backend, self._policy, cwd=cwd, report=report)
        inherit(config)
        if "pid" in self._backend.namespaces:
            return command
        lifeline, self._lifeline = os.pipe()
        return [sys.executable, "-I", "-S", reaper.__file__, str(inherit(lifeline)), *command]

    def wait_until_applied(self) -> AppliedSandbox:
        """Wait for the launcher's report, at most 10 s, and return what was applied to the process."""
        applied = self._read_report()
        mechanisms = {limit: f"cgroup v{version}" for limit, version in self._group.version_by_controller.items()}
        if "RLIMIT_NPROC" in applied:
            mechanisms.setdefault("pids", "RLIMIT_NPROC")
        return AppliedSandbox(
            backend=self._backend.name,
            applied=tuple(name for name in applied if name != "RLIMIT_NPROC"),
            memory=_limit(self._policy.memory, mechanisms.get("memory")),
            processes=_limit(self._policy.processes, mechanisms.get("pids")),
            file_bytes=_limit(self._policy.file_bytes, "RLIMIT_FSIZE"),
            open_files=_limit(OPEN_FILES, "RLIMIT_NOFILE"),
            readable=tuple(map(str, shown_files(self._policy))),
        )

    def _read_report(self) -> tuple[str, ...]:
        """Return the names of what the launcher applied; empty without a report."""
        if self._report is None:
            return ()
        poll = select.poll()
        poll.register(self._report, select.POLLIN)
        names = os.read(self._report, _REPORT_BYTES) if poll.poll(_WAIT_SECONDS * 1000) else b""
        return tuple(names.decode(errors="replace").split(",")) if names else ()

    def counts_memory_kills(self) -> bool:
        """Return True if `oom_limit` knows each process that the kernel killed because memory ran out."""
        return self._backend is not ON_NODES and self._group.memory_kills() is not None

    def oom_limit(self) -> int | None:
        """Return the memory limit in bytes if the kernel killed a process for exceeding it, else None."""
        return self._policy.memory if self._group.memory_kills() else None

    def exit_signal_or_code(self) -> tuple[signal.Signals | None, int]:
        """Wait for the process, and return the signal that killed it, if any, and its exit code."""
        code = self.popen.wait()
        # Launcher, reaper and bwrap report the signal of their child as a shell does.
        number = -code if code < 0 else code - 128
        if number in {member.value for member in signal.Signals}:
            return signal.Signals(number), code
        return None, code

    def kill_once(self) -> None:
        """Kill the current members of the control group, without waiting. `kill` handles what they start meanwhile."""
        self.popen.poll()
        self._group.kill_once()

    def kill(self) -> bool:
        """Kill the process and its descendants. Return False if one is left (a process stuck in the kernel)."""
        self.kill_once()
        is_clean = reaper.kill_tree(self.pid) if self.popen.poll() is None else True
        # If the reaper was killed first, its orphans are still in the group.
        is_clean &= self._group.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(_WAIT_SECONDS)
        return is_clean

    def close(self) -> None:
        """Kill what is left, and release the control group and all descriptors."""
        self.kill()
        self._release()

    def _release(self) -> None:
        for descriptor in (self._lifeline, self._report):
            if descriptor is not None:
                os.close(descriptor)
        self._group.remove()


def applied_sandbox() -> AppliedSandbox:
    """Return the sandbox that this machine's backend applies to a process with the default policy.

    Raises HarnessError as `detect_backend` does.
    """
    with tempfile.TemporaryDirectory(prefix="harness-trial-") as scratch:
        folder = Path(scratch)
        process = SandboxedProcess(
            ["/bin/sh", "-c", ":"], SandboxPolicy(writable=(folder,)), cwd=folder, environment={}
        )
        try:
            return process.wait_until_applied()
        finally:
            process.close()


def _limit(most: int | None, by: str | None) -> Limit | None:
    return None if most is None or by is None else Limit(most=most, by=by)


def deleted_bytes(pids: Iterable[int], device: int) -> int:
    """Return the bytes on the file system `device` (st_dev) of deleted files that the processes hold.

    Mappings can be read by root only. A file that is in transit between two processes of the sandbox is not seen.
    """
    sizes: dict[int, int] = {}
    for entry in islice(_held_files(pids), _MAX_ENTRIES):
        with contextlib.suppress(OSError):
            held = Path(entry).stat()
            if stat.S_ISREG(held.st_mode) and held.st_nlink == 0 and held.st_dev == device:
                sizes[held.st_ino] = held.st_blocks * 512
    return sum(sizes.values())


def _held_files(pids: Iterable[int]) -> Iterable[str]:
    for pid in pids:
        for kind in ("fd", "map_files"):
            with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/{kind}") as entries:
                yield from (entry.path for entry in entries)
