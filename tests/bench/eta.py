"""`python -m tests.bench.eta`: record real runs, and print the ETAs that they showed beside the time they really took.

python -m tests.bench.eta record FILE audit book TEXT --target MODEL …   # runs the command and writes a recording
python -m tests.bench.eta FILE…                                          # a table of 20 ETAs for each recording

A recording holds what the run's store held at each time, without names of steps, and the ETAs that were shown.
"""

import json
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from harness.runs.folder import RunFolder
from harness.runs.summary import run_summary

_SECONDS_BETWEEN_LOOKS = 0.5
_TOLD, _KEPT = 20, 100
FACTOR = 1.5
"""The factor within which an ETA is right."""


def record(file: Path, command: list[str]) -> None:
    """Run a command of the harness in the background, and write its recording."""
    started = subprocess.run(
        [sys.executable, "-m", "harness", *command, "--detach"], check=True, stdout=subprocess.PIPE, text=True
    )
    folder = RunFolder.of(started.stdout.split()[-1])
    plan: dict[tuple[Any, ...], float] = {}
    steps: dict[tuple[str, float], float] = {}
    shown: list[tuple[float, float | None, float | None]] = []
    while not (summary := run_summary(folder)).status.is_over:
        shown.append((time.time(), summary.progress, summary.eta_s))
        if folder.store.exists():
            for row in _rows(folder, "SELECT stage, weight, draw_weight, is_announced FROM plan ORDER BY seq"):
                plan.setdefault(row, time.time())
            for key, at, share in _rows(folder, "SELECT key, at, share FROM step JOIN batch USING (batch)"):
                steps[key, at] = share
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    batches = _rows(
        folder,
        "SELECT key, weight, attempt.at, done.at FROM done "
        "JOIN attempt USING (batch, attempt) JOIN batch USING (batch)",
    )
    rows = _rows(folder, "SELECT at, name, detail FROM event")
    events = [(at, name, json.loads(detail)) for at, name, detail in rows]
    begin = next(at for at, name, _ in events if name == "execution")
    loads = [(at, detail["key"], detail["seconds"]) for at, name, detail in events if name == "worker_loaded"]
    end = max(done for *_, done in batches) - begin
    every = max(1, len(steps) // _KEPT)
    recording = {
        "command": [Path(word).name for word in command],
        "end": round(end, 2),
        "plan": [[round(at - begin, 2), *row] for row, at in plan.items()],
        "batches": [[key, draws, round(at - begin, 2), round(done - begin, 2)] for key, draws, at, done in batches],
        "steps": [[round(at - begin, 2), key, round(share, 3)] for (key, at), share in [*steps.items()][::every]],
        "loads": [[round(at - begin, 2), key, round(seconds, 2)] for at, key, seconds in loads],
        "passes": {detail["stage"]: detail["examples"] for _, name, detail in events if name == "worker_passes"},
        "shown": [
            [round(at - begin, 1), progress and round(progress, 3), eta and round(eta, 1)]
            for at, progress, eta in shown
        ],
    }
    file.write_text(json.dumps(recording, separators=(",", ":")) + "\n")


def _rows(folder: RunFolder, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{folder.store}?mode=ro", uri=True, timeout=10)) as store:
        return store.execute(query).fetchall()


def is_right(eta: float, left: float) -> bool:
    """Return True if an ETA is within the factor of the time that was left."""
    return left / FACTOR <= eta <= left * FACTOR


def table(recording: dict[str, Any]) -> str:
    """Return 20 ETAs of a run beside the time that was left, and how many of all were right."""
    shown = [moment for moment in recording["shown"] if moment[0] < recording["end"]]
    lines = [f"{' '.join(recording['command'])}: {recording['end']:.0f} s"]
    lines.append(f"{'time':>8}{'progress':>10}{'ETA':>8}{'left':>8}")
    for number in range(_TOLD):
        at, progress, eta = shown[number * len(shown) // _TOLD]
        cells = ("" if progress is None else f"{progress:.0%}", "" if eta is None else f"{eta:.0f}")
        lines.append(f"{at:8.1f}{cells[0]:>10}{cells[1]:>8}{recording['end'] - at:8.0f}")
    late = [(eta, recording["end"] - at) for at, progress, eta in shown if progress is not None and progress >= 0.1]
    right = sum(eta is not None and is_right(eta, left) for eta, left in late)
    return "\n".join([*lines, f"from a tenth of the work on: {right} of {len(late)} within a factor of {FACTOR}"])


if __name__ == "__main__":
    if sys.argv[1] == "record":
        record(Path(sys.argv[2]), sys.argv[3:])
    else:
        print("\n\n".join(table(json.loads(Path(file).read_text())) for file in sys.argv[1:]))
