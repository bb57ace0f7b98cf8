"""Measure one device on the fixed workload: the rates of the official arithmetic and of the engine.

The workload needs neither data nor network: a GPT-Neo of random weights with the full vocabulary, random prefixes and
the batch of the official script, in float32. Its blocks are few and wide, so that a GPU spends less of a step on
starting kernels than with a deep model of the same size. The logits stay on the device, so that the rate is that of the
device and not of its link to the processor, which then computes the losses of the official script.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import GPTNeoConfig, GPTNeoForCausalLM

from harness.bench.official import BATCH, official_suffixes
from harness.core.arrays import Tokens
from harness.core.calibration import WORKLOAD, Calibration
from harness.core.errors import HarnessError
from harness.core.policy import Policy
from harness.engine.loading import one_line
from harness.engine.memory import is_out_of_memory, keep_freed_memory
from harness.engine.target import Target

LENGTH = 50
"""Tokens of a prefix, and of a suffix."""
TURNS_CPU, TURNS_GPU = 3, 20
_SEED = 20230


@dataclass(frozen=True)
class Workload:
    """A configuration of the model, and the number of prefixes that one turn completes."""

    config: GPTNeoConfig
    prefixes: int = BATCH

    def model(self) -> GPTNeoForCausalLM:
        """Return the model with its random weights, in float32 on the CPU."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(_SEED)
            model = GPTNeoForCausalLM(self.config)
        model.train(False).requires_grad_(False)
        return model

    def tokens(self) -> Tokens:
        """Return the prefixes, [prefixes, LENGTH]."""
        return np.random.default_rng(_SEED).integers(0, self.config.vocab_size, (self.prefixes, LENGTH))


def fixed_workload() -> Workload:
    """Return the workload named WORKLOAD: 102 million weights."""
    return Workload(
        GPTNeoConfig(
            vocab_size=50257,
            hidden_size=1024,
            num_layers=4,
            num_heads=16,
            attention_types=[[["global", "local"], 2]],
            max_position_embeddings=2 * LENGTH,
            # No suffix ends early, so that each turn does the same work.
            bos_token_id=None,
            eos_token_id=None,
        )
    )


def calibrate(
    device: str,
    *,
    product: str,
    threads: int | None,
    versions: dict[str, str],
    turns: int | None = None,
    workload: Workload | None = None,
    on_progress: Callable[[str], None] = lambda what: None,
) -> Calibration:
    """Measure `device` (cpu or cuda:N), whose product name is `product`. `threads` are those of a CPU.

    versions: those to record. turns: by default 3 on a CPU and 20 on a GPU. workload: the fixed one unless it is given.
    Raises HarnessError if the device cannot run the workload.
    """
    workload = workload or fixed_workload()
    is_gpu = device != "cpu"
    turns = turns or (TURNS_GPU if is_gpu else TURNS_CPU)
    if threads is not None:
        torch.set_num_threads(threads)
    if not is_gpu:
        keep_freed_memory()
    # "highest" disables TensorFloat-32.
    torch.set_float32_matmul_precision("highest")
    official: list[float] = []
    engine: list[float] = []
    try:
        on_progress("loading the fixed workload …")
        model: Any = workload.model()
        model.to(device)
        target, prefixes = Target(model, prefix_length=LENGTH, suffix_length=LENGTH), workload.tokens()

        def run_official(prefixes: Tokens) -> None:
            official_suffixes(model, prefixes, length=LENGTH, logits_to_host=False)

        def run_engine(prefixes: Tokens) -> None:
            target.sample(prefixes, Policy(top_k=10), trials=1)

        # A GPU compiles and selects its kernels for the shapes of the whole batch.
        warm_up = prefixes if is_gpu else prefixes[:2]
        run_official(warm_up)
        run_engine(warm_up)
        for turn in range(turns):
            on_progress(f"turn {turn + 1} of {turns} …")
            official.append(len(prefixes) / _seconds(run_official, prefixes))
            engine.append(len(prefixes) / _seconds(run_engine, prefixes))
    except (RuntimeError, MemoryError) as error:
        if is_out_of_memory(error):
            raise HarnessError(f"out of memory on {device}: the calibration needs about 3 GB. Free memory.") from None
        raise HarnessError(f"the calibration cannot be run on {device} ({one_line(error)}).") from error
    return Calibration(
        device=product,
        threads=None if is_gpu else torch.get_num_threads(),
        workload=WORKLOAD,
        measured_at=time.time(),
        turns=turns,
        official_per_s=statistics.median(official),
        official_lowest=min(official),
        official_highest=max(official),
        engine_per_s=statistics.median(engine),
        engine_lowest=min(engine),
        engine_highest=max(engine),
        versions=versions,
    )


def _seconds(run: Callable[[Tokens], None], prefixes: Tokens) -> float:
    """Return the seconds of one run. Both methods return arrays, so that a GPU has finished then."""
    started = time.perf_counter()
    run(prefixes)
    return time.perf_counter() - started
