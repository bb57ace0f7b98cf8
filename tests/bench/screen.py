"""Measure the TUI: time to open it, a run and a list, response to keys under load, bytes written, and memory.

python -m tests.bench.screen [--full]
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import psutil

from harness.runs.folder import RunFolder
from harness.tui.app import HarnessApp
from harness.tui.screens.run import RunScreen
from harness.tui.widgets.panels import Panel
from tests.bench import terminal
from tests.bench.inputs import environment_in
from tests.functional.machine import ROOT
from tests.records import Recorded, recorded_run

_EXAMPLES, _LENGTH = 1000, 50
_STORED_GUESSES = 100_000
_LIVE_RATE, _LIVE_SECONDS = 1_000, 20
# The guesses of one hour at 1,000 per second, in three minutes.
_LONG_RATE, _LONG_SECONDS = 20_000, 180
_TURNS = 5
# A run that is watched over a slow connection.
_SLOW_RATE, _SLOW_SECONDS = 50, 100


def measure(*, full: bool) -> dict[str, Any]:
    """Return all figures. Memory is measured only with `full`, and takes three minutes."""
    with _temporary_home():
        run = _recorded_run()
        _commit_all(run, _STORED_GUESSES)
        run.event("phase", phase="finished")
        figures = {
            "first paint, s": terminal.seconds_to_show("Runs", "Help"),
            "… of an application with one table, s": terminal.seconds_to_show(
                "Runs", "Help", program=("-c", terminal.SMALLEST)
            ),
            "opening 100,000 guesses, s, median of five": statistics.median(
                _opening_seconds(run) for _ in range(_TURNS)
            ),
        }
        run.store.close()
    with _temporary_home():
        run = _recorded_run()
        _commit_all(run, _EXAMPLES)
        run.event("phase", phase="finished")
        run.store.close()
        terminal.copies_of(run.folder)
        figures[f"listing {terminal.RUNS:,} runs, s"] = terminal.seconds_to_show("zzzz")
    turns = [_watch_live_run(_LIVE_RATE, _LIVE_SECONDS)["latencies_ms"] for _ in range(_TURNS)]
    latencies = [latency for turn in turns for latency in turn]
    figures |= {
        "response to a key at 1,000 guesses/s, median ms": statistics.median(latencies),
        "… 99th percentile": float(np.quantile(latencies, 0.99)),
        "… slowest of each turn": ", ".join(f"{max(turn):.0f}" for turn in turns),
        "… number of keys": len(latencies),
    }
    with _live_run(_SLOW_RATE, _SLOW_SECONDS) as folder:
        for size, count in terminal.bytes_per_second(RunFolder(folder)):
            figures[f"bytes written per second at {size}"] = count
    if full:
        long = _watch_live_run(_LONG_RATE, _LONG_SECONDS)
        thirds = np.array_split(np.array(long["resident_mib"]), 3)
        figures |= {
            "guesses read": long["guesses"],
            "resident memory, middle third, MiB": float(np.median(thirds[1])),
            "resident memory, last third, MiB": float(np.median(thirds[2])),
            "last third / middle third": float(np.median(thirds[2]) / np.median(thirds[1])),
        }
    return figures


@contextmanager
def _temporary_home() -> Iterator[None]:
    """Set the directories of the harness in the environment to a temporary directory."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, environment_in(Path(folder))):
        yield


def _recorded_run() -> Recorded:
    return recorded_run(Path(os.environ["HARNESS_HOME"]).parent, examples=_EXAMPLES, length=_LENGTH, pid=os.getpid())


def _opening_seconds(run: Recorded) -> float:
    """Return the seconds from opening the screen of a run until it has read all guesses."""

    async def play() -> float:
        app = HarnessApp()
        async with app.run_test(size=(120, 40)) as pilot:
            await pilot.pause(1.0)
            start = time.monotonic()
            app.push_screen(RunScreen(run.folder))
            while not _has_read(app, _STORED_GUESSES):
                await asyncio.sleep(0.002)
            return time.monotonic() - start

    return asyncio.run(play())


def _has_read(app: HarnessApp, guesses: int) -> bool:
    screen = app.screen
    snapshot = screen._snapshot if isinstance(screen, RunScreen) else None
    return snapshot is not None and snapshot.loaded == 1.0 and snapshot.summary.guesses >= guesses


