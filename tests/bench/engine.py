"""Compare the speed of the engine with the reference implementation, on the target that BENCH_TARGET names.

`python -m tests.bench.engine` prints the ratios.
"""

import sys
from statistics import median
from typing import Any

from harness.engine.speed import REFERENCE, Speed
from harness.engine.speed import measure as measure_speeds
from tests.bench.inputs import surrogate_or_demo
from tests.bench.measuring import print_measured
from tests.bench.official import official

PREFIXES, TURNS = 256, 4
_DTYPES = ("float32", "bfloat16")


def measure() -> dict[str, Any]:
    """Return suffixes per second relative to the reference implementation, for 256 prefixes spread over the round.

    A ratio in float32 compares both in float32, any other the faster dtype of each.
    """
    inputs = surrogate_or_demo()
    speeds = measure_speeds(
        {dtype: inputs.target(dtype=dtype) for dtype in _DTYPES},
        inputs.spread(PREFIXES).prefixes,
        length=inputs.round.suffix_length,
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
    print_measured(measure)
