"""Measure two workers, and a target in two pieces, against one worker: `python -m tests.bench.several_devices`.

An attack that sleeps shows what the division of the work costs, because cores do not limit it. An attack with a model
shows what two workers with one thread gain over one worker with one thread, and over one worker with two. A target in
two pieces on one CPU takes the time of a whole one and that of passing from piece to piece; processor time is compared,
on which other programs have little influence.
"""

import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from harness.core.examples import load_prefixes
from harness.core.policy import Policy
from harness.core.rounds import load_round
from harness.engine.loading import load_target
from harness.engine.resolving import resolve_target
from harness.engine.target import Target
from harness.runs.reader import RunReader
from tests.bench.inputs import run_attack
from tests.bench.measuring import print_measured
from tests.functional.machine import PLUGINS, write_round

_SLEEPING = ("draws", "--attacks", str(PLUGINS), "--set", "pause=0.5")
_DRAWING = ("baseline", "--round", "demo", "--limit", "1000", "--set", "trials=5")
_COMMANDS = {
    "sleeping": _SLEEPING,
    "sleeping, two workers": (*_SLEEPING, "--devices", "cpu:2"),
    "two workers": (*_DRAWING, "--devices", "cpu:2", "--threads", "2"),
    "one thread": (*_DRAWING, "--device", "cpu", "--threads", "1"),
    "two threads": (*_DRAWING, "--device", "cpu", "--threads", "2"),
}


def measure(*, repeats: int = 3) -> dict[str, Any]:
    """Return the figures; each ratio is the median of `repeats` pairs of runs."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        write_round(place)
        turns = [{case: _seconds(place, *command) for case, command in _COMMANDS.items()} for _ in range(repeats)]

    def ratio(case: str, compared: str) -> float:
        return round(median(seconds[case] / seconds[compared] for seconds in turns), 3)

    return {
        "two workers / one, batches that sleep 0.5 s": ratio("sleeping", "sleeping, two workers"),
        "two workers of one thread / one worker of one thread, baseline": ratio("one thread", "two workers"),
        "two workers of one thread / one worker of two threads, baseline": ratio("two threads", "two workers"),
        "time of a target in two pieces / time of a whole one": round(median(_pieces(4 * repeats)), 3),
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
    options = () if "--round" in arguments else ("--round", str(place / "round.toml"))
    folder, _ = run_attack(place, *arguments, *options)
    with RunReader(folder.store) as reader:
        ((begun, ended),) = reader.query("SELECT MIN(attempt.at), MAX(done.at) FROM attempt, done")
    return float(ended - begun)


if __name__ == "__main__":
    print_measured(measure)
