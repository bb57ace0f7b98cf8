"""Run an untrusted command in the sandbox with a time limit, and leave none of its processes behind."""

import os
import selectors
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.core.arrays import Tokens
from harness.core.files import is_larger_than
from harness.core.times import seconds_since_boot
from harness.sandbox import SandboxedProcess, SandboxPolicy
from harness.sandbox.capped_log import CappedLog
from harness.sandbox.environment import plain_environment
from harness.sandbox.refusals import Refusal

MAX_SCRATCH_BYTES = 8 << 30
_SIZE_CHECK_SECONDS = 0.5
_CHUNK_BYTES = 1 << 16
_MAX_PIPE_BYTES = 1 << 20
_TAIL_BYTES = 4096
OnLine = Callable[[str], None]
"""Called with a line that the command printed. The text is untrusted: make it visible before showing it."""


@dataclass(frozen=True)
class StepResult:
    """How a command ended.

    `code` is the exit code, or None if the command was killed, with the reason in `ending`. `seconds` includes time in
    which the machine was suspended. `last_line` is the last line of output, which is untrusted text.
    """

    code: int | None
    seconds: float
    ending: str
    is_out_of_time: bool
    refusals: Mapping[Refusal, int]
    last_line: str


@dataclass(frozen=True)
class CodeResult:
    """How a bundle's code ended, and the path of its submission. scores.csv is in the same folder."""

    step: StepResult
    out: Path


def run_code(
    code: Path,
    prefixes: Tokens,
    python: Path,
    *,
    readable: Iterable[Path],
    variables: Mapping[str, str],
    work: Path,
    target: Path | None,
    budget: float,
    on_line: OnLine,
) -> CodeResult:
    """Run run.sh of the folder `code` on `prefixes` [examples, length] with the interpreter `python`, inside `work`.

    The code can read itself, its environment and the target, and write to a scratch folder only. All its processes are
    killed `budget` seconds after the start.
    """
    scratch = work / "scratch"
    scratch.mkdir()
    np.save(scratch / "prefixes.npy", prefixes)
    target_variable = {} if target is None else {"HARNESS_TARGET": str(target)}
    step = run_step(
        ["bash", str(code / "run.sh"), str(scratch / "prefixes.npy"), str(scratch / "out.csv")],
        scratch=scratch,
        readable=(code, *readable),
        linked=() if target is None else (target,),
        variables={"PYTHON": str(python), **_harness_variables(scratch), **target_variable, **variables},
        seconds=budget,
        network=False,
        log=work / "run.log",
        on_line=on_line,
    )
    return CodeResult(step, scratch / "out.csv")


def run_step(
    argv: list[str],
    *,
    scratch: Path,
    readable: Iterable[Path],
    linked: Iterable[Path] = (),
    variables: Mapping[str, str],
    seconds: float,
    network: bool,
    log: Path,
    on_line: OnLine = lambda line: None,
) -> StepResult:
    """Run `argv` in the sandbox for at most `seconds`. It can only write to `scratch`, and its output goes to `log`."""
    pipe_out, pipe_in = os.pipe()
    started = seconds_since_boot()
    try:
        process = SandboxedProcess(
            argv,
            SandboxPolicy(readable=tuple(readable), linked=tuple(linked), writable=(scratch,), network=network),
            cwd=scratch,
            environment=plain_environment(scratch) | {"PYTHONDONTWRITEBYTECODE": "1"} | dict(variables),
            stdout=pipe_in,
            stderr=subprocess.STDOUT,
        )
    except BaseException:
        os.close(pipe_out)
        raise
    finally:
        os.close(pipe_in)
    reader = _OutputReader(CappedLog(log), on_line)
    try:
        kill_reason, is_out_of_time = _wait_for_end(process, pipe_out, reader, scratch, started + seconds)
        elapsed = seconds_since_boot() - started
        refusals = process.refusals()
    finally:
        process.close()
        os.close(pipe_out)
        reader.close()
    code = process.popen.poll() if kill_reason is None else None
    ending = kill_reason or (f"exit code {code}" if code is None or code >= 0 else f"signal {-code}")
    return StepResult(code, elapsed, ending, is_out_of_time, refusals, reader.last_line)


def _wait_for_end(
    process: SandboxedProcess, output: int, reader: "_OutputReader", scratch: Path, deadline: float
) -> tuple[str | None, bool]:
    """Wait for the command's end. Return why it must be killed (None if it exited), and whether its time was up."""
    os.set_blocking(output, False)
    exited = os.pidfd_open(process.pid)
    checked_at = time.monotonic()
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            selector.register(exited, selectors.EVENT_READ)
            while True:
                timeout = max(0.0, min(_SIZE_CHECK_SECONDS, deadline - seconds_since_boot()))
                ready = {key.fd for key, _ in selector.select(timeout)}
                if output in ready and not reader.read_available(output):
                    selector.unregister(output)
                if exited in ready:
                    reader.read_available(output)
                    return None, False
                if seconds_since_boot() >= deadline:
                    return "its time was up", True
                if time.monotonic() - checked_at >= _SIZE_CHECK_SECONDS:
                    checked_at = time.monotonic()
                    if is_larger_than(scratch, MAX_SCRATCH_BYTES):
                        return f"it wrote more than {MAX_SCRATCH_BYTES >> 30} GiB to its scratch folder", False
    finally:
        os.close(exited)


class _OutputReader:
    """Copies a command's output to a log and passes on the latest line."""

    def __init__(self, log: CappedLog, on_line: OnLine) -> None:
        self._log = log
        self._on_line = on_line
        self._tail = b""
        self.last_line = ""

    def read_available(self, output: int) -> bool:
        """Read what is in the pipe. Return False at the end of the output."""
        # At most one full pipe per call: a flood of output must not delay the check of the deadline.
        for _ in range(_MAX_PIPE_BYTES // _CHUNK_BYTES):
            try:
                chunk = os.read(output, _CHUNK_BYTES)
            except BlockingIOError:
                return True
            if not chunk:
                return False
            self._log.write(chunk)
            *lines, self._tail = (self._tail + chunk)[-_TAIL_BYTES:].split(b"\n")
            if latest := next((line for line in reversed(lines) if line.strip()), None):
                self._pass_on(latest)
        return True

    def close(self) -> None:
        """Pass on a last line without line end, and close the log."""
        self._pass_on(self._tail)
        self._log.close()

    def _pass_on(self, line: bytes) -> None:
        if text := line.decode(errors="replace").strip():
            self.last_line = text
            self._on_line(text)


def _harness_variables(scratch: Path) -> dict[str, str]:
    """Return variables that keep the harness's files in `scratch`. The outer sandbox makes an inner one unnecessary."""
    homes = {"HARNESS_HOME": "state", "HARNESS_CACHE": "cache", "HARNESS_DATA": "data", "HARNESS_CONFIG": "config"}
    return {name: str(scratch / folder) for name, folder in homes.items()} | {
        "HARNESS_SANDBOX": "none",
        "HF_HUB_OFFLINE": "1",
    }
