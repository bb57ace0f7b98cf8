"""Run an untrusted command in the sandbox with a time limit, and leave none of its processes behind."""

import contextlib
import os
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from harness.core.files import is_larger_than
from harness.core.times import seconds_since_boot
from harness.sandbox import SandboxedProcess, SandboxPolicy
from harness.sandbox.capped_log import CappedLog
from harness.sandbox.policy import plain_environment
from harness.sandbox.process import deleted_bytes
from harness.sandbox.reaper import descendants_of

MAX_SCRATCH_BYTES, MAX_SCRATCH_FILES = 8 << 30, 500_000
"""Enough for an environment with torch, which has some 60,000 files."""
_SIZE_CHECK_SECONDS, _MAX_CHECK_SECONDS = 0.5, 5.0
_CHUNK_BYTES = 1 << 16
_TAIL_BYTES = 4096
_JOIN_SECONDS = 10.0
OnLine = Callable[[str], None]
"""Called with a line that the command printed. The text is untrusted: make it visible before showing it."""


@dataclass(frozen=True)
class RunSettings:
    """The settings of a run of the code."""

    use_own_environment: bool = False
    """Use the verifier's own Python, whose versions must be the locked ones, instead of a new environment."""
    wheels: Path | None = None
    """The folder that a new environment is installed from."""
    may_use_network: bool = False
    """Also install from the package index."""
    may_run_without_sandbox: bool = False
    device: str | None = None
    """None means the bundle's device."""
    on_step: OnLine = field(default=lambda step: None)
    """Called with a description of each step."""
    on_line: OnLine = field(default=lambda line: None)
    """Called with each line that a step prints."""


@dataclass(frozen=True)
class StepResult:
    """The end of a command."""

    code: int | None
    """The exit code, None if the command was killed for the reason in `ending`."""
    seconds: float
    """The time that it took, including time in which the machine was suspended."""
    ending: str
    is_out_of_time: bool
    last_line: str
    """The last line of output, which is untrusted text."""


def run_step(
    argv: list[str],
    *,
    scratch: Path,
    readable: Iterable[Path],
    hidden: Iterable[Path] = (),
    variables: Mapping[str, str],
    seconds: float,
    network: bool,
    log: Path,
    scratch_bytes: int = MAX_SCRATCH_BYTES,
    on_line: OnLine = lambda line: None,
    on_wait: Callable[[], None] = lambda: None,
) -> StepResult:
    """Run `argv` in the sandbox for at most `seconds`. It can only write to `scratch`, and its output goes to `log`.

    scratch_bytes: the size of all files in `scratch`. One file may have half of it.
    on_wait: called about twice a second.
    """
    started = seconds_since_boot()
    process = SandboxedProcess(
        argv,
        SandboxPolicy(tuple(readable), (scratch,), tuple(hidden), network=network, file_bytes=scratch_bytes // 2),
        cwd=scratch,
        environment=plain_environment(scratch) | {"PYTHONDONTWRITEBYTECODE": "1"} | dict(variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.popen.stdout is not None
    output = _OutputReader(process.popen.stdout, log, on_line)
    try:
        kill_reason, is_out_of_time = _wait_for_end(process.popen, scratch, started + seconds, scratch_bytes, on_wait)
        elapsed = seconds_since_boot() - started
        oom_limit = process.oom_limit()
    finally:
        # This ends every process that could write to the pipe.
        process.close()
        output.join(_JOIN_SECONDS)
    if output.error is not None:
        raise output.error
    code = process.popen.poll() if kill_reason is None else None
    ending = kill_reason or (f"exit code {code}" if code is None or code >= 0 else f"signal {-code}")
    if oom_limit is not None:
        ending += f"; it used more than {oom_limit / 1e9:.1f} GB of memory, its limit"
    return StepResult(code, elapsed, ending, is_out_of_time, output.last_line)


def _wait_for_end(
    popen: "subprocess.Popen[bytes]", scratch: Path, deadline: float, scratch_bytes: int, on_wait: Callable[[], None]
) -> tuple[str | None, bool]:
    """Wait for the command's end. Return why it must be killed (None if it exited), and whether its time was up."""
    pause = _SIZE_CHECK_SECONDS
    while True:
        try:
            popen.wait(max(0.0, min(pause, deadline - seconds_since_boot())))
            return None, False
        except subprocess.TimeoutExpired:
            on_wait()
            began = seconds_since_boot()
            if began >= deadline:
                return "its time was up", True
            named_bytes = scratch_bytes - deleted_bytes(descendants_of(popen.pid), scratch.stat().st_dev)
            if is_larger_than(scratch, named_bytes, max_files=MAX_SCRATCH_FILES):
                limits = f"{scratch_bytes >> 30} GiB or {MAX_SCRATCH_FILES:,} files"
                return f"it wrote more than {limits} to its scratch folder", False
            # Counting the files of a large environment takes a good part of a second.
            pause = min(max(_SIZE_CHECK_SECONDS, 10 * (seconds_since_boot() - began)), _MAX_CHECK_SECONDS)


class _OutputReader(threading.Thread):
    """Copies a command's output to a log and passes on the latest line, until the pipe is closed.

    `error` is the exception of a call of `on_line`, after which no line is passed on.
    """

    def __init__(self, output: IO[bytes], log: Path, on_line: OnLine) -> None:
        super().__init__(daemon=True)
        self._output = output
        self._log = CappedLog(log)
        self._on_line = on_line
        self.last_line = ""
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        tail = b""
        with self._output, contextlib.closing(self._log):
            while chunk := os.read(self._output.fileno(), _CHUNK_BYTES):
                self._log.write(chunk)
                *lines, tail = (tail + chunk)[-_TAIL_BYTES:].split(b"\n")
                self._pass_on(next((line for line in reversed(lines) if line.strip()), b""))
        self._pass_on(tail)

    def _pass_on(self, line: bytes) -> None:
        if text := line.decode(errors="replace").strip():
            self.last_line = text
            if self.error is None:
                try:
                    self._on_line(text)
                except Exception as error:
                    # The command must not notice: a reader that ends here would break its pipe.
                    self.error = error
