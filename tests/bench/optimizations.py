"""Measure what each optimization of the engine contributes: the time without it relative to the time with all of them.

The prefixes are spread over the round, with 100 trials each in float32. BENCH_TARGET names the target.
`python -m tests.bench.optimizations` prints the table of docs/development/benchmarks.md.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from unittest.mock import patch

import numpy as np
import torch

from harness.core.arrays import Tokens
from harness.core.policy import Policy
from harness.engine import shaping
from harness.engine.kernels import Product
from harness.engine.model_runner import ModelRunner
from harness.engine.sampling import sample_paths
from harness.engine.target import Target
from tests.bench.measuring import exit_on_error, in_turns, markdown_table, median_ratio

TRIALS, PREFIXES, TURNS = 100, 8, 3
_POLICY = Policy(top_k=10)
_LARGE_BLOCK = 1 << 30

Disabler = Callable[[], AbstractContextManager[object]]


def measure() -> dict[str, float]:
    """Return the relative time without each optimization, the median over turns."""
    # The tests of the engine use this module and need not load the command line.
    from tests.bench.inputs import surrogate_or_demo

    inputs = surrogate_or_demo()
    prefixes = inputs.prefixes[:: len(inputs.prefixes) // (PREFIXES * TURNS)]
    target, half = (inputs.target(dtype=dtype) for dtype in ("float32", "bfloat16"))
    variants: dict[str, Callable[[Tokens], object]] = {
        "everything": lambda some: _sample(target, some),
        "float32 (bfloat16 instead)": lambda some: _sample(half, some),
        **{name: _without(target, disable) for name, disable in disablers(target).items()},
        "one row for equal draws, on a shared prefix": lambda some: _sample_one_row_per_draw(target, some),
        "several prefixes in one batch": lambda some: [
            _sample(target, some[place : place + 1]) for place in range(len(some))
        ],
    }
    for sample in variants.values():
        sample(prefixes[:1])

    def on_own_prefixes(sample: Callable[[Tokens], object]) -> Callable[[int], object]:
        return lambda turn: sample(prefixes[turn::TURNS][:PREFIXES])

    taken = in_turns({name: on_own_prefixes(sample) for name, sample in variants.items()}, TURNS)
    optimized = taken.pop("everything")
    return {name: round(median_ratio(times, optimized), 2) for name, times in taken.items()}


def disablers(target: Target) -> dict[str, Disabler]:
    """Return the optimizations that can be switched off, each with a context manager that does so."""
    found: dict[str, Disabler] = {
        "block maxima before the selection": lambda: patch.object(shaping, "_BLOCK", _LARGE_BLOCK),
        "logits in blocks that fit into a cache": lambda: patch.object(target.runner, "logit_bytes", _LARGE_BLOCK),
        "weights in the order of oneDNN": lambda: _unpacked_weights(target.runner),
    }
    if target.runner.decoder is not None:
        found["own decoder: keys and values of a prefix once, fused attention"] = lambda: patch.object(
            target.runner, "decoder", None
        )
    return found if target.device.type == "cpu" else dict(list(found.items())[:1])


def _sample(target: Target, prefixes: Tokens) -> object:
    return target.sample(prefixes, _POLICY, trials=TRIALS)


def _sample_one_row_per_draw(target: Target, prefixes: Tokens) -> object:
    """Sample from a batch that contains each prefix once per draw."""
    repeated = np.repeat(prefixes, TRIALS, axis=0)
    with torch.inference_mode():
        return sample_paths(
            target.predictor,
            repeated,
            policy=_POLICY,
            draws=1,
            seed=0,
            length=target.suffix_length,
            rows_at_once=target.rows_at_once,
            on_step=target.report_step,
        )


def _without(target: Target, disable: Disabler) -> Callable[[Tokens], object]:
    def sample(prefixes: Tokens) -> object:
        with disable():
            return _sample(target, prefixes)

    return sample


@contextmanager
def _unpacked_weights(runner: ModelRunner) -> Iterator[None]:
    blocks = [] if runner.decoder is None else runner.decoder.parts.blocks
    parts = [part for block in blocks for part in (block.attention, block.mlp)]
    products = [each for part in parts for each in vars(part).values() if isinstance(each, Product)]
    if runner.head_product is not None:
        products.append(runner.head_product.product)
    with ExitStack() as stack:
        for product in products:
            stack.enter_context(patch.object(product, "_packed", None))
        yield


def table(figures: dict[str, float]) -> str:
    """Return the ratios as a Markdown table, the largest first."""
    rows = sorted(figures.items(), key=lambda row: -row[1])
    return markdown_table(("without", "relative time"), [(name, f"{ratio:.2f}") for name, ratio in rows])


if __name__ == "__main__":
    with exit_on_error():
        print(table(measure()))
