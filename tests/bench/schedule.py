"""Measure what a run costs relative to one tree over all prefixes: `python -m tests.bench.schedule`.

Evaluations are next-token distributions, of which one tree needs the fewest. Each turn measures both ways on prefixes
of its own, so that a ratio compares measurements that are close in time. At the end the prefixes of the first turn go
through `harness run baseline`, from the loaded target to the last guess.
"""

import statistics
import tempfile
import time
from pathlib import Path
from timeit import Timer
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from transformers import GPTNeoConfig

from harness.core.arrays import Tokens
from harness.core.examples import load_prefixes
from harness.core.policy import Policy
from harness.core.rounds import Round
from harness.engine import memory
from harness.engine.branches import Placement
from harness.engine.decoder import SharedBranches
from harness.engine.loading import load_target
from harness.engine.memory import default_rows_at_once
from harness.engine.sampling import expected_prefixes
from harness.engine.target import Target
from harness.runs.folder import RunFolder
from harness.runs.machine import usable_cores
from harness.runs.reader import RunReader
from harness.worker.attack_job import batch_size, first_and_rest
from tests.bench.inputs import exit_on_error, run_harness, surrogate_or_demo
from tests.bench.official import BATCH, official_suffixes

_POLICY = Policy(top_k=10)
_TRIALS_ON_CARD = 37


def measure(*, prefixes: int = 32, trials: int = 100, turns: int = 3) -> dict[str, Any]:
    """Return the figures; `prefixes` are measured in each of `turns`, with `trials` draws each."""
    round_, path = surrogate_or_demo()
    rows = load_prefixes(round_)
    rows = rows[:: max(1, len(rows) // (prefixes * turns))]
    target = load_target(path, device="cpu", threads=usable_cores(), suffix_length=round_.suffix_length)
    target.sample(rows[:2], _POLICY, trials=2)
    evaluations, seconds, shares = [], [], []
    for turn in range(turns):
        some = rows[turn * prefixes : (turn + 1) * prefixes]
        whole, in_batches = (_cost(target, some, trials, in_batches=each) for each in (False, True))
        evaluations.append(in_batches[0] / whole[0])
        seconds.append(in_batches[1] / whole[1])
        shares.append(in_batches[2])
    some = rows[:prefixes]
    whole = _cost(target, some, trials, in_batches=False)[1]
    official = Timer(lambda: official_suffixes(target.model, some[:BATCH], length=round_.suffix_length)).timeit(1)
    seconds_of_run = _seconds_of_a_run(round_, path, some, trials)
    return {
        f"suffixes a second, harness run baseline, {trials} trials": prefixes * trials / seconds_of_run,
        "the same / the reference implementation": prefixes * trials / seconds_of_run * official / len(some[:BATCH]),
        "time of harness run baseline / of one tree": seconds_of_run / whole,
        f"evaluations of a run of {trials} trials / of one tree": statistics.median(evaluations),
        "time of the same": statistics.median(seconds),
        "live / reserved rows": statistics.median(shares),
        f"prefixes at once, GPT-Neo 1.3B, {_TRIALS_ON_CARD} trials, 16 GB": _prefixes_on_a_card(),
    }


def _cost(target: Target, prefixes: Tokens, trials: int, *, in_batches: bool) -> tuple[int, float, float]:
    """Return the evaluations and seconds of all draws, and the share of the reserved rows that were alive."""
    live = reserved = 0
    advance = SharedBranches.advance

    def counted(branches: SharedBranches, tokens: torch.Tensor, placement: Placement) -> torch.Tensor:
        nonlocal live, reserved
        states = advance(branches, tokens, placement)
        live, reserved = live + len(placement), reserved + branches.reserved
        return states

    before, start = target.evaluations, time.perf_counter()
    with patch.object(SharedBranches, "advance", counted):
        for seed, part in enumerate(first_and_rest(trials) if in_batches else [trials]):
            size = len(prefixes)
            if in_batches:
                size = batch_size(target.rows_at_once, part, examples=len(prefixes), is_gpu=False)
            for first in range(0, len(prefixes), size):
                target.sample(prefixes[first : first + size], _POLICY, trials=part, seed=seed)
    return target.evaluations - before, time.perf_counter() - start, live / max(1, reserved)


def _seconds_of_a_run(round_: Round, path: Path, prefixes: Tokens, trials: int) -> float:
    """Return the seconds from the loaded target to the last guess of a run of `baseline` on these prefixes."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        np.save(place / "prefix.npy", prefixes)
        (place / "round.toml").write_text(
            'name = "part"\ntitle = "A part of a round"\nprefix_file = "prefix.npy"\nclusters = "none"\n'
            f'target = "{path}"\nbudget = "1h"\nvocabulary = {round_.vocabulary}\n'
        )
        options = ("--round", str(place / "round.toml"), "--device", "cpu", "--set", f"trials={trials}")
        run_harness(place, "run", "baseline", *options)
        (run,) = (place / "state" / "runs").iterdir()
        with RunReader(RunFolder(run).store) as reader:
            loaded = next(at for _, at, event, _ in reader.events() if event == "worker_target")
            return float(reader.query("SELECT MAX(at) FROM guess")[0][0] - loaded)


def _prefixes_on_a_card() -> int:
    """Return how many prefixes a GPU of 16 GB begins together with the weights of GPT-Neo 1.3B in 16 bits."""
    shape = GPTNeoConfig(hidden_size=2048, num_layers=24, num_heads=16, attention_types=[[["global", "local"], 12]])
    with patch.object(memory, "free_bytes", lambda device: 16 * 10**9 - 2 * 1_316_000_000):
        rows = default_rows_at_once(shape, positions=50, itemsize=2, shares={torch.device("cuda"): 1.0})
    return expected_prefixes(rows, draws=_TRIALS_ON_CARD, prefix_rows=1.0)


if __name__ == "__main__":
    with exit_on_error():
        for name, value in measure().items():
            print(f"{name:80} {np.round(value, 4)}")
