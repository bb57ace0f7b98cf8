"""What each of the engine's means is worth: the time of the same work without it, over the time with all of them.

Prefixes spread over the round, 100 trials each, float32 and the surrogate where its files are; each turn measures
everything once on the same prefixes, and a ratio compares neighbours in time. `python -m tests.bench.means` prints the
README's table.
"""

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from harness.core.arrays import Tokens
from harness.core.examples import load_prefixes
from harness.core.policy import Policy
from harness.core.rounds import load_round
from harness.engine import model_runner, selection
from harness.engine.devices import resolve_device
from harness.engine.loading import load_target
from harness.engine.resolving import resolve_target
from harness.engine.sampling import sample_paths
from harness.engine.target import Target
from harness.runs.machine import usable_cores
from tests.bench.engine import ROUND, SURROGATE

TRIALS, PREFIXES, TURNS = 100, 8, 3
_POLICY = Policy(top_k=10)
_LARGE_BLOCK = 1 << 30


def measure() -> dict[str, Any]:
    """How many times as long the work takes without each of the means, the median of the turns."""
    has_surrogate = SURROGATE.is_dir()
    round_ = load_round(str(ROUND) if has_surrogate else "demo")
    path = resolve_target(str(SURROGATE) if has_surrogate else "demo").path
    prefixes = load_prefixes(round_)
    prefixes = prefixes[:: len(prefixes) // (PREFIXES * TURNS)]
    length, device = round_.suffix_length, resolve_device()
    target, half = (
        load_target(path, device=device, dtype=dtype, threads=usable_cores(), suffix_length=length)
        for dtype in ("float32", "bfloat16")
    )
    ways: dict[str, Callable[[Tokens], object]] = {
        "everything": lambda some: _sampled(target, some),
        "float32 (bfloat16 instead)": lambda some: _sampled(half, some),
        **{name: _without(target, leave_out) for name, leave_out in optimizations(target).items()},
        "draws that agree share one row, on a shared prefix": lambda some: _one_row_a_draw(target, some),
        "several prefixes in one batch": lambda some: [
            _sampled(target, some[place : place + 1]) for place in range(len(some))
        ],
    }
    for way in ways.values():
        way(prefixes[:1])
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(TURNS):
        for number, (name, way) in enumerate(ways.items()):
            print(f"{turn * len(ways) + number + 1} of {TURNS * len(ways)}: {name}", file=sys.stderr, flush=True)
            started = time.perf_counter()
            way(prefixes[turn::TURNS][:PREFIXES])
            seconds[name].append(time.perf_counter() - started)
    whole = seconds.pop("everything")
    return {
        name: round(statistics.median(one / other for one, other in zip(times, whole, strict=True)), 2)
        for name, times in seconds.items()
    }


def _sampled(target: Target, prefixes: Tokens) -> object:
    return target.sample(prefixes, _POLICY, trials=TRIALS)


def _one_row_a_draw(target: Target, prefixes: Tokens) -> object:
    """As many rows of every pass as draws: each prefix stands there once for each of them."""
    repeated = np.repeat(prefixes, TRIALS, axis=0)
    with torch.inference_mode():
        return sample_paths(
            target.predictor,
            repeated,
            _POLICY,
            draws=1,
            seed=0,
            length=target.suffix_length,
            rows_at_once=target.rows_at_once,
        )


def _without(target: Target, leave_out: Callable[[], AbstractContextManager[object]]) -> Callable[[Tokens], object]:
    def sampled(prefixes: Tokens) -> object:
        with leave_out():
            return _sampled(target, prefixes)

    return sampled


def optimizations(target: Target) -> dict[str, Callable[[], AbstractContextManager[object]]]:
    """Return each optimization of the engine, and a context that leaves it out."""
    found: dict[str, Callable[[], AbstractContextManager[object]]] = {
        "maxima of blocks before the selection": lambda: patch.object(
            selection, "top_scores", _top_scores_of_whole_rows
        ),
        "reused tables": lambda: patch.object(model_runner.ModelRunner, "_table", _fresh_table),
        "rows aligned to cache lines": lambda: _unaligned(target.runner),
        "logits in blocks that fit into a cache": lambda: patch.object(target.runner, "logit_bytes", _LARGE_BLOCK),
        "products with the head of 512 rows, not 32": lambda: patch.object(model_runner, "_PRODUCT_ROWS", 32),
    }
    if target.runner.neo is not None:
        found["own GPT-Neo: keys and values of a prefix once, fused attention"] = lambda: patch.object(
            target.runner, "neo", None
        )
        found["GELU in one kernel"] = lambda: _slow_activation(target.runner)
    return found if target.device.type == "cpu" else dict(list(found.items())[:1])


def _top_scores_of_whole_rows(scores: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    found = scores.topk(count, dim=1)
    return found.values, found.indices


def _fresh_table(self: model_runner.ModelRunner, name: str, rows: int, dtype: torch.dtype) -> torch.Tensor:
    columns = -(-self.vocabulary // model_runner._ALIGNED) * model_runner._ALIGNED
    return torch.empty(rows, columns, dtype=dtype, device=self.device)[:, : self.vocabulary]


@contextmanager
def _unaligned(one: model_runner.ModelRunner) -> Iterator[None]:
    with patch.object(model_runner, "_ALIGNED", 1), patch.object(one, "_tables", {}):
        yield


@contextmanager
def _slow_activation(one: model_runner.ModelRunner) -> Iterator[None]:
    assert one.neo is not None
    fused = [block.activation for block in one.neo.blocks]
    for block in one.neo.blocks:
        block.activation = block.mlp.act
    try:
        yield
    finally:
        for block, activation in zip(one.neo.blocks, fused, strict=True):
            block.activation = activation


def table(found: dict[str, Any]) -> str:
    """The ratios as Markdown, the largest first."""
    lines = ["| without | relative time |", "|---|---|"]
    return "\n".join(
        [*lines, *(f"| {name} | {found[name]:.2f} |" for name in sorted(found, key=lambda one: -found[one]))]
    )


if __name__ == "__main__":
    print(table(measure()))
