"""Benchmark exact probabilities of 1,000 sequences under six schemes, on the surrogate if present, else the demo."""

import time
from typing import Any

from harness.audits.leakage.params import SCHEMES, LeakageParams
from harness.core.examples import load_answers, load_prefixes
from harness.core.rounds import load_round
from harness.engine.devices import resolve_device
from harness.engine.loading import load_target
from harness.engine.resolving import resolve_target
from harness.runs.machine import usable_cores
from tests.bench.engine import ROUND, SURROGATE

BAR_SECONDS = 60


def measure() -> dict[str, Any]:
    """Return the seconds for the token probabilities of all examples, without loading; the bar is for the surrogate."""
    has_surrogate = SURROGATE.is_dir()
    round_ = load_round(str(ROUND) if has_surrogate else "demo")
    prefixes, answers = load_prefixes(round_), load_answers(round_)
    assert answers is not None
    path = resolve_target(str(SURROGATE) if has_surrogate else "demo").path
    target = load_target(path, device=resolve_device(), threads=usable_cores())
    policies = list(LeakageParams().policies.values())
    target.exact_logprobs(prefixes[:8], answers[:8], policies)
    start = time.perf_counter()
    found = target.exact_logprobs(prefixes, answers, policies)
    spent = time.perf_counter() - start
    assert found.shape == (len(SCHEMES), *answers.shape)
    bar = {"bar_seconds": BAR_SECONDS} if has_surrogate else {}
    return {"sequences": len(prefixes), "schemes": len(SCHEMES), "seconds": round(spent, 1)} | bar


if __name__ == "__main__":
    print(measure())