@contextmanager
def _live_run(rate: int, seconds: int) -> Iterator[Path]:
    """Commit `rate` guesses per second in another process; the value is the directory of the run."""
    with _temporary_home():
        command = [sys.executable, "-m", "tests.bench.screen", "write", str(rate), str(seconds)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as writer:
            assert writer.stdout is not None
            yield Path(writer.stdout.readline().decode().strip())


def _watch_live_run(rate: int, seconds: int) -> dict[str, Any]:
    """Measure a screen in its own process while another process commits `rate` guesses per second."""
    with _live_run(rate, seconds) as folder:
        command = [sys.executable, "-m", "tests.bench.screen", "watch", str(folder), str(rate * seconds)]
        watcher = subprocess.run(command, stdout=subprocess.PIPE, cwd=ROOT, check=True)
        measured: dict[str, Any] = json.loads(watcher.stdout)
        return measured


def _write(rate: int, seconds: int) -> None:
    """Commit guesses at a constant rate, with the ledger and curve that a supervisor writes, and end the run."""
    run = _recorded_run()
    run.event("phase", phase="running")
    print(run.folder.path, flush=True)
    random = np.random.default_rng(1)
    start, written = time.monotonic(), 0
    batch, second = run.batch("0"), 0
    while written < rate * seconds:
        due = min(rate * seconds, int((time.monotonic() - start) * rate))
        if due > written:
            _commit(run, batch, random, due - written)
            written = due
        if int(time.monotonic() - start) > second:
            second += 1
            with run.store.transaction():
                run.store.add_ledger("tick", float(second))
                run.store.add_point(spent=float(second), guesses=written, rows=1000, solved=1, wrong=999, recall=0.001)
            batch = run.batch(str(second))
        time.sleep(0.02)
    run.event("phase", phase="finished")
    run.store.close()


def _commit_all(run: Recorded, guesses: int) -> None:
    random, batch = np.random.default_rng(1), run.batch("0")
    for start in range(0, guesses, 10_000):
        _commit(run, batch, random, min(10_000, guesses - start))


def _commit(run: Recorded, batch: tuple[int, int], random: np.random.Generator, rows: int) -> None:
    ids = random.integers(0, _EXAMPLES, rows)
    suffixes = run.answers[ids].copy()
    suffixes[random.random(rows) < 0.7, random.integers(0, _LENGTH)] ^= 1
    with run.store.transaction():
        run.store.add_rows(
            *batch,
            "guess",
            {"example": ids, "suffix": suffixes, "score": random.random(rows), "trial": np.zeros(rows, int)},
        )


def _watch(folder: str, guesses: int) -> None:
    """Show the run until all its guesses are read. Meanwhile press keys and sample the memory of this process."""
    resident: list[float] = []
    latencies: list[float] = []
    process = psutil.Process()

    async def play() -> None:
        app = HarnessApp(watched=RunFolder(Path(folder)))
        async with app.run_test(size=(80, 24)) as pilot:
            while not isinstance(app.screen, RunScreen) or app.screen._snapshot is None:
                await pilot.pause(0.05)
            sampled_at = 0.0
            while not _has_read(app, guesses):
                await asyncio.sleep(0.03 + 0.1 * np.random.default_rng(len(latencies)).random())
                latencies.append(await _latency(app))
                if time.monotonic() - sampled_at >= 1.0:
                    sampled_at = time.monotonic()
                    resident.append(process.memory_info().rss / 2**20)

    asyncio.run(play())
    print(json.dumps({"latencies_ms": latencies, "resident_mib": resident, "guesses": guesses}))


async def _latency(app: HarnessApp) -> float:
    """Return the milliseconds from Tab, which shows another panel, to the next refresh."""
    screen = app.screen
    hidden = [panel for panel in screen.query(Panel) if panel.has_class("-hidden")]
    is_painted = asyncio.Event()
    start = time.monotonic()
    app.simulate_key("tab")
    while all(panel.has_class("-hidden") for panel in hidden):
        await asyncio.sleep(0)
    screen.call_after_refresh(is_painted.set)
    await is_painted.wait()
    return 1000 * (time.monotonic() - start)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write", rate, seconds]:
            _write(int(rate), int(seconds))
        case ["watch", folder, guesses]:
            _watch(folder, int(guesses))
        case options:
            for name, value in measure(full="--full" in options).items():
                print(f"{name:48} {value:.4g}" if isinstance(value, float) else f"{name:48} {value}")
