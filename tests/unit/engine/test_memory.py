"""The memory that sequences are expected to take, and a process that really runs out of it."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import GPTNeoConfig, GPTNeoForCausalLM, LlamaConfig, LlamaForCausalLM

from harness.engine import memory
from harness.engine.memory import default_rows_at_once, key_value_bytes, stored_positions
from harness.engine.model_runner import new_cache

SCRIPT = """
import resource, sys
import numpy as np
from harness.core.policy import Policy
from harness.engine.loading import load_target

target = load_target(sys.argv[1], device="cpu", threads=1, rows_at_once=2048, suffix_length=3)
prefixes = np.random.default_rng(0).integers(0, 1000, (1024, 8))
target.sample(prefixes[:4], Policy(top_k=1))
in_use = 4096 * int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (in_use + (8 << 20), resource.RLIM_INFINITY))
scarce = target.sample(prefixes, Policy(top_k=1))
rows = target.rows_at_once
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
target.rows_at_once = 2048
assert (target.sample(prefixes, Policy(top_k=1)).suffixes == scarce.suffixes).all()
print(rows)
"""


@pytest.mark.slow
def test_a_process_at_its_memory_limit_uses_fewer_rows(tmp_path: Path) -> None:
    # The keys and values of 1,024 prefixes take 32 MiB, more than what is left.
    shape = GPTNeoConfig(
        hidden_size=512,
        intermediate_size=64,
        num_layers=1,
        attention_types=[[["global"], 1]],
        num_heads=2,
        vocab_size=1000,
    )
    GPTNeoForCausalLM(shape).save_pretrained(tmp_path)
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert 1 <= int(done.stdout) < 2048


def test_the_estimate_of_a_cache_with_grouped_queries_is_what_it_takes() -> None:
    shape = LlamaConfig(
        hidden_size=64, num_hidden_layers=3, num_attention_heads=8, num_key_value_heads=2, vocab_size=61, head_dim=16
    )
    model = LlamaForCausalLM(shape).eval()
    cache = new_cache(model)
    with torch.inference_mode():
        model(torch.zeros(5, 100, dtype=torch.long), past_key_values=cache, use_cache=True)
    buffers = [buffer for layer in cache.layers for buffer in layer._buffers]
    taken = sum(buffer.nbytes for buffer in buffers)
    assert taken == 5 * stored_positions(100) * key_value_bytes(shape, itemsize=4)
    assert taken <= 1.3 * 5 * 100 * key_value_bytes(shape, itemsize=4)


def test_published_models_on_a_card_of_16_gb(monkeypatch: pytest.MonkeyPatch) -> None:
    neo = GPTNeoConfig(hidden_size=2048, num_layers=24, num_heads=16, attention_types=[[["global", "local"], 12]])
    weights = 2 * 1_316_000_000
    monkeypatch.setattr(memory, "free_bytes", lambda device: 16 * 10**9 - weights)
    rows = default_rows_at_once(neo, positions=50, itemsize=2, shares={torch.device("cuda"): 1.0})
    assert 600 <= rows <= 1000
    llama = LlamaConfig(
        hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8, intermediate_size=14336
    )
    # 32 layers x 8 heads x 128 numbers, keys and values, 2 bytes each.
    assert key_value_bytes(llama, itemsize=2) == 2 * 32 * 8 * 128 * 2


def test_the_tightest_device_of_a_split_model_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    llama = LlamaConfig(hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8)
    one, other = torch.device("cuda", 0), torch.device("cuda", 1)
    free = {one: 2 << 30, other: 8 << 30}
    monkeypatch.setattr(memory, "free_bytes", free.__getitem__)

    def rows(shares: dict[torch.device, float]) -> int:
        return default_rows_at_once(llama, positions=100, itemsize=2, shares=shares)

    halves = rows({one: 0.5, other: 0.5})
    assert halves == rows({one: 0.5}) < rows({other: 0.5})
    # A device that stores fewer keys and values has room for more sequences.
    assert halves < rows({one: 0.25, other: 0.75}) <= rows({one: 0.25})
