"""The TUI in a terminal: time to the first paint and to a list of 1,000 runs, and bytes written on a live run."""

import fcntl
import json
import os
import pty
import select
import shutil
import statistics
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from harness.runs.folder import RunFolder
from tests.bench.inputs import run_harness

_SIZES = ((80, 24), (120, 35), (200, 55))
_SECONDS_TO_OPEN = 30.0
_SETTLING_SECONDS, _MEASURED_SECONDS = 5.0, 20.0
RUNS = 1_000


def first_paint_seconds(repeats: int = 5) -> float:
    """Return the median seconds from the command to the first frame of the main screen in a terminal of 80 × 24."""
    return statistics.median(_seconds_to_show(b"Runs", b"Help") for _ in range(repeats))


def listing_seconds(repeats: int = 5) -> float:
    """Return the median seconds from the command to the list of all runs, the newest of which is `zzzz-…`."""
    return statistics.median(_seconds_to_show(b"zzzz") for _ in range(repeats))


def copies_of(run: RunFolder) -> None:
    """Copy a finished run until there are RUNS, the newest of which is named `zzzz`, and read them once."""
    spec = json.loads(run.spec_file.read_text())
    for number in range(RUNS - 1):
        name = f"{number:04d}-copy" if number < RUNS - 2 else "zzzz-copy"
        copy = RunFolder(run.path.with_name(name))
        shutil.copytree(run.path, copy.path)
        changed = {"id": name, "created_at": spec["created_at"] + number}
        copy.spec_file.write_text(json.dumps(spec | changed))
    # The first reading stores a summary beside each run.
    run_harness(run.path.parents[2], "list", "runs")


def bytes_per_second(folder: RunFolder) -> Iterator[tuple[str, float]]:
    """Yield the mean bytes that `harness watch` writes in a second, for each size of the terminal, on a live run."""
    for size in _SIZES:
        with _terminal(["watch", folder.id], size) as read:
            _read_for(_SETTLING_SECONDS, read)
            yield f"{size[0]}x{size[1]}", _read_for(_MEASURED_SECONDS, read) / _MEASURED_SECONDS


def _seconds_to_show(*words: bytes) -> float:
    start, shown = time.monotonic(), b""
    with _terminal([], _SIZES[0]) as read:
        while any(word not in shown for word in words):
            shown += read(_SECONDS_TO_OPEN)
            if time.monotonic() - start > _SECONDS_TO_OPEN:
                raise SystemExit(f"the TUI did not show {words!r} within {_SECONDS_TO_OPEN:g} s.")
    return time.monotonic() - start


def _read_for(seconds: float, read: Callable[[float], bytes]) -> int:
    end, count = time.monotonic() + seconds, 0
    while (left := end - time.monotonic()) > 0:
        count += len(read(left))
    return count


@contextmanager
def _terminal(arguments: list[str], size: tuple[int, int]) -> Iterator[Callable[[float], bytes]]:
    """Run the TUI in a terminal; the value reads what it writes, waiting at most a number of seconds."""
    own, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    environment = os.environ | {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
    command = [sys.executable, "-m", "harness", *arguments]
    screen = subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env=environment, start_new_session=True)
    os.close(its)

    def read(seconds: float) -> bytes:
        return os.read(own, 1 << 16) if select.select([own], [], [], seconds)[0] else b""

    try:
        yield read
    finally:
        screen.kill()
        screen.wait()
        os.close(own)
