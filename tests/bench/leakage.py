"""Measure exact probabilities of 1,000 sequences under six schemes, on the surrogate if present, else on the demo."""

import time
from typing import Any

from harness.audits.exact import exact_logprobs
from harness.audits.leakage.params import LeakageParams
from harness.audits.schemes import SCHEMES
from harness.core.examples import load_answers, load_prefixes
from harness.engine.devices import resolve_device
from harness.engine.loading import load_target
from harness.runs.machine import usable_cores
from tests.bench.inputs import SURROGATE, surrogate_or_demo

REQUIRED_SECONDS = 60


def measure() -> dict[str, Any]:
    """Return the seconds for the token probabilities of all examples, without the time to load the target."""
    round_, path = surrogate_or_demo()
    prefixes, answers = load_prefixes(round_), load_answers(round_)
    assert answers is not None
    target = load_target(path, device=resolve_device(), threads=usable_cores())
    policies = list(LeakageParams().policies.values())
    exact_logprobs(target, prefixes[:8], answers[:8], policies)
    start = time.perf_counter()
    found = exact_logprobs(target, prefixes, answers, policies)
    seconds = time.perf_counter() - start
    assert found.shape == (len(SCHEMES), *answers.shape)
    required = {"required_seconds": REQUIRED_SECONDS} if SURROGATE.is_dir() else {}
    return {"sequences": len(prefixes), "schemes": len(SCHEMES), "seconds": round(seconds, 1)} | required


if __name__ == "__main__":
    print(measure())
