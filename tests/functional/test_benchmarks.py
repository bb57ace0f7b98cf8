"""Benchmarks that use internals of the harness still work."""

import pytest

from harness.core.examples import load_prefixes
from harness.core.policy import Policy
from harness.core.rounds import load_round
from harness.engine import load_target
from harness.engine.demo import SIZES
from tests.bench.optimizations import disablers
from tests.bench.overhead import measure_ingest
from tests.bench.screen import first_paint_seconds
from tests.functional.machine import Machine

pytestmark = pytest.mark.slow


def test_a_target_samples_without_each_optimization() -> None:
    target = load_target(SIZES[-1].weights, device="cpu", threads=1)
    prefixes = load_prefixes(load_round("demo"))[:2]
    for disable in disablers(target).values():
        with disable():
            assert target.sample(prefixes, Policy(top_k=10), trials=3).suffixes.shape[1] == target.suffix_length


def test_the_ingest_rate_is_measured() -> None:
    assert measure_ingest(repeats=1, guesses=2000)["guesses_per_second"] > 0


def test_the_first_paint_is_measured(machine: Machine) -> None:
    assert first_paint_seconds(repeats=1) > 0
