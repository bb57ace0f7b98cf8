"""The engine beside the official arithmetic, on the surrogate where its files are, else on the demo target."""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.examples import load_prefixes
from harness.core.rounds import load_round
from harness.engine.benchmark import measure as measure_target
from harness.engine.devices import resolve_device
from harness.engine.resolving import resolve_target
from harness.runs.machine import usable_cores

SURROGATE = Path(__file__).resolve().parents[3] / "shared" / "data" / "surrogate-11m"
ROUND = Path(__file__).resolve().parents[1] / "rounds" / "surrogate-dev.toml"
PREFIXES, TURNS = 256, 4


def measure() -> dict[str, Any]:
    """Ratios of suffixes a second over the official arithmetic's, on 256 prefixes spread over the round."""
    has_surrogate = SURROGATE.is_dir()
    round_ = load_round(str(ROUND) if has_surrogate else "demo")
    target = resolve_target(str(SURROGATE) if has_surrogate else "demo")
    prefixes = load_prefixes(round_)
    chosen = np.linspace(0, len(prefixes) - 1, PREFIXES).round().astype(int)
    measured = measure_target(
        target.path,
        prefixes[chosen],
        length=round_.suffix_length,
        device=resolve_device(),
        threads=usable_cores(),
        turns=TURNS,
        on_progress=lambda what, done, total: print(f"  {done} of {total}: {what}", file=sys.stderr, flush=True),
    )
    bars = {"bar_ratio_sample_100": 15, "bar_ratio_sample_100_float32": 12} if has_surrogate else {}
    return {name: round(ratio, 1) for name, ratio in measured.ratios.items()} | bars
