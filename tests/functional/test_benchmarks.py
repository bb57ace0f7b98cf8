"""Benchmarks that use internals of the harness still work."""

import pytest

from tests.bench.overhead import measure_ingest
from tests.bench.terminal import first_paint_seconds
from tests.functional.machine import Machine

pytestmark = pytest.mark.slow


def test_the_ingest_rate_is_measured() -> None:
    assert measure_ingest(repeats=1, guesses=2000)["guesses_per_second"] > 0


def test_the_first_paint_is_measured(machine: Machine) -> None:
    assert first_paint_seconds(repeats=1) > 0
