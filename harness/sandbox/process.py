"""One confined process as whoever started it holds it: what it was refused, what limits it, and an end that is one."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.sandbox import reaper
from harness.sandbox.backends import SandboxBackend, detect_backend
from harness.sandbox.bubblewrap import bubblewrapped
from harness.sandbox.in_force import InForce, Limit
from harness.sandbox.limits import ControlGroup
from harness.sandbox.notifier import SeccompNotifier
from harness.sandbox.plan import launched, written_plan
from harness.sandbox.policy import OPEN_FILES, SandboxPolicy
from harness.sandbox.refusals import Refusal
from harness.sandbox.view import view_for

_REPORT_SECONDS = 10.0
Stream = int | Any


class SandboxedProcess:
    """A command that runs confined, under the offered means, from its start until it is killed and closed."""

    def __init__(
        self,
        argv: Sequence[str],
        confinement: SandboxPolicy,
        *,
        cwd: Path,
        environment: Mapping[str, str],
        stdin: Stream = subprocess.DEVNULL,
        stdout: Stream = subprocess.DEVNULL,
        stderr: Stream = subprocess.DEVNULL,
        inherited: Iterable[int] = (),
    ) -> None:
        """Start `argv` in `cwd`, which it must be allowed to see, with exactly this environment and these descriptors.

        Raises HarnessError as `detect_backend` does.
        """
        self.means = detect_backend()
        self._confinement = confinement
        self._group = ControlGroup(memory=confinement.memory, processes=confinement.processes)
        self._lifeline: int | None = None
        self._listening: SeccompNotifier | None = None
        handed = list(inherited)
        with contextlib.ExitStack() as ours:
            command = self._command(list(argv), cwd, handed, ours)
            self.popen: subprocess.Popen[bytes] = subprocess.Popen(
                self._group.entering(command),
                cwd=cwd,
                env=dict(environment),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                pass_fds=handed,
                start_new_session=True,
            )
        self.pid = self.popen.pid

    def _command(self, argv: list[str], cwd: Path, handed: list[int], ours: contextlib.ExitStack) -> list[str]:
        """The whole command; what it inherits is added to `handed`, and closed here when `ours` ends."""
        is_bare = self.means is SandboxBackend.NONE
        view = None if is_bare else view_for(self._confinement)
        plan = written_plan(
            self._confinement,
            view if self.means is SandboxBackend.LANDLOCK else None,
            is_filtered=not is_bare,
            has_own_users=self.means is SandboxBackend.BWRAP and os.getuid() != 0,
        )
        ours.callback(os.close, plan)
        handed.append(plan)
        report = -1
        if not is_bare:
            ear, mouth = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ours.enter_context(mouth)
            handed.append(report := mouth.fileno())
            self._listening = SeccompNotifier(ear)
        command = launched(argv, plan, report=report)
        if self.means is SandboxBackend.BWRAP:
            assert view is not None
            return bubblewrapped(command, view, network=self._confinement.network, cwd=cwd)
        lifeline, self._lifeline = os.pipe()
        ours.callback(os.close, lifeline)
        handed.append(lifeline)
        return [sys.executable, "-I", "-S", reaper.__file__, str(lifeline), *command]

    def in_force(self) -> InForce:
        """What holds this process, as it was really applied. Waits for the launcher's word."""
        applied = () if self._listening is None else self._listening.applied(seconds=_REPORT_SECONDS)
        by = {limit: f"cgroup v{version}" for limit, version in self._group.version_by_limit.items()}
        if "RLIMIT_NPROC" in applied:
            by.setdefault("pids", "RLIMIT_NPROC")
        return InForce(
            self.means.value,
            tuple(word for word in applied if word != "RLIMIT_NPROC"),
            memory=_limit(self._confinement.memory, by.get("memory")),
            processes=_limit(self._confinement.processes, by.get("pids")),
            file_bytes=_limit(self._confinement.file_bytes, "RLIMIT_FSIZE"),
            open_files=_limit(OPEN_FILES, "RLIMIT_NOFILE"),
        )

    def refusals(self) -> dict[Refusal, int]:
        """How often each thing was refused so far."""
        counts = {} if self._listening is None else self._listening.counts()
        counts |= {Refusal.MEMORY: self._group.memory_kills(), Refusal.PROCESSES: self._group.refused_forks()}
        return {kind: count for kind, count in counts.items() if count}

    def struck_memory_limit(self) -> int | None:
        """The limit of memory, in bytes, that the kernel killed one of its processes for; None when it killed none."""
        return self._confinement.memory if self._group.memory_kills() else None

    def exit_signal_or_code(self) -> tuple[signal.Signals | None, int]:
        """How the process, which has ended, did so: the signal that killed it, and its exit code."""
        code = self.popen.wait()
        # A sandbox reports the signal of its child as a shell does.
        number = -code if code < 0 else code - 128
        if number in {member.value for member in signal.Signals}:
            return signal.Signals(number), code
        return None, code

    def strike(self) -> None:
        """Kill what is there now, at once, be it thousands; what they start meanwhile is for `kill`."""
        self.popen.poll()
        self._group.strike()

    def kill(self) -> bool:
        """Kill the process and all that it started; false if something is left (a process stuck in the kernel)."""
        self.strike()
        is_clean = reaper.kill_tree(self.pid) if self.popen.poll() is None else True
        # An orphan of a reaper that was killed first is in the group still.
        is_clean &= self._group.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(_REPORT_SECONDS)
        return is_clean

    def close(self) -> None:
        """Kill what is left, and let go of everything that held it."""
        self.kill()
        if self._lifeline is not None:
            os.close(self._lifeline)
        if self._listening is not None:
            self._listening.close()
        self._group.remove()


def _limit(most: int | None, by: str | None) -> Limit | None:
    return None if most is None or by is None else Limit(most, by)
