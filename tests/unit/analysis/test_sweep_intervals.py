"""The simulated error rates of a sweep's comparisons, with few simulations."""

import numpy as np
import pytest

from tests.bench.sweep_intervals import Scenario, measure, true_differences

SMALL = Scenario("small", 100, 10, effect=(0.0,) * 6)


@pytest.mark.slow
def test_false_alarms_are_rarer_than_without_a_correction() -> None:
    rates = measure(SMALL, simulations=60)
    assert rates.false_alarm <= 0.1
    assert rates.false_alarm == pytest.approx(1 - rates.covered)
    assert rates.uncorrected >= rates.false_alarm


def test_without_effects_the_true_differences_are_zero() -> None:
    assert set(true_differences(SMALL, np.random.default_rng(0)).values()) == {0.0}
