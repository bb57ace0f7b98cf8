"""Compare the speed of the engine with the reference implementation, on the target that BENCH_TARGET names.

`python -m tests.bench.engine` prints the ratios.
"""

import sys
from statistics import median
from typing import Any

import numpy as np

from harness.core.examples import load_prefixes
from harness.engine.loading import load_target
from harness.engine.speed import REFERENCE, Speed
from harness.engine.speed import measure as measure_speeds
from harness.runs.machine import usable_cores
from tests.bench.inputs import exit_on_error, surrogate_or_demo
from tests.bench.official import official

PREFIXES, TURNS = 256, 4
_DTYPES = ("float32", "bfloat16")


def measure() -> dict[str, Any]:
    """Return suffixes per second relative to the reference implementation, for 256 prefixes spread over the round.

    A ratio in float32 compares both in float32, any other the faster dtype of each.
    """
    round_, path = surrogate_or_demo()
    prefixes = load_prefixes(round_)
    chosen = np.linspace(0, len(prefixes) - 1, PREFIXES).round().astype(int)
    length = round_.suffix_length
    targets = {dtype: load_target(path, dtype=dtype, threads=usable_cores(), suffix_length=length) for dtype in _DTYPES}
    speeds = measure_speeds(
        targets,
        prefixes[chosen],
        length=length,
        turns=TURNS,
        reference=official,
        on_progress=lambda line: print(f"  {line}", file=sys.stderr, flush=True),
    )
    return {name: round(ratio, 1) for name, ratio in _ratios(speeds).items()}


def _ratios(speeds: list[Speed]) -> dict[str, float]:
    """Return the rate of each method of the engine relative to the reference implementation, by `ratio_METHOD`."""
    known = {(speed.method, speed.dtype): speed for speed in speeds}

    def fastest(method: str) -> Speed:
        return max((known[method, dtype] for dtype in _DTYPES), key=lambda speed: median(speed.rates))

    ratios = {}
    for method in dict.fromkeys(speed.method for speed in speeds if speed.method != REFERENCE):
        name = f"ratio_{method.replace(' ', '_')}"
        ratios[name] = fastest(method).relative_to(fastest(REFERENCE))
        ratios[f"{name}_float32"] = known[method, "float32"].relative_to(known[REFERENCE, "float32"])
    return ratios


if __name__ == "__main__":
    with exit_on_error():
        for figure, value in measure().items():
            print(figure, value)
