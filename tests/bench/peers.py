"""Measure the engine, CTranslate2 and the reference implementation on one model: `python -m tests.bench.peers`.

`python -m tests.bench.peers --profile` prints where the time of one trial goes.

The model has the shape of GPT-Neo 125M and random weights, so that draws hardly repeat, and needs no data. All methods
run in one process with two threads. Rates and ratios are medians over turns. "fastest" is the faster precision.
CTranslate2 is installed in a temporary directory. "products alone" are the matrix products of a draw and nothing else.

CTranslate2 runs a GPT-2 with the weights of the model. Up to the window of the model's local layers the logits are
equal, which is checked. After that the GPT-2 attends to all tokens of prefix and suffix, which is slightly more work.
"""

import copy
import gc
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from transformers import GPT2LMHeadModel, GPTNeoConfig, GPTNeoForCausalLM

from harness.core.arrays import Tokens
from harness.core.errors import HarnessError
from harness.core.policy import Policy
from harness.engine.kernels import Product
from harness.engine.target import Target
from tests.bench.ctranslate2_peer import COMPUTE_TYPES, Sampler, as_gpt2, ctranslate2_samplers, largest_difference
from tests.bench.measuring import in_turns, markdown_table, print_measured
from tests.bench.official import BATCH, official_suffixes

THREADS = 2
LENGTH = 50
"""The tokens of a prefix and of a suffix."""
_SHAPE: dict[str, Any] = {
    "hidden_size": 768,
    "num_layers": 12,
    "num_heads": 12,
    "attention_types": [[["global", "local"], 6]],
}
_DTYPES = ("float32", "bfloat16")
_POLICY = Policy(top_k=10)
_LARGEST_DIFFERENCE = 1e-3
_PROFILED = 10
"""The operations that the profile shows."""
_PAUSE_SECONDS = 0.3
"""The pause between measurements. The threads of one OpenMP runtime spin for a while after its last call."""
_ONE_TRIAL = "1 trial"
_TRIALS = {_ONE_TRIAL: (1, 32), "10 trials": (10, 8)}
"""The trials, and the prefixes."""
_RATIOS = {
    "1 trial, float32 / CTranslate2 float32": ("1 trial, float32", "1 trial, CTranslate2 float32"),
    "1 trial, fastest / CTranslate2 int8": ("1 trial", "1 trial, CTranslate2 int8"),
    "10 trials, float32 / CTranslate2 float32": ("10 trials, float32", "10 trials, CTranslate2 float32"),
    "10 trials, fastest / CTranslate2 int8": ("10 trials", "10 trials, CTranslate2 int8"),
    "1 trial, float32 / official": ("1 trial, float32", "official, float32"),
    "10 trials, float32 / official": ("10 trials, float32", "official, float32"),
    "1 trial, float32 / products alone": ("1 trial, float32", "products alone, float32"),
    "1 trial, bfloat16 / products alone": ("1 trial, bfloat16", "products alone, bfloat16"),
}
"""{figure: (method, compared method)}. A name without a precision stands for the fastest one."""

Method = Callable[[int], int]
"""Maps the number of a turn to the number of suffixes that were generated or scored."""
Peer = Callable[[GPT2LMHeadModel, Tokens, int, Path], dict[str, Sampler]]
"""Maps a model, prefixes, a number of threads and an empty directory to {compute type: sampler}."""


