"""Benchmarks that use internals of the harness still work."""

import pytest

from harness.core.rounds import load_round
from harness.engine.resolving import resolve_target
from tests.bench import schedule
from tests.bench.overhead import measure_ingest
from tests.bench.terminal import first_paint_seconds
from tests.functional.machine import Machine

pytestmark = pytest.mark.slow


def test_the_ingest_rate_is_measured() -> None:
    assert measure_ingest(repeats=1, guesses=2000)["guesses_per_second"] > 0


def test_the_first_paint_is_measured(machine: Machine) -> None:
    assert first_paint_seconds(repeats=1) > 0


def test_the_batches_of_a_run_cost_little_more_than_one_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "surrogate_or_demo", lambda: (load_round("demo"), resolve_target("demo").path))
    figures = list(schedule.measure(prefixes=4, trials=12, turns=1).values())
    evaluations, _, live, prefixes = figures
    assert 1 <= evaluations < 1.5 and live > 0.5 and prefixes >= 32
