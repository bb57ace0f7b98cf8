"""Measure exact probabilities of 1,000 sequences under six schemes, and near-verbatim ones relative to one sample.

BENCH_TARGET names the target.
"""

import statistics
import time
from typing import Any

from harness.audits.exact import exact_logprobs
from harness.audits.leakage.pairs import LeakageParams
from harness.audits.near_suffixes import near_probabilities
from harness.audits.probabilities import DEFAULT_SCHEMES, Scheme
from harness.core.arrays import Tokens
from harness.core.examples import load_answers, load_prefixes
from harness.core.hardware import resolve_device, usable_cores
from harness.core.tokenizers import load_tokenizer
from harness.engine.loading import load_target
from harness.engine.target import Target
from tests.bench.inputs import exit_on_error, surrogate_or_demo

_TURNS = 3
_NEAR = 32  # sequences


def measure() -> dict[str, Any]:
    """Return the seconds for the token probabilities of all examples, without the time to load the target."""
    round_, path = surrogate_or_demo()
    prefixes, answers = load_prefixes(round_), load_answers(round_)
    assert answers is not None
    target = load_target(path, device=resolve_device(), threads=usable_cores())
    policies = [LeakageParams().policies[scheme] for scheme in DEFAULT_SCHEMES]
    exact_logprobs(target, prefixes[:8], answers[:8], policies)
    start = time.perf_counter()
    found = exact_logprobs(target, prefixes, answers, policies)
    seconds = time.perf_counter() - start
    assert found.shape == (len(DEFAULT_SCHEMES), *answers.shape)
    near = _near_relative_to_a_sample(target, prefixes[:_NEAR], answers[:_NEAR])
    return {
        "sequences": len(prefixes),
        "schemes": len(DEFAULT_SCHEMES),
        "seconds": round(seconds, 1),
        "near_verbatim_relative_to_a_sample": near,
    }


def _near_relative_to_a_sample(target: Target, prefixes: Tokens, suffixes: Tokens) -> float:
    """Return the time of a near-verbatim probability divided by that of one sample, the median of some turns."""
    params = LeakageParams()
    assert target.tokenizer_file is not None
    tokenizer = load_tokenizer(target.tokenizer_file)
    policy = params.policies[Scheme.TOP_K]
    ratios = []
    for turn in range(1 + _TURNS):
        start = time.perf_counter()
        near_probabilities(target, prefixes, suffixes, policy, params, tokenizer)
        middle = time.perf_counter()
        target.sample(prefixes, policy, trials=1, seed=turn)
        ratios.append((middle - start) / (time.perf_counter() - middle))
    return statistics.median(ratios[1:])


if __name__ == "__main__":
    with exit_on_error():
        print(measure())
