"""Measure start-up time, ingest rate and overhead of a run: `python -m tests.bench.overhead [--full]`."""

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from harness.runs.reader import RunReader
from tests.bench.inputs import run_attack, write_bench_round
from tests.bench.measuring import print_figures
from tests.functional.machine import PLUGINS, ROOT

ATTACKS = Path(__file__).parent / "attacks"
VOCABULARY, LENGTH, BATCHES = 50257, 50, 400
FULL_SECONDS, SHORT_SECONDS = 60.0, 15.0


class Times(NamedTuple):
    """Times of a run, in seconds since 1970, and what its attack printed.

    budget: when the budget began to count, shortly before the worker process is created. first, last: when the first
    and the last guess were committed.
    """

    budget: float
    worker: float
    first: float
    last: float
    printed: str


def measure_start_up(repeats: int = 5) -> dict[str, Any]:
    """Return median seconds from the command to the first committed guess, and for the start of the worker."""
    first_guess, worker = [], []
    with _round(examples=1000) as place:
        for _ in range(repeats):
            start = time.time()
            times = _run(place, PLUGINS, "million", "guesses=1000", "rows=1000")
            worker.append(times.worker - times.budget)
            first_guess.append(times.first - start)
    return {
        "command_to_first_guess_s": round(median(first_guess), 3),
        "worker_start_s": round(median(worker), 3),
    }


def measure_ingest(repeats: int = 3, guesses: int = 300_000) -> dict[str, Any]:
    """Return the median number of committed guesses per second, from an attack that yields as fast as it can."""
    with _round(examples=1000) as place:
        runs = [_run(place, PLUGINS, "million", f"guesses={guesses}", "rows=1000") for _ in range(repeats)]
    return {"guesses_per_second": round(median(guesses / (times.last - times.worker) for times in runs))}


def measure_overhead(*, full: bool = False, repeats: int = 3) -> dict[str, Any]:
    """Return how much longer 400 batches of work on all cores take in a run than in a plain loop."""
    seconds = FULL_SECONDS if full else SHORT_SECONDS
    # The same batches and guesses in less time would show a larger overhead than the full measurement.
    batches = BATCHES if full else round(BATCHES * SHORT_SECONDS / FULL_SECONDS)
    examples = 250 * batches
    iterations = _iterations(seconds / batches)
    loop, harness = [], []
    with _round(examples=examples) as place:
        for _ in range(repeats):
            loop.append(_loop_seconds(examples, iterations))
            harness.append(_printed_seconds(_run(place, ATTACKS, "computing", f"iterations={iterations}").printed))
    overheads = [ours / theirs - 1 for ours, theirs in zip(harness, loop, strict=True)]
    return {
        "loop_s": round(median(loop), 2),
        "harness_s": round(median(harness), 2),
        "overhead": round(median(overheads), 4),
        "overheads": [round(overhead, 4) for overhead in overheads],
        "batches": batches,
        "guesses": examples,
    }


@contextmanager
def _round(*, examples: int) -> Iterator[Path]:
    """Write a round without a target to a temporary directory."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        prefixes, answers = np.random.default_rng(0).integers(0, VOCABULARY, (2, examples, LENGTH), dtype=np.uint16)
        np.save(place / "answer.npy", answers)
        write_bench_round(place, prefixes, answer_file="answer.npy", target="none")
        yield place


def _run(place: Path, attacks: Path, attack: str, *settings: str) -> Times:
    """Run an attack of the directory `attacks` to its end."""
    options = [word for setting in settings for word in ("--set", setting)]
    folder, _ = run_attack(place, attack, "--attacks", str(attacks), "--round", str(place / "round.toml"), *options)
    with RunReader(folder.store) as reader:
        started = next(at for _, at, name, _ in reader.events() if name == "worker_started")
        first, last = reader.query("SELECT MIN(at), MAX(at) FROM guess")[0]
        return Times(reader.ledger()[0].at, started, first, last, folder.log.read_text())


def _iterations(seconds: float) -> int:
    """Return the number of hash iterations that keep one core busy for about `seconds`."""
    start = time.perf_counter()
    hashlib.pbkdf2_hmac("sha256", b"work", b"", 200_000)
    return max(1, round(200_000 * seconds / (time.perf_counter() - start)))


def _loop_seconds(examples: int, iterations: int) -> float:
    command = [sys.executable, str(ATTACKS / "computing.py"), str(examples), str(LENGTH), str(iterations)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=600)
    return _printed_seconds(done.stdout)


def _printed_seconds(text: str) -> float:
    return float(text.rpartition("seconds ")[2].split()[0])


if __name__ == "__main__":
    print_figures(measure_start_up() | measure_ingest() | measure_overhead(full="--full" in sys.argv[1:]))
