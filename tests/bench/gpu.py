"""Measure the engine on one GPU: `make gpu`, or `python -m tests.bench.gpu` where only torch and transformers are.

The CUDA tests come first. Then models with random weights and the shapes of GPT-Neo 1.3B, Pythia 1.4B and Llama 3.2 1B
are measured in bfloat16, one after the other, within a limit of time. Random weights make draws differ after a few
tokens, so the tree saves less work than with a trained target. Prints one table, and one line of JSON with `--json`.
Without a GPU each row says "not measured".
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile
from transformers import AutoModelForCausalLM, GPTNeoConfig, GPTNeoXConfig, LlamaConfig

from harness.core.arrays import Tokens
from harness.core.policy import Policy
from harness.engine.loading import load_target
from harness.engine.speed import measure
from harness.engine.target import Target
from tests.bench.official import official

SHAPES = {
    "GPT-Neo 1.3B": GPTNeoConfig(
        vocab_size=50_257,
        hidden_size=2048,
        num_layers=24,
        num_heads=16,
        attention_types=[[["global", "local"], 12]],
        window_size=256,
        max_position_embeddings=2048,
        bos_token_id=50_256,
        eos_token_id=50_256,
    ),
    "Pythia 1.4B": GPTNeoXConfig(
        vocab_size=50_304,
        hidden_size=2048,
        num_hidden_layers=24,
        num_attention_heads=16,
        intermediate_size=8192,
        max_position_embeddings=2048,
    ),
    "Llama 3.2 1B": LlamaConfig(
        vocab_size=128_256,
        hidden_size=2048,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=64,
        intermediate_size=8192,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
    ),
}
_LENGTH, _PREFIXES, _SECONDS = 50, 128, 420.0
_POLICY = Policy(top_k=10)
_ROOT = Path(__file__).resolve().parents[2]
_FIRST_SHAPE = next(iter(SHAPES))
_ROWS = (
    "reference implementation, suffixes/s",
    "1 trial / official",
    "10 trials / official",
    "100 trials / official",
    "search of width 8 / official",
)
_ONCE = (
    "CUDA tests",
    "scoring, suffixes/s",
    "batches of a run / one call, time",
    "rows with a tie at the cut of top-k 10",
    "two executions give the same suffixes and scores",
    "kernels a step",
    "time in matrix products",
    "vLLM, 10 trials, suffixes/s",
)


def rows() -> Iterator[tuple[str, Any]]:
    """Yield the name and value of each figure, as soon as it is measured."""
    if not torch.cuda.is_available():
        for name in (*_ONCE, *(f"{shape}: {row}" for shape in SHAPES for row in _ROWS)):
            yield name, "not measured (no CUDA GPU)"
        return
    ends = time.monotonic() + _SECONDS
    yield "device", torch.cuda.get_device_name()
    yield "CUDA tests", _cuda_tests()
    with tempfile.TemporaryDirectory() as folder:
        for shape, config in SHAPES.items():
            if time.monotonic() > ends:
                for row in _ROWS:
                    yield f"{shape}: {row}", "not measured (out of time)"
                continue
            path = Path(folder) / shape.replace(" ", "-")
            torch.manual_seed(0)
            with torch.device("cuda"):
                AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(path)
            prefixes = np.random.default_rng(0).integers(0, config.vocab_size, (_PREFIXES, _LENGTH))
            for row, value in zip(_ROWS, _speed(path, prefixes), strict=True):
                yield f"{shape}: {row}", value
            if shape == _FIRST_SHAPE:
                yield from _details(path, prefixes)


def _cuda_tests() -> str:
    """Return the last line of the engine's tests on the GPU."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "gpu", "tests/unit/engine"]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    return (done.stdout.strip().splitlines() or [done.stderr.strip()[-200:]])[-1]


def _speed(path: Path, prefixes: Tokens) -> Iterator[float]:
    """Yield the values of _ROWS."""
    target = load_target(path, device="cuda", dtype="bfloat16", suffix_length=_LENGTH)
    speeds = measure(
        {"bfloat16": target},
        prefixes,
        length=_LENGTH,
        turns=2,
        reference=official,
        on_progress=lambda line: print(f"  {line}", file=sys.stderr, flush=True),
    )
    by_name = {speed.method: speed for speed in speeds}
    yield median(speeds[0].rates)
    for method in ("sample 1", "sample 10", "sample 100", "search 8"):
        yield by_name[method].relative_to(speeds[0])