def measure(*, turns: int = 5, threads: int = THREADS, peer: Peer = ctranslate2_samplers) -> dict[str, Any]:
    """Return the ratios, the largest difference of the converted model's logits, and the rates of all methods.

    Raises HarnessError if the converted model differs from the model.
    """
    model, targets = _targets(threads)
    tokens = np.random.default_rng(0).integers(0, model.config.vocab_size, (_TRIALS[_ONE_TRIAL][1], 2 * LENGTH))
    rows = tokens[:, :LENGTH]
    gpt2, difference = _converted(model, tokens)
    methods = {
        f"{what}, {dtype}": method
        for dtype, target in targets.items()
        for what, method in _own_and_official(target, rows).items()
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
        for name, (trials, number) in _TRIALS.items():
            for compute_type, sampler in samplers.items():
                methods[f"{name}, CTranslate2 {compute_type}"] = _peer_method(sampler, rows[:number], trials)
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


def profile_of_one_trial() -> str:
    """Return the share of the time that each operation takes while one trial of each prefix is drawn, as a table."""
    model, targets = _targets(THREADS)
    rows = np.random.default_rng(0).integers(0, model.config.vocab_size, (_TRIALS[_ONE_TRIAL][1], LENGTH))
    shares: dict[str, dict[str, float]] = {}
    for dtype, target in targets.items():
        target.sample(rows, _POLICY, trials=1, seed=0)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as measured:
            target.sample(rows, _POLICY, trials=1, seed=1)
        times = {event.key: event.self_cpu_time_total for event in measured.key_averages()}
        shares[dtype] = {name: time / sum(times.values()) for name, time in times.items()}
    first = shares[_DTYPES[0]]
    names = sorted(first, key=lambda name: -first[name])[:_PROFILED]
    return markdown_table(
        ["operation", *shares], [[name, *(f"{of[name]:.1%}" for of in shares.values())] for name in names]
    )


def _targets(threads: int) -> tuple[GPTNeoForCausalLM, dict[str, Target]]:
    """Return the model, and a target of it in each precision."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = GPTNeoForCausalLM(GPTNeoConfig(**_SHAPE)).train(False).requires_grad_(False)
    return model, {
        dtype: Target(copy.deepcopy(model).to(getattr(torch, dtype)), prefix_length=LENGTH, suffix_length=LENGTH)
        for dtype in _DTYPES
    }


def _converted(model: GPTNeoForCausalLM, tokens: Tokens) -> tuple[GPT2LMHeadModel, float]:
    """Return the model as a GPT-2 for `tokens` [rows, length], and the largest difference of their logits."""
    gpt2 = as_gpt2(model, tokens.shape[1])
    difference = largest_difference(model, gpt2, tokens[:, : model.config.window_size])
    if not difference < _LARGEST_DIFFERENCE:
        raise HarnessError(f"the logits of the converted model differ by up to {difference:.2g}.")
    return gpt2, difference


def _own_and_official(target: Target, rows: Tokens) -> dict[str, Method]:
    """Return the methods of the engine and of the official script, by name."""
    model, length = target.model, LENGTH

    def sample(trials: int, number: int) -> Method:
        return lambda turn: int(target.sample(rows[:number], _POLICY, trials=trials, seed=turn).count.sum())

    return {
        **{name: sample(*sizes) for name, sizes in _TRIALS.items()},
        # One batch, whose rate is that of many.
        "official": lambda turn: len(official_suffixes(model, rows[:BATCH], length=length)[0]),
        "products alone": _products_alone(model, len(rows), length),
    }


def _products_alone(model: Any, rows: int, length: int) -> Method:
    """Return a method that computes the matrix products of prefixes and suffixes of `length` tokens, a trial each."""
    products = []
    for block in model.transformer.h:
        parts, mlp = block.attn.attention, block.mlp
        heads = torch.cat([parts.q_proj.weight, parts.k_proj.weight, parts.v_proj.weight])
        products += [Product(weight) for weight in (heads, parts.out_proj.weight, mlp.c_fc.weight, mlp.c_proj.weight)]
    head = Product(model.lm_head.weight)
    width, inner = model.config.hidden_size, model.transformer.h[0].mlp.c_fc.weight.shape[0]

    def multiply(_: int) -> int:
        for number in (rows * length, *[rows] * length):
            narrow, wide = (torch.ones(number, size, dtype=model.dtype) for size in (width, inner))
            for place, product in enumerate(products):
                product(wide if place % 4 == 3 else narrow)
            head(narrow[:rows])
        return rows

    return multiply


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
    if sys.argv[1:] == ["--profile"]:
        print(profile_of_one_trial())
    else:
        print_measured(measure)
