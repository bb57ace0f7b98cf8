"""What the harness costs an attack: start-up, ingest and overhead: `python -m tests.bench.overhead [--full]`."""

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

ROOT = Path(__file__).parents[2]
ATTACKS = Path(__file__).parent / "attacks"
COMPUTING = ATTACKS / "computing.py"
VOCABULARY, LENGTH, BATCHES = 50257, 50, 400
FULL_SECONDS, SHORT_SECONDS = 60.0, 15.0


def measure_start_up(turns: int = 5) -> dict[str, Any]:
    """Medians in seconds: from the command to the first durable guess, and the worker's part of that."""
    with tempfile.TemporaryDirectory() as place:
        round_ = _round(Path(place), examples=1000)
        first_guess, worker = [], []
        for _ in range(turns):
            started = time.time()
            folder = _run(Path(place), "pouring", round_, "guesses=1000")
            events = _times(folder)
            worker.append(events["worker_started"] - _clock_start(folder))
            first_guess.append(_guess_times(folder)[0] - started)
    return {
        "command_to_first_guess_s": round(statistics.median(first_guess), 3),
        "worker_start_s": round(statistics.median(worker), 3),
        "worker_start_bar_s": 0.3,
    }


def measure_ingest(turns: int = 3, guesses: int = 300_000) -> dict[str, Any]:
    """Guesses a second that become durable, from an attack that yields as fast as it can; the median turn."""
    with tempfile.TemporaryDirectory() as place:
        round_ = _round(Path(place), examples=1000)
        rates = []
        for _ in range(turns):
            folder = _run(Path(place), "pouring", round_, f"guesses={guesses}")
            first = _times(folder)["worker_started"]
            rates.append(guesses / (_guess_times(folder)[1] - first))
    return {"guesses_a_second": round(statistics.median(rates)), "bar": 30_000}


def measure_overhead(*, full: bool = False, turns: int = 3) -> dict[str, Any]:
    """How much longer 400 batches of work on all cores take under the harness than in a bare loop, turn by turn."""
    seconds = FULL_SECONDS if full else SHORT_SECONDS
    # The same number of batches and guesses in less time would show a cost that the full measurement has not.
    batches = BATCHES if full else round(BATCHES * SHORT_SECONDS / FULL_SECONDS)
    examples = 250 * batches
    iterations = _iterations(seconds / batches)
    with tempfile.TemporaryDirectory() as place:
        round_ = _round(Path(place), examples=examples)
        bare, harnessed = [], []
        for _ in range(turns):
            bare.append(_bare(examples, iterations))
            folder = _run(Path(place), "computing", round_, f"iterations={iterations}")
            harnessed.append(_told_seconds(folder.log.read_text()))
    ratios = [ours / theirs for ours, theirs in zip(harnessed, bare, strict=True)]
    return {
        "bare_s": round(statistics.median(bare), 2),
        "harness_s": round(statistics.median(harnessed), 2),
        "overhead": round(statistics.median(ratios) - 1, 4),
        "overheads": [round(ratio - 1, 4) for ratio in ratios],
        "bar": 0.03,
        "batches": batches,
        "guesses": examples,
    }


def _round(place: Path, *, examples: int) -> Path:
    rng = np.random.default_rng(0)
    for name in ("prefix", "answer"):
        np.save(place / f"{name}.npy", rng.integers(0, VOCABULARY, (examples, LENGTH), dtype=np.uint16))
    path = place / "round.toml"
    path.write_text(
        'name = "bench"\ntitle = "A round to measure with"\nprefix_file = "prefix.npy"\nanswer_file = "answer.npy"\n'
        'clusters = "none"\ntarget = "none"\nbudget = "1h"\n'
    )
    return path


def _run(place: Path, attack: str, round_: Path, setting: str) -> RunFolder:
    """One run from the command line to its end."""
    homes = {name: str(place / name.lower()) for name in ("HARNESS_HOME", "HARNESS_CACHE", "HARNESS_DATA")}
    command = [sys.executable, "-m", "harness", "run", attack, "--attacks", str(ATTACKS), "--round", str(round_)]
    subprocess.run(
        [*command, "--set", setting],
        env={**os.environ, **homes, "PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
        timeout=600,
    )
    folders = [RunFolder(path) for path in (Path(homes["HARNESS_HOME"]) / "runs").iterdir()]
    return max(folders, key=lambda folder: folder.attack_spec().created_at)


def _clock_start(folder: RunFolder) -> float:
    """When the budget began to run: a moment before the worker's process was made."""
    with RunReader(folder.store) as reader:
        return reader.ledger()[0].at


def _times(folder: RunFolder) -> dict[str, float]:
    with RunReader(folder.store) as reader:
        return {name: at for _, at, name, _ in reader.events()}


def _guess_times(folder: RunFolder) -> tuple[float, float]:
    """When the first and the last guess were taken in."""
    with RunReader(folder.store) as reader:
        return reader._all("SELECT MIN(at), MAX(at) FROM guess")[0]  # type: ignore[return-value]


def _iterations(seconds: float) -> int:
    """Rounds of the hash that keep one core busy for about `seconds`."""
    started = time.perf_counter()
    hashlib.pbkdf2_hmac("sha256", b"work", b"", 200_000)
    return max(1, round(200_000 * seconds / (time.perf_counter() - started)))


def _bare(examples: int, iterations: int) -> float:
    command = [sys.executable, str(COMPUTING), str(examples), str(LENGTH), str(iterations)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=600)
    return _told_seconds(done.stdout)


def _told_seconds(text: str) -> float:
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
