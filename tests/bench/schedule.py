"""Measure what a run costs relative to one tree over all prefixes: `python -m tests.bench.schedule`.

Evaluations are next-token distributions, of which one tree needs the fewest. Each turn has prefixes of its own. At the
end those of the first turn go through `harness run baseline`, from the loaded target to the last guess.
"""

import tempfile
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import torch

from harness.core.arrays import Tokens
from harness.core.policy import Policy
from harness.engine.branches import Placement
from harness.engine.decoder import SharedBranches
from harness.engine.target import Target
from harness.runs.reader import RunReader
from harness.worker.attack_job import batch_size, first_and_rest
from tests.bench.inputs import Inputs, run_attack, surrogate_or_demo, write_bench_round
from tests.bench.measuring import in_turns, median_ratio, print_measured, timed
from tests.bench.official import BATCH, official_suffixes

_POLICY = Policy(top_k=10)


def measure(*, prefixes: int = 32, trials: int = 100, turns: int = 3) -> dict[str, Any]:
    """Return the figures; `prefixes` are measured in each of `turns`, with `trials` draws each."""
    inputs = surrogate_or_demo()
    length, rows = inputs.round.suffix_length, inputs.prefixes
    rows = rows[:: max(1, len(rows) // (prefixes * turns))]
    target = inputs.target(device="cpu")
    target.sample(rows[:2], _POLICY, trials=2)

    def cost(turn: int, in_batches: bool) -> tuple[int, float]:
        return _cost(target, rows[turn * prefixes : (turn + 1) * prefixes], trials, in_batches=in_batches)

    taken = in_turns({"one tree": lambda turn: cost(turn, False), "in batches": lambda turn: cost(turn, True)}, turns)
    whole, in_batches = ([each.result for each in taken[name]] for name in ("one tree", "in batches"))
    some = rows[:prefixes]
    seconds_of_tree = timed(lambda: cost(0, False)).seconds
    official = timed(lambda: official_suffixes(target.model, some[:BATCH], length=length)).seconds
    seconds_of_run = _seconds_of_a_run(inputs, some, trials)
    return {
        f"suffixes a second, harness run baseline, {trials} trials": prefixes * trials / seconds_of_run,
        "the same / the reference implementation": prefixes * trials / seconds_of_run * official / len(some[:BATCH]),
        "time of harness run baseline / of one tree": seconds_of_run / seconds_of_tree,
        f"evaluations of a run of {trials} trials / of one tree": median(
            some[0] / all_[0] for some, all_ in zip(in_batches, whole, strict=True)
        ),
        "time of the same": median_ratio(taken["in batches"], taken["one tree"]),
        "live / reserved rows": median(share for _, share in in_batches),
    }


def _cost(target: Target, prefixes: Tokens, trials: int, *, in_batches: bool) -> tuple[int, float]:
    """Draw all suffixes. Return the number of evaluations, and the share of the reserved rows that were alive."""
    live = reserved = 0
    advance = SharedBranches.advance

    def counted(branches: SharedBranches, tokens: torch.Tensor, placement: Placement) -> torch.Tensor:
        nonlocal live, reserved
        states = advance(branches, tokens, placement)
        live, reserved = live + len(placement), reserved + branches.reserved
        return states

    before, size = target.evaluations, len(prefixes)
    with patch.object(SharedBranches, "advance", counted):
        for seed, part in enumerate(first_and_rest(trials) if in_batches else [trials]):
            if in_batches:
                size = batch_size(target.rows_at_once, part, examples=len(prefixes), is_gpu=False)
            for first in range(0, len(prefixes), size):
                target.sample(prefixes[first : first + size], _POLICY, trials=part, seed=seed)
    return target.evaluations - before, live / max(1, reserved)


def _seconds_of_a_run(inputs: Inputs, prefixes: Tokens, trials: int) -> float:
    """Return the seconds from the loaded target to the last guess of a run of `baseline` on these prefixes."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        file = write_bench_round(place, prefixes, target=str(inputs.path), vocabulary=inputs.round.vocabulary)
        run, _ = run_attack(place, "baseline", "--round", str(file), "--device", "cpu", "--set", f"trials={trials}")
        with RunReader(run.store) as reader:
            loaded = next(at for _, at, event, _ in reader.events() if event == "worker_target")
            return float(reader.query("SELECT MAX(at) FROM guess")[0][0] - loaded)


if __name__ == "__main__":
    print_measured(measure)
