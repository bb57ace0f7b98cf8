"""A process that really runs out of memory because of its resource limit."""

import subprocess
import sys
from pathlib import Path

import pytest
from transformers import GPTNeoConfig, GPTNeoForCausalLM

SCRIPT = """
import resource, sys
import numpy as np
from harness.core.policy import Policy
from harness.engine.loading import load_target

target = load_target(sys.argv[1], device="cpu", threads=1, rows_at_once=512, suffix_length=3)
prefixes = np.random.default_rng(0).integers(0, 50257, (512, 8))
target.sample(prefixes[:4], Policy(top_k=1))
in_use = 4096 * int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (in_use + (48 << 20), resource.RLIM_INFINITY))
scarce = target.sample(prefixes, Policy(top_k=1))
rows = target.rows_at_once
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
target.rows_at_once = 512
assert (target.sample(prefixes, Policy(top_k=1)).suffixes == scarce.suffixes).all()
print(rows)
"""


@pytest.mark.slow
def test_a_process_at_its_memory_limit_uses_fewer_rows(tmp_path: Path) -> None:
    # The logits of 512 rows take 98 MiB, twice what is left.
    shape = GPTNeoConfig(hidden_size=16, num_layers=1, attention_types=[[["global"], 1]], num_heads=2)
    GPTNeoForCausalLM(shape).save_pretrained(tmp_path)
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert 1 <= int(done.stdout) < 512
