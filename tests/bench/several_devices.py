"""Measure two workers, and a target in two pieces, against one worker: `python -m tests.bench.several_devices`.

An attack that sleeps shows what the division of the work costs, because cores do not limit it. An attack with a model
shows what two workers with one thread gain over one worker with one thread, and over one worker with two. A target in
two pieces on one CPU takes the time of a whole one and that of passing from piece to piece; processor time is compared,
on which other programs have little influence.
"""

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from harness.core.examples import load_prefixes
from harness.core.policy import Policy
from harness.core.rounds import load_round
from harness.engine.loading import load_target
from harness.engine.resolving import resolve_target
from harness.engine.target import Target
from harness.runs.folder import RunFolder
from harness.runs.reader import RunReader
from tests.bench.inputs import exit_on_error, run_harness
from tests.functional.machine import PLUGINS, write_round

_ONE_THREAD = ("--device", "cpu", "--threads", "1")
_TWO_THREADS = ("--device", "cpu", "--threads", "2")
_TWO_WORKERS = ("--devices", "cpu:2", "--threads", "2")


def measure(*, repeats: int = 3) -> dict[str, Any]:
    """Return the figures; each ratio is the median of `repeats` pairs of runs."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        write_round(place)
        sleeping = ("draws", "--attacks", str(PLUGINS), "--round", str(place / "round.toml"), "--set", "pause=0.5")
        drawing = ("baseline", "--round", "demo", "--limit", "1000", "--set", "trials=5")
        pairs: dict[str, list[float]] = {"sleeping": [], "one thread": [], "two threads": []}
        for _ in range(repeats):
            pairs["sleeping"].append(_seconds(place, *sleeping) / _seconds(place, *sleeping, "--devices", "cpu:2"))
            shared = _seconds(place, *drawing, *_TWO_WORKERS)
            pairs["one thread"].append(_seconds(place, *drawing, *_ONE_THREAD) / shared)
            pairs["two threads"].append(_seconds(place, *drawing, *_TWO_THREADS) / shared)
    medians = {case: statistics.median(ratios) for case, ratios in pairs.items()}
    return {
        "two workers / one, batches that sleep 0.5 s": round(medians["sleeping"], 3),
        "two workers of one thread / one worker of one thread, baseline": round(medians["one thread"], 3),
        "two workers of one thread / one worker of two threads, baseline": round(medians["two threads"], 3),
        "time of a target in two pieces / time of a whole one": round(statistics.median(_pieces(4 * repeats)), 3),
    }


def _pieces(repeats: int) -> list[float]:
    """Return ratios of the processor time of draws from the demo in two pieces to that of draws from it as a whole."""
    round_ = load_round("demo")
    prefixes, path = load_prefixes(round_)[:200], resolve_target(round_.target).path
    whole, split = (load_target(path, device="cpu", shards=shards, threads=1) for shards in ((), ("cpu", "cpu")))

    def seconds(target: Target) -> float:
        begun = time.process_time()
        target.sample(prefixes, Policy(top_k=10), trials=5)
        return time.process_time() - begun

    ratios = []
    for number in range(repeats):
        # Each of them is the first one as often.
        targets = (whole, split) if number % 2 else (split, whole)
        taken = {target: seconds(target) for target in targets}
        ratios.append(taken[split] / taken[whole])
    return ratios


def _seconds(place: Path, *arguments: str) -> float:
    """Return the seconds from the first batch to the end of the last one."""
    run_harness(place, "run", *arguments)
    newest = max((place / "state" / "runs").iterdir(), key=lambda path: path.stat().st_mtime)
    with RunReader(RunFolder(newest).store) as reader:
        ((begun, ended),) = reader.query("SELECT MIN(attempt.at), MAX(done.at) FROM attempt, done")
    return float(ended - begun)


if __name__ == "__main__":
    with exit_on_error():
        for name, value in measure().items():
            print(f"{name:66} {value}")
