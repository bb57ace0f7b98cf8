"""Measure start-up time, ingest rate and overhead of a run: `python -m tests.bench.overhead [--full]`."""

import hashlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from harness.runs.folder import RunFolder
from harness.runs.reader import RunReader
from tests.bench.inputs import run_harness
from tests.functional.machine import PLUGINS, ROOT

COMPUTING = Path(__file__).parent / "attacks" / "computing.py"
VOCABULARY, LENGTH, BATCHES = 50257, 50, 400
FULL_SECONDS, SHORT_SECONDS = 60.0, 15.0


def measure_start_up(repeats: int = 5) -> dict[str, Any]:
    """Return median seconds from the command to the first committed guess, and for the start of the worker."""
    with tempfile.TemporaryDirectory() as place:
        round_ = _round(Path(place), examples=1000)
        first_guess, worker = [], []
        for _ in range(repeats):
            start = time.time()
            folder = _run(Path(place), PLUGINS / "million.py", round_, "guesses=1000", "rows=1000")
            worker.append(_event_times(folder)["worker_started"] - _budget_start(folder))
            first_guess.append(_guess_times(folder)[0] - start)
    return {
        "command_to_first_guess_s": round(statistics.median(first_guess), 3),
        "worker_start_s": round(statistics.median(worker), 3),
    }


def measure_ingest(repeats: int = 3, guesses: int = 300_000) -> dict[str, Any]:
    """Return the median number of committed guesses per second, from an attack that yields as fast as it can."""
    with tempfile.TemporaryDirectory() as place:
        round_ = _round(Path(place), examples=1000)
        rates = []
        for _ in range(repeats):
            folder = _run(Path(place), PLUGINS / "million.py", round_, f"guesses={guesses}", "rows=1000")
            start = _event_times(folder)["worker_started"]
            rates.append(guesses / (_guess_times(folder)[1] - start))
    return {"guesses_per_second": round(statistics.median(rates))}


def measure_overhead(*, full: bool = False, repeats: int = 3) -> dict[str, Any]:
    """Return how much longer 400 batches of work on all cores take in a run than in a plain loop."""
    seconds = FULL_SECONDS if full else SHORT_SECONDS
    # The same batches and guesses in less time would show a larger overhead than the full measurement.
    batches = BATCHES if full else round(BATCHES * SHORT_SECONDS / FULL_SECONDS)
    examples = 250 * batches
    iterations = _iterations(seconds / batches)
    with tempfile.TemporaryDirectory() as place:
        round_ = _round(Path(place), examples=examples)
        loop, harness = [], []
        for _ in range(repeats):
            loop.append(_loop_seconds(examples, iterations))
            folder = _run(Path(place), COMPUTING, round_, f"iterations={iterations}")
            harness.append(_printed_seconds(folder.log.read_text()))
    ratios = [ours / theirs for ours, theirs in zip(harness, loop, strict=True)]
    return {
        "loop_s": round(statistics.median(loop), 2),
        "harness_s": round(statistics.median(harness), 2),
        "overhead": round(statistics.median(ratios) - 1, 4),
        "overheads": [round(ratio - 1, 4) for ratio in ratios],
        "batches": batches,
        "guesses": examples,
    }


def _round(place: Path, *, examples: int) -> Path:
    rng = np.random.default_rng(0)
    for name in ("prefix", "answer"):
        np.save(place / f"{name}.npy", rng.integers(0, VOCABULARY, (examples, LENGTH), dtype=np.uint16))
    path = place / "round.toml"
    path.write_text(
        'name = "bench"\ntitle = "A round for benchmarks"\nprefix_file = "prefix.npy"\nanswer_file = "answer.npy"\n'
        'clusters = "none"\ntarget = "none"\nbudget = "1h"\n'
    )
    return path


def _run(place: Path, attack: Path, round_: Path, *settings: str) -> RunFolder:
    """Run the attack in the file `attack` to its end, and return its run."""
    options = [word for setting in settings for word in ("--set", setting)]
    run_harness(place, "run", attack.stem, "--attacks", str(attack.parent), "--round", str(round_), *options)
    folders = [RunFolder(path) for path in (place / "state" / "runs").iterdir()]
    return max(folders, key=lambda folder: folder.attack_spec().created_at)


def _budget_start(folder: RunFolder) -> float:
    """Return the time at which the budget began to count, shortly before the worker process is created."""
    with RunReader(folder.store) as reader:
        return reader.ledger()[0].at


def _event_times(folder: RunFolder) -> dict[str, float]:
    with RunReader(folder.store) as reader:
        return {name: at for _, at, name, _ in reader.events()}


def _guess_times(folder: RunFolder) -> tuple[float, float]:
    """Return the times at which the first and the last guess were committed."""
    with RunReader(folder.store) as reader:
        return reader.query("SELECT MIN(at), MAX(at) FROM guess")[0]


def _iterations(seconds: float) -> int:
    """Return the number of hash iterations that keep one core busy for about `seconds`."""
    start = time.perf_counter()
    hashlib.pbkdf2_hmac("sha256", b"work", b"", 200_000)
    return max(1, round(200_000 * seconds / (time.perf_counter() - start)))


def _loop_seconds(examples: int, iterations: int) -> float:
    command = [sys.executable, str(COMPUTING), str(examples), str(LENGTH), str(iterations)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=600)
    return _printed_seconds(done.stdout)


def _printed_seconds(text: str) -> float:
    return float(text.rpartition("seconds ")[2].split()[0])


def main() -> None:
    """Print the three measurements."""
    for name, figures in (
        ("start-up", measure_start_up()),
        ("ingest", measure_ingest()),
        ("overhead", measure_overhead(full="--full" in sys.argv[1:])),
    ):
        print(f"{name:<9}", ", ".join(f"{key} {value}" for key, value in figures.items()), flush=True)


if __name__ == "__main__":
    main()
