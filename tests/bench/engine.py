"""Compare the speed of the engine with the official arithmetic, on the surrogate if present, else on the demo."""

import sys
from typing import Any

import numpy as np

from harness.bench.speed import measure as measure_target
from harness.core.examples import load_prefixes
from harness.engine.devices import resolve_device
from harness.runs.machine import usable_cores
from tests.bench.inputs import is_surrogate, surrogate_or_demo

PREFIXES, TURNS = 256, 4
REQUIRED = {"required_ratio_sample_100": 15, "required_ratio_sample_100_float32": 12}


def measure() -> dict[str, Any]:
    """Return suffixes per second relative to the official arithmetic, for 256 prefixes spread over the round."""
    round_, path = surrogate_or_demo()
    prefixes = load_prefixes(round_)
    chosen = np.linspace(0, len(prefixes) - 1, PREFIXES).round().astype(int)
    measured = measure_target(
        path,
        prefixes[chosen],
        length=round_.suffix_length,
        device=resolve_device(),
        threads=usable_cores(),
        turns=TURNS,
        on_progress=lambda what, done, total: print(f"  {done} of {total}: {what}", file=sys.stderr, flush=True),
    )
    required = REQUIRED if is_surrogate() else {}
    return {name: round(ratio, 1) for name, ratio in measured.ratios.items()} | required