def _details(path: Path, prefixes: Tokens) -> Iterator[tuple[str, Any]]:
    target = load_target(path, device="cuda", dtype="bfloat16", suffix_length=_LENGTH)
    suffixes = prefixes[:, ::-1].copy()
    target.score(prefixes[:2], suffixes[:2])
    yield "scoring, suffixes/s", len(prefixes) / _seconds(lambda: target.score(prefixes, suffixes))
    yield "batches of a run / one call, time", _of_a_run(target, prefixes)
    yield "rows with a tie at the cut of top-k 10", _ties(target, prefixes)
    first, second = (target.sample(prefixes, _POLICY, trials=10, seed=3) for _ in range(2))
    is_same = all(
        np.array_equal(getattr(first, name), getattr(second, name)) for name in ("suffixes", "token_logprobs")
    )
    yield "two executions give the same suffixes and scores", is_same
    yield from _profile(target, prefixes)
    yield "vLLM, 10 trials, suffixes/s", _vllm(path, prefixes)


def _seconds(work: Any) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def _of_a_run(target: Target, prefixes: Tokens) -> float:
    """Return the time of the batches of a run of 100 trials relative to one call with all prefixes and trials."""
    from harness.worker.attack_job import batch_size, first_and_rest

    def batches() -> None:
        for seed, trials in enumerate(first_and_rest(100)):
            size = batch_size(target.rows_at_once, trials, examples=len(prefixes), is_gpu=True)
            for first in range(0, len(prefixes), size):
                target.sample(prefixes[first : first + size], _POLICY, trials=trials, seed=seed)

    whole = _seconds(lambda: target.sample(prefixes, _POLICY, trials=100))
    return _seconds(batches) / whole


def _ties(target: Target, prefixes: Tokens) -> float:
    """Return the share of next-token distributions in which the 10th and 11th score are equal."""
    tokens = torch.as_tensor(prefixes, device=target.device)
    with torch.inference_mode():
        states = target.runner.states(tokens, keep=_LENGTH).flatten(0, 1)
        ties = [block.scores.topk(11).values[:, 9:].diff().eq(0) for block in target.runner.logit_blocks(states)]
    return float(torch.cat(ties).float().mean())


def _profile(target: Target, prefixes: Tokens) -> Iterator[tuple[str, float]]:
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as profiled:
        target.sample(prefixes[:32], _POLICY, trials=30)
        torch.cuda.synchronize()
    kernels = [each for each in profiled.key_averages() if each.self_device_time_total > 0]
    total = sum(each.self_device_time_total for each in kernels)
    products = [
        each for each in kernels if any(word in each.key.lower() for word in ("gemm", "nvjet", "cutlass", "mm_"))
    ]
    yield "kernels a step", sum(each.count for each in kernels) / _LENGTH
    yield "time in matrix products", sum(each.self_device_time_total for each in products) / total


def _vllm(path: Path, prefixes: Tokens) -> float | str:
    """Return the suffixes a second of vLLM, which measures in a process of its own because it keeps the memory."""
    if find_spec("vllm") is None:
        return "not measured (vllm is not installed)"
    code = (
        "import sys, time, json; from vllm import LLM, SamplingParams\n"
        "prompts = [{'prompt_token_ids': row} for row in json.load(sys.stdin)]\n"
        "model = LLM(sys.argv[1], dtype='bfloat16', skip_tokenizer_init=True, gpu_memory_utilization=0.5)\n"
        f"how = SamplingParams(n=10, top_k=10, min_tokens={_LENGTH}, max_tokens={_LENGTH}, ignore_eos=True, "
        "detokenize=False, logprobs=0)\n"
        "model.generate(prompts[:4], how); start = time.perf_counter(); model.generate(prompts, how)\n"
        "print(10 * len(prompts) / (time.perf_counter() - start))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        input=json.dumps(prefixes.tolist()),
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
    )
    return float(done.stdout.split()[-1]) if done.returncode == 0 else f"not measured ({done.stderr.strip()[-120:]})"


def main() -> None:
    """Print the table, or one line of JSON."""
    found = {}
    for name, value in rows():
        found[name] = value
        if "--json" not in sys.argv:
            print(f"{name:75} {value:.4g}" if isinstance(value, float) else f"{name:75} {value}", flush=True)
    if "--json" in sys.argv:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
