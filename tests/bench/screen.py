"""What the screen costs who watches: its first paint, the opening of a run, keys under load, memory over hours.

python -m tests.bench.screen [--full]
"""

import asyncio
import json
import os
import pty
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from harness.runs.folder import RunFolder
from harness.tui.app import HarnessApp
from harness.tui.screens.run import RunScreen
from tests.functional.machine import ROOT, homes
from tests.unit.tui.recorded import Recorded, recorded_run

_EXAMPLES, _LENGTH = 1000, 50
_OPENED_GUESSES = 100_000
_PAINTS = 5
_LIVE_RATE, _LIVE_SECONDS = 1_000, 20
# A guess a millisecond for an hour, at 20 times speed.
_LONG_RATE, _LONG_SECONDS = 20_000, 180
_SECONDS_TO_OPEN = 30.0


def measure(*, full: bool) -> dict[str, Any]:
    """Every figure; memory only with `full`, which takes three minutes."""
    with _place():
        run = _recorded_run()
        _write_at_once(run, _OPENED_GUESSES)
        run.event("phase", phase="finished")
        figures = {"first paint, s (bar 0.8)": _first_paint(), "opening 100,000 guesses, s (bar 1)": _opening(run)}
        run.store.close()
    live = _live(_LIVE_RATE, _LIVE_SECONDS)
    latencies = live["latencies_ms"]
    figures |= {
        "key at 1,000 guesses/s, ms": statistics.median(latencies),
        "… at the 99th percentile": float(np.quantile(latencies, 0.99)),
        "… at the most (bar 100)": max(latencies),
        "… keys pressed": len(latencies),
    }
    if full:
        long = _live(_LONG_RATE, _LONG_SECONDS)
        thirds = np.array_split(np.array(long["resident_mib"]), 3)
        figures |= {
            "3.6 million guesses read": long["guesses"],
            "resident, middle third, MiB": float(np.median(thirds[1])),
            "resident, last third, MiB": float(np.median(thirds[2])),
            "last over middle (bar 1.05)": float(np.median(thirds[2]) / np.median(thirds[1])),
        }
    return figures


@contextmanager
def _place() -> Iterator[Path]:
    """Homes of their own for as long as the block goes on."""
    with tempfile.TemporaryDirectory() as folder:
        before = dict(os.environ)
        os.environ |= homes(Path(folder)) | {"PYTHONPATH": str(ROOT), "HARNESS_CONFIG": str(Path(folder) / "config")}
        try:
            yield Path(folder)
        finally:
            os.environ.clear()
            os.environ.update(before)


def _recorded_run() -> Recorded:
    return recorded_run(Path(os.environ["HARNESS_HOME"]).parent, examples=_EXAMPLES, length=_LENGTH, pid=os.getpid())


def _first_paint() -> float:
    """Median seconds from the command to the first frame of Home in a terminal of 80 × 24."""
    return statistics.median(_painted_after() for _ in range(_PAINTS))


def _painted_after() -> float:
    began = time.monotonic()
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ |= {"TERM": "xterm-256color", "LINES": "24", "COLUMNS": "80"}
        os.execv(sys.executable, [sys.executable, "-m", "harness"])
    seen = b""
    try:
        while b"runs" not in seen or b"Quit" not in seen:
            if not select.select([terminal], [], [], _SECONDS_TO_OPEN)[0]:
                raise SystemExit("the screen painted nothing.")
            seen += os.read(terminal, 1 << 16)
        return time.monotonic() - began
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)


def _opening(run: Recorded) -> float:
    """Seconds from asking for a run screen to one whose figures hold every guess."""

    async def play() -> float:
        app = HarnessApp()
        async with app.run_test(size=(120, 40)) as pilot:
            await pilot.pause(1.0)
            began = time.monotonic()
            app.push_screen(RunScreen(run.folder))
            while not _has_read(app, _OPENED_GUESSES):
                await asyncio.sleep(0.002)
            return time.monotonic() - began

    return asyncio.run(play())


def _has_read(app: HarnessApp, guesses: int) -> bool:
    screen = app.screen
    snapshot = screen._snapshot if isinstance(screen, RunScreen) else None
    return snapshot is not None and snapshot.loaded == 1.0 and snapshot.summary.guesses >= guesses


