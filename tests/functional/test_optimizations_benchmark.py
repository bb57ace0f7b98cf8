"""The benchmark of the engine's optimizations can switch each of them off."""

import pytest

from harness.core.examples import load_prefixes
from harness.core.policy import Policy
from harness.core.rounds import load_round
from harness.engine import Target, load_target
from harness.engine.demo import SIZES
from tests.bench.optimizations import disablers


@pytest.fixture(scope="module")
def tiny() -> Target:
    return load_target(SIZES[-1].weights, device="cpu", threads=1)


def test_a_target_samples_without_each_optimization(tiny: Target) -> None:
    prefixes = load_prefixes(load_round("demo"))[:2]
    for disable in disablers(tiny).values():
        with disable():
            assert tiny.sample(prefixes, Policy(top_k=10), trials=3).suffixes.shape[1] == tiny.suffix_length
