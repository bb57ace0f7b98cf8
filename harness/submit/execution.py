"""A stranger's command in the sandbox, under the clock, with nothing of it left behind: the steps of a verification."""

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

MOST_SCRATCH_BYTES = 8 << 30
_LOOK_SECONDS = 0.5
_CHUNK_BYTES = 1 << 16
_MOST_PIPE_BYTES = 1 << 20
_TAIL_BYTES = 4096
OnLine = Callable[[str], None]
"""Called with a line that the command printed: hostile text, to be made visible before it is shown."""


@dataclass(frozen=True)
class Step:
    """How a command ended. code: its exit code, None when it was ended for `ending`; seconds: on a clock that suspends
    do not stop; last_words: its last line, hostile text."""

    code: int | None
    seconds: float
    ending: str
    is_out_of_time: bool
    refusals: Mapping[Refusal, int]
    last_words: str


@dataclass(frozen=True)
class Executed:
    """How a bundle's code ended, and where it was to write its submission, with scores.csv beside it."""

    step: Step
    out: Path


def executed_code(
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
) -> Executed:
    """Run run.sh of the folder `code` on `prefixes` [examples, length] with the interpreter `python`, inside `work`.

    It sees its code, its environment and the target, and writes to a scratch folder alone; `budget` seconds after its
    start everything that it started is killed.
    """
    scratch = work / "scratch"
    scratch.mkdir()
    np.save(scratch / "prefixes.npy", prefixes)
    named = {} if target is None else {"HARNESS_TARGET": str(target)}
    step = run_step(
        ["bash", str(code / "run.sh"), str(scratch / "prefixes.npy"), str(scratch / "out.csv")],
        scratch=scratch,
        readable=(code, *readable),
        linked=() if target is None else (target,),
        variables={"PYTHON": str(python), **_homes(scratch), **named, **variables},
        seconds=budget,
        network=False,
        log=work / "run.log",
        on_line=on_line,
    )
    return Executed(step, scratch / "out.csv")


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
) -> Step:
    """Run `argv` confined in `scratch`, all that it may write to, for at most `seconds`; its output goes to `log`."""
    pipe_out, pipe_in = os.pipe()
    began = seconds_since_boot()
    try:
        confined = SandboxedProcess(
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
    listened = _Listened(CappedLog(log), on_line)
    try:
        ending, is_out_of_time = _followed(confined, pipe_out, listened, scratch, began + seconds)
        spent = seconds_since_boot() - began
        refusals = confined.refusals()
    finally:
        confined.close()
        os.close(pipe_out)
        listened.close()
    code = confined.popen.poll() if ending is None else None
    words = ending or (f"exit code {code}" if code is None or code >= 0 else f"signal {-code}")
    return Step(code, spent, words, is_out_of_time, refusals, listened.last_line)


def _followed(
    confined: SandboxedProcess, output: int, listened: "_Listened", scratch: Path, until: float
) -> tuple[str | None, bool]:
    """Follow the command to its end; why it was ended, None when it ended itself, and whether its time was up."""
    os.set_blocking(output, False)
    ended = os.pidfd_open(confined.pid)
    looked_at = time.monotonic()
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            selector.register(ended, selectors.EVENT_READ)
            while True:
                ready = {
                    key.fd for key, _ in selector.select(max(0.0, min(_LOOK_SECONDS, until - seconds_since_boot())))
                }
                if output in ready and not listened.took(output):
                    selector.unregister(output)
                if ended in ready:
                    listened.took(output)
                    return None, False
                if seconds_since_boot() >= until:
                    return "its time was up", True
                if time.monotonic() - looked_at >= _LOOK_SECONDS:
                    looked_at = time.monotonic()
                    if is_larger_than(scratch, MOST_SCRATCH_BYTES):
                        return f"it wrote more than {MOST_SCRATCH_BYTES >> 30} GiB into its scratch folder", False
    finally:
        os.close(ended)


class _Listened:
    """What a command prints, into a log and line by line to whoever wants it."""

    def __init__(self, log: CappedLog, on_line: OnLine) -> None:
        self._log = log
        self._on_line = on_line
        self._tail = b""
        self.last_line = ""

    def took(self, output: int) -> bool:
        """Take what the pipe holds; false at its end."""
        # As much as a pipe ever holds, and no more: a flood is never read to its end, and the clock is looked at.
        for _ in range(_MOST_PIPE_BYTES // _CHUNK_BYTES):
            try:
                chunk = os.read(output, _CHUNK_BYTES)
            except BlockingIOError:
                return True
            if not chunk:
                return False
            self._log.write(chunk)
            *lines, self._tail = (self._tail + chunk)[-_TAIL_BYTES:].split(b"\n")
            if told := next((line for line in reversed(lines) if line.strip()), None):
                self._tell(told)
        return True

    def close(self) -> None:
        """Let go of the log; what had no end of line was a line all the same."""
        self._tell(self._tail)
        self._log.close()

    def _tell(self, line: bytes) -> None:
        if text := line.decode(errors="replace").strip():
            self.last_line = text
            self._on_line(text)


def _homes(scratch: Path) -> dict[str, str]:
    """The harness's places for the code's own runs. The sandbox around it is the one that holds."""
    homes = {"HARNESS_HOME": "state", "HARNESS_CACHE": "cache", "HARNESS_DATA": "data", "HARNESS_CONFIG": "config"}
    return {name: str(scratch / place) for name, place in homes.items()} | {
        "HARNESS_SANDBOX": "none",
        "HF_HUB_OFFLINE": "1",
    }
