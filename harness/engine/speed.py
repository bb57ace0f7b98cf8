"""The speed of a target on this machine, relative to `generate` of transformers."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from statistics import median
from typing import NamedTuple

import numpy as np
import torch

from harness.core.arrays import Tokens
from harness.core.policy import Policy
from harness.engine.target import Target

REFERENCE = "generate"
REFERENCE_BATCH = 32
_POLICY = Policy(top_k=10)
Method = Callable[[Target, Tokens, int], int]  # Maps prefixes and a length to the number of generated suffixes.


class Speed(NamedTuple):
    """The speed of one method in one dtype. rates: suffixes per second of each turn."""

    method: str
    dtype: str
    rates: tuple[float, ...]

    def relative_to(self, reference: "Speed") -> float:
        """Return the median over turns of the rate relative to the other's in the same turn."""
        return median(rate / reference_rate for rate, reference_rate in zip(self.rates, reference.rates, strict=True))


def generate_and_score(target: Target, prefixes: Tokens, length: int) -> int:
    """Generate as the challenge's baseline script does: 32 prefixes at once, then a second forward pass with losses.

    It follows baseline/simple_baseline.py in github.com/google-research/lm-extraction-benchmark.
    """
    for first in range(0, len(prefixes), REFERENCE_BATCH):
        tokens = torch.as_tensor(prefixes[first : first + REFERENCE_BATCH].astype(np.int64), device=target.model.device)
        with torch.no_grad():
            mask, end = torch.ones_like(tokens), tokens.shape[1] + length
            whole = target.model.generate(  # type: ignore[operator]
                tokens, attention_mask=mask, max_length=end, do_sample=True, top_k=_POLICY.top_k, pad_token_id=0
            )
            target.model(whole, labels=whole)
    return len(prefixes)


def _sample(target: Target, prefixes: Tokens, length: int, *, trials: int) -> int:
    return int(target.sample(prefixes, _POLICY, trials=trials, length=length).count.sum())


def _search(target: Target, prefixes: Tokens, length: int, *, width: int) -> int:
    return len(target.search(prefixes, width, length=length))


def measure(
    targets: Mapping[str, Target],
    prefixes: Tokens,
    *,
    length: int,
    turns: int,
    reference: Method = generate_and_score,
    on_progress: Callable[[str], None],
) -> list[Speed]:
    """Return the speed of `reference`, of 1, 10 and 100 trials, and of searches, for each target by its dtype.

    Each turn measures each method once, on prefixes of its own, so that a ratio compares measurements that are close in
    time. `on_progress` gets a line before each measurement.
    """
    methods: dict[str, Method] = {REFERENCE: reference}
    methods |= {f"sample {trials}": partial(_sample, trials=trials) for trials in (1, 10, 100)}
    methods |= {f"search {width}": partial(_search, width=width) for width in (1, 8, 32)}
    plans = [(dtype, name) for dtype in targets for name in methods]
    # Warms up. The engine comes first, because its error for a target that returns NaN is clearer.
    for dtype, name in reversed(plans):
        methods[name](targets[dtype], prefixes[:2], length)
    rates: dict[tuple[str, str], list[float]] = {plan: [] for plan in plans}
    for turn in range(turns):
        for dtype, name in plans:
            on_progress(f"turn {turn + 1} of {turns}: {name} in {dtype} …")
            started = time.perf_counter()
            suffixes = methods[name](targets[dtype], prefixes[turn::turns], length)
            rates[dtype, name].append(suffixes / (time.perf_counter() - started))
    return [Speed(name, dtype, tuple(rates[dtype, name])) for dtype, name in plans]
