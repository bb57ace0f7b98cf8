"""Holm's correction, and the p-values and intervals of paired bootstrap differences, which must agree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.intervals import JudgedRows, Unit, newcombe, shared_replicates
from harness.core.multiple_comparisons import ALPHA, PairedBootstrap, holm, paired_difference, replicates_for

P_VALUES = st.lists(st.floats(1e-6, 1.0) | st.sampled_from([0.01, 0.02, 0.04]), min_size=1, max_size=12).map(np.array)
REPLICATES = st.lists(st.integers(-6, 6), min_size=2, max_size=120).map(lambda values: np.array(values * 60) / 100)


def bootstrap_of(replicates, difference=0.0):
    second = np.full(len(replicates), 0.4)
    return PairedBootstrap.of(difference, [replicates + second], [second], unit=Unit.EXAMPLE, units=50)


@given(P_VALUES)
def test_adjusted_p_values_are_at_least_the_raw_ones_and_keep_their_order(p_values):
    adjusted, _ = holm(p_values)
    assert (adjusted >= p_values - 1e-12).all() and (adjusted <= 1).all()
    order = np.argsort(p_values, kind="stable")
    assert (np.diff(adjusted[order]) >= 0).all()
    assert (adjusted <= np.minimum(1, len(p_values) * p_values) + 1e-12).all()


@given(P_VALUES)
def test_holm_rejects_as_its_step_down_procedure_does(p_values):
    rejected = np.zeros(len(p_values), np.bool_)
    for step, place in enumerate(np.argsort(p_values, kind="stable")):
        if p_values[place] > ALPHA / (len(p_values) - step):
            break
        rejected[place] = True
    assert (holm(p_values).adjusted <= ALPHA).tolist() == rejected.tolist()


def test_holm_matches_a_worked_example():
    adjusted, divisors = holm(np.array([0.01, 0.04, 0.03, 0.005]))
    assert adjusted == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert divisors.tolist() == [3, 2, 2, 4]


def test_no_comparison_is_no_error():
    assert len(holm(np.zeros(0)).adjusted) == 0


@given(st.lists(REPLICATES, min_size=1, max_size=5))
def test_an_interval_excludes_zero_exactly_if_holm_rejects(replicates):
    found = [bootstrap_of(values) for values in replicates]
    adjusted, divisors = holm(np.array([one.p_value for one in found]))
    for one, p, divisor in zip(found, adjusted, divisors, strict=True):
        interval = one.interval(int(divisor))
        includes_zero = interval is None or interval[0] <= 0 <= interval[1]
        assert includes_zero == (p > ALPHA)


@given(REPLICATES, st.integers(1, 20))
def test_more_comparisons_never_narrow_an_interval(replicates, divisor):
    one = bootstrap_of(replicates)
    narrow, wide = one.interval(divisor), one.interval(divisor + 1)
    assert wide is None or (narrow is not None and wide[0] <= narrow[0] and narrow[1] <= wide[1])


def test_too_few_replicates_give_no_interval_and_no_rejection():
    one = bootstrap_of(np.full(2000, 0.5) + np.arange(2000) / 1e6)
    assert one.interval(50) is not None and one.interval(51) is None
    assert one.p_value == pytest.approx(2 / 2001)
    assert holm(np.full(51, one.p_value)).adjusted.min() > ALPHA


@pytest.mark.parametrize(("comparisons", "replicates"), [(0, 2000), (1, 2000), (5, 2000), (20, 8000), (900, 20_000)])
def test_more_comparisons_need_more_replicates(comparisons, replicates):
    assert replicates_for(comparisons) == replicates


def submissions(seed, shares):
    generator = np.random.default_rng(seed)
    return [JudgedRows(generator.random(400) < share, np.arange(400)) for share in shares]


def test_one_comparison_is_a_paired_difference():
    rows = submissions(1, (0.5, 0.4))
    (first, second), unit, units = shared_replicates(rows, cap=1000, examples=400, clusters=None, replicates=2000)
    expected = paired_difference(*rows, cap=1000, examples=400)
    found = PairedBootstrap.of(expected.difference, [first], [second], unit=unit, units=units)
    assert (found.interval(), found.p_value) == (expected.interval[:2], expected.p_value)


def test_recalls_that_never_vary_have_newcombes_interval():
    rows = submissions(1, (0.0, 0.0))
    (first, second), unit, units = shared_replicates(rows, cap=10, examples=400, clusters=None, replicates=2000)
    found = PairedBootstrap.of(0.0, [first], [second], unit=unit, units=units)
    assert found.p_value == 1
    assert found.interval() == pytest.approx(newcombe(0.0, 0.0, 400))
    assert found.interval(10)[1] > found.interval()[1]


@given(st.integers(0, 20), st.integers(0, 20), st.integers(1, 40))
def test_constant_recalls_have_a_p_value_that_agrees_with_their_interval(solved, others, units):
    """Recalls that no replicate changes show nothing about their difference beyond the number of units."""
    first, second = np.full(2000, solved / 20), np.full(2000, others / 20)
    found = PairedBootstrap.of((solved - others) / 20, [first], [second], unit=Unit.CLUSTER, units=units)
    low, high = found.interval()
    assert (found.p_value <= ALPHA) == (not low <= 0 <= high)


@pytest.mark.parametrize(("right", "examples", "clusters"), [((6, 5), 10, [0] * 10), ((5, 4), 5, [0] * 5)])
def test_one_cluster_never_shows_a_difference(right, examples, clusters):
    rows = [JudgedRows(np.arange(examples) < number, np.arange(examples)) for number in right]
    found = paired_difference(*rows, cap=100, examples=examples, clusters=np.array(clusters))
    assert found.p_value > 0.3 and found.interval.low < 0 < found.interval.high