def _live(rate: int, seconds: int) -> dict[str, Any]:
    """What a screen in a process of its own tells while another process commits `rate` guesses a second."""
    with _place():
        command = [sys.executable, "-m", "tests.bench.screen"]
        writer = subprocess.Popen([*command, "write", str(rate), str(seconds)], stdout=subprocess.PIPE, cwd=ROOT)
        assert writer.stdout is not None
        folder = writer.stdout.readline().decode().strip()
        watcher = subprocess.run(
            [*command, "watch", folder, str(rate * seconds)], stdout=subprocess.PIPE, cwd=ROOT, check=True
        )
        writer.wait()
        told: dict[str, Any] = json.loads(watcher.stdout)
        return told


def _write(rate: int, seconds: int) -> None:
    """Commit guesses at an even pace, with what a supervisor writes beside them, and end."""
    run = _recorded_run()
    run.event("phase", phase="running")
    print(run.folder.path, flush=True)
    random = np.random.default_rng(1)
    began, written = time.monotonic(), 0
    batch, second = run.batch("0"), 0
    while written < rate * seconds:
        due = min(rate * seconds, int((time.monotonic() - began) * rate))
        if due > written:
            _commit(run, batch, random, due - written)
            written = due
        if int(time.monotonic() - began) > second:
            second += 1
            with run.store.transaction():
                run.store.add_ledger("tick", float(second))
                run.store.add_point(spent=float(second), guesses=written, rows=1000, solved=1, wrong=999, recall=0.001)
            batch = run.batch(str(second))
        time.sleep(0.02)
    run.event("phase", phase="finished")
    run.store.close()


def _write_at_once(run: Recorded, guesses: int) -> None:
    random, batch = np.random.default_rng(1), run.batch("0")
    for start in range(0, guesses, 10_000):
        _commit(run, batch, random, min(10_000, guesses - start))


def _commit(run: Recorded, batch: tuple[int, int], random: np.random.Generator, rows: int) -> None:
    ids = random.integers(0, _EXAMPLES, rows)
    suffixes = run.answers[ids].copy()
    suffixes[random.random(rows) < 0.7, random.integers(0, _LENGTH)] ^= 1
    with run.store.transaction():
        run.store.add_rows(*batch, "guess", {"example": ids, "suffix": suffixes, "score": random.random(rows)})


def _watch(folder: str, guesses: int) -> None:
    """Show the run until all its guesses are read, pressing keys and weighing this process meanwhile."""
    resident: list[float] = []
    latencies: list[float] = []
    process = psutil.Process()

    async def play() -> None:
        app = HarnessApp(watched=RunFolder(Path(folder)))
        async with app.run_test(size=(80, 24)) as pilot:
            while not isinstance(app.screen, RunScreen) or app.screen._snapshot is None:
                await pilot.pause(0.05)
            weighed_at = 0.0
            while not _has_read(app, guesses):
                await asyncio.sleep(0.03 + 0.1 * np.random.default_rng(len(latencies)).random())
                latencies.append(await _latency(app, "12345"[len(latencies) % 5]))
                if time.monotonic() - weighed_at >= 1.0:
                    weighed_at = time.monotonic()
                    resident.append(process.memory_info().rss / 2**20)

    asyncio.run(play())
    print(json.dumps({"latencies_ms": latencies, "resident_mib": resident, "guesses": guesses}))


async def _latency(app: HarnessApp, key: str) -> float:
    """Milliseconds from a key that shows another panel to the refresh after it."""
    screen = app.screen
    panel = list(RunScreen.PANELS)[int(key) - 1]
    is_painted = asyncio.Event()
    began = time.monotonic()
    app.simulate_key(key)
    while not screen.query_one(f"#{panel}").has_class("-chosen"):
        await asyncio.sleep(0)
    screen.call_after_refresh(is_painted.set)
    await is_painted.wait()
    return 1000 * (time.monotonic() - began)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write", rate, seconds]:
            _write(int(rate), int(seconds))
        case ["watch", folder, guesses]:
            _watch(folder, int(guesses))
        case options:
            for name, value in measure(full="--full" in options).items():
                print(f"{name:36} {value:.4g}" if isinstance(value, float) else f"{name:36} {value}")
