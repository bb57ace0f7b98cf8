"""Derive the rate of a Tesla P100 on the fixed workload, because none was at hand to measure.

`python -m harness.bench.derived` prints the steps. The published numbers:

- The peaks of the P100 with PCIe and 16 GB: 9.3 TFLOP/s in float32, 18.7 TFLOP/s in float16, 732 GB/s (NVIDIA, "Tesla
  P100 PCIe GPU Accelerator", product brief PB-08248-001).
- The challenge's README (github.com/google-research/lm-extraction-benchmark, "Baseline Code"): the baseline, 100 trials
  for 1,000 prefixes with GPT-Neo 1.3B in float16, "will run for a few hours on a P100 GPU". A few is read as three.

The efficiency is the minimum time of the baseline at these peaks divided by the three hours. The rate is that of the
fixed workload at the peaks, times this efficiency. Two and five hours instead of three give 1.5 and 0.6 times the rate.
"""

from typing import NamedTuple

import torch
from transformers import GPTNeoConfig, GPTNeoForCausalLM

from harness.bench.calibration import LENGTH, fixed_workload
from harness.bench.speed import ON_DEVICE, Rates, minimum_seconds

PEAKS_FLOAT32 = Rates(matmul=9.3e12, copy=732e9)
PEAKS_FLOAT16 = Rates(matmul=18.7e12, copy=732e9)
BASELINE_SUFFIXES = 100 * 1000
BASELINE_HOURS = 3.0


class Derivation(NamedTuple):
    """The steps: suffixes per second at the peaks, the efficiency, and the derived rate."""

    baseline_at_peaks: float
    efficiency: float
    workload_at_peaks: float
    official_per_s: float


def derive(baseline_hours: float = BASELINE_HOURS) -> Derivation:
    """Return the derivation for a baseline that runs for this many hours."""
    neo_1_3b = GPTNeoConfig(vocab_size=50257, hidden_size=2048, num_layers=24, num_heads=16)
    baseline = 1 / _minimum(neo_1_3b, PEAKS_FLOAT16, torch.float16)
    workload = 1 / _minimum(fixed_workload().config, PEAKS_FLOAT32, torch.float32)
    efficiency = BASELINE_SUFFIXES / (3600 * baseline_hours) / baseline
    return Derivation(baseline, efficiency, workload, workload * efficiency)


def _minimum(config: GPTNeoConfig, peaks: Rates, dtype: torch.dtype) -> float:
    """Return the minimum seconds of a suffix of the official arithmetic."""
    # Only shapes are needed, and this model would take 5 GB.
    with torch.device("meta"):
        model = GPTNeoForCausalLM(config)
    return minimum_seconds(ON_DEVICE, model, peaks, dtype=dtype, length=LENGTH)


if __name__ == "__main__":
    for hours in (2.0, BASELINE_HOURS, 5.0):
        found = derive(hours)
        print(
            f"baseline in {hours:g} h: {found.baseline_at_peaks:.1f} suffixes/s at the peaks, efficiency "
            f"{found.efficiency:.3f}; fixed workload: {found.workload_at_peaks:.1f}/s at the peaks, "
            f"{found.official_per_s:.1f}/s derived"
        )
