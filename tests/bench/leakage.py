"""Measure exact probabilities of 1,000 sequences under six schemes, and near-verbatim ones relative to one sample.

BENCH_TARGET names the target.
"""

from typing import Any

from harness.audits.exact import exact_logprobs
from harness.audits.leakage.pairs import LeakageParams
from harness.audits.near_suffixes import near_probabilities
from harness.audits.probabilities import DEFAULT_SCHEMES, Scheme
from harness.core.tokenizers import load_tokenizer
from tests.bench.inputs import surrogate_or_demo
from tests.bench.measuring import in_turns, median_ratio, print_measured, timed

_TURNS = 3
_NEAR = 32  # sequences


def measure() -> dict[str, Any]:
    """Return the seconds for the token probabilities of all examples, without the time to load the target.

    A near-verbatim probability is relative to one sample.
    """
    inputs = surrogate_or_demo()
    prefixes, answers = inputs.prefixes, inputs.answers
    target, params = inputs.target(), LeakageParams()
    policies = [params.policies[scheme] for scheme in DEFAULT_SCHEMES]
    exact_logprobs(target, prefixes[:8], answers[:8], policies)
    exact = timed(lambda: exact_logprobs(target, prefixes, answers, policies))
    assert exact.result.shape == (len(DEFAULT_SCHEMES), *answers.shape)
    assert target.tokenizer_file is not None
    tokenizer, policy = load_tokenizer(target.tokenizer_file), params.policies[Scheme.TOP_K]
    some, suffixes = prefixes[:_NEAR], answers[:_NEAR]
    taken = in_turns(
        {
            "near": lambda turn: near_probabilities(target, some, suffixes, policy, params, tokenizer),
            "sample": lambda turn: target.sample(some, policy, trials=1, seed=turn),
        },
        1 + _TURNS,
    )
    return {
        "sequences": len(prefixes),
        "schemes": len(DEFAULT_SCHEMES),
        "seconds": round(exact.seconds, 1),
        "near_verbatim_relative_to_a_sample": median_ratio(taken["near"][1:], taken["sample"][1:]),
    }


if __name__ == "__main__":
    print_measured(measure)
