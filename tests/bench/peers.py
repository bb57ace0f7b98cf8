"""Measure the engine, CTranslate2 and the reference implementation on one model: `python -m tests.bench.peers`.

All methods run in one process with two threads. Rates and ratios are medians over turns. "fastest" is the faster
precision. CTranslate2 is installed in a temporary directory.

CTranslate2 runs a GPT-2 with the weights of the target. Up to the window of the target's local layers the logits are
equal, which is checked. After that the GPT-2 attends to all tokens of prefix and suffix, which is slightly more work.
"""

import gc
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from transformers import GPT2LMHeadModel, GPTNeoForCausalLM

from harness.core.arrays import Tokens
from harness.core.errors import HarnessError
from harness.core.policy import Policy
from harness.engine.target import Target
from tests.bench.ctranslate2_peer import COMPUTE_TYPES, Sampler, as_gpt2, ctranslate2_samplers, largest_difference
from tests.bench.inputs import surrogate_or_demo
from tests.bench.measuring import in_turns, print_measured
from tests.bench.official import BATCH, official_losses, official_suffixes

THREADS = 2
WIDTH = 8
_DTYPES = ("float32", "bfloat16")
_POLICY = Policy(top_k=10)
_LARGEST_DIFFERENCE = 1e-3
_PAUSE_SECONDS = 0.3
"""The pause between measurements. The threads of one OpenMP runtime spin for a while after its last call."""
_TRIALS = {"1 trial": 1, "10 trials": 10}
_RATIOS = {
    "1 trial, float32 / CTranslate2 float32": ("1 trial, float32", "1 trial, CTranslate2 float32"),
    "1 trial, fastest / CTranslate2 int8": ("1 trial", "1 trial, CTranslate2 int8"),
    "10 trials, float32 / CTranslate2 float32": ("10 trials, float32", "10 trials, CTranslate2 float32"),
    "10 trials, fastest / CTranslate2 int8": ("10 trials", "10 trials, CTranslate2 int8"),
    f"search {WIDTH} / official": (f"search {WIDTH}", "official"),
    "score / official second pass": ("score", "official second pass"),
}
"""{figure: (method, compared method)}. A name without a precision stands for the fastest one."""

Method = Callable[[int], int]
"""Maps the number of a turn to the number of suffixes that were generated or scored."""
Peer = Callable[[GPT2LMHeadModel, Tokens, int, Path], dict[str, Sampler]]
"""Maps a model, prefixes, a number of threads and an empty directory to {compute type: sampler}."""


def measure(
    *, prefixes: int = 64, turns: int = 3, threads: int = THREADS, peer: Peer = ctranslate2_samplers
) -> dict[str, Any]:
    """Return the ratios, the largest difference of the converted model's logits, and the rates of all methods.

    prefixes: their number, spread over the round. Raises HarnessError if the converted model differs from the target.
    """
    inputs = surrogate_or_demo().spread(prefixes)
    rows, answers = inputs.prefixes, inputs.answers
    targets = {dtype: inputs.target(device="cpu", dtype=dtype, threads=threads) for dtype in _DTYPES}
    gpt2, difference = _converted(targets["float32"], np.concatenate([rows, answers], axis=1))
    methods = {
        f"{what}, {dtype}": method
        for dtype, target in targets.items()
        for what, method in _own_and_official(target, rows, answers).items()
    }

    def prepare() -> None:
        gc.collect()
        time.sleep(_PAUSE_SECONDS)
        # CTranslate2 sets it to the threads of its last model.
        torch.set_num_threads(threads)

    with tempfile.TemporaryDirectory() as folder:
        try:
            samplers, reason = peer(gpt2, rows, threads, Path(folder)), "this CPU does not support it"
        except HarnessError as error:
            samplers, reason = {}, str(error)
        for name, trials in _TRIALS.items():
            for compute_type, sampler in samplers.items():
                methods[f"{name}, CTranslate2 {compute_type}"] = _peer_method(sampler, rows, trials)
        taken = in_turns(methods, turns + 1, prepare=prepare)
    # The first turn warms up.
    rates = {name: [each.result / each.seconds for each in times[1:]] for name, times in taken.items()}
    figures: dict[str, Any] = {
        figure: _median_ratio(rates, one, other) or f"not measured: {reason}"
        for figure, (one, other) in _RATIOS.items()
    }
    figures["largest difference of logits within the window"] = difference
    for compute_type in COMPUTE_TYPES:
        for name in _TRIALS:
            figures[f"{name}, CTranslate2 {compute_type}, suffixes/s"] = f"not measured: {reason}"
    return figures | {f"{name}, suffixes/s": median(found) for name, found in rates.items()}


def _converted(target: Target, tokens: Tokens) -> tuple[GPT2LMHeadModel, float]:
    """Return the target as a GPT-2 for `tokens` [rows, length], and the largest difference of their logits."""
    model = target.model
    if not isinstance(model, GPTNeoForCausalLM):
        raise HarnessError(f"the target is a {type(model).__name__}. This benchmark needs a GPT-Neo.")
    gpt2 = as_gpt2(model, tokens.shape[1])
    difference = largest_difference(model, gpt2, tokens[:, : model.config.window_size])
    if not difference < _LARGEST_DIFFERENCE:
        raise HarnessError(f"the logits of the converted model differ by up to {difference:.2g}.")
    return gpt2, difference


def _own_and_official(target: Target, rows: Tokens, answers: Tokens) -> dict[str, Method]:
    """Return the methods of the engine and of the official script, by name."""
    model, length = target.model, answers.shape[1]
    whole = torch.as_tensor(np.concatenate([rows, answers], axis=1).astype(np.int64))

    def sample(trials: int) -> Method:
        return lambda turn: int(target.sample(rows, _POLICY, trials=trials, seed=turn).count.sum())

    def second_pass(turn: int) -> int:
        return sum(len(official_losses(model, batch, length=length)) for batch in whole.split(BATCH))

    return {
        **{name: sample(trials) for name, trials in _TRIALS.items()},
        f"search {WIDTH}": lambda turn: len(target.search(rows, WIDTH)),
        # One batch, whose rate is that of many.
        "official": lambda turn: len(official_suffixes(model, rows[:BATCH], length=length)[0]),
        "score": lambda turn: len(target.score(rows, answers).margin),
        "official second pass": second_pass,
    }


def _peer_method(sampler: Sampler, rows: Tokens, trials: int) -> Method:
    return lambda turn: sampler(rows, trials)


def _median_ratio(rates: dict[str, list[float]], one: str, other: str) -> float | None:
    """Return the median over turns of the rate of a method relative to another one, or None if one was not measured."""
    found, compared = (_fastest(rates, name) for name in (one, other))
    if found is None or compared is None:
        return None
    return median(rate / base for rate, base in zip(found, compared, strict=True))


def _fastest(rates: dict[str, list[float]], name: str) -> list[float] | None:
    """Return the rates of the method `name`, or those of its fastest precision if the name has none."""
    names = [name, *(f"{name}, {dtype}" for dtype in _DTYPES)]
    return max((rates[one] for one in names if one in rates), key=median, default=None)


if __name__ == "__main__":
    print_measured(measure)
