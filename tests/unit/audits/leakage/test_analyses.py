import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from harness.audits import probabilities as p
from harness.audits.leakage.inexact import estimate, plan_draws
from harness.audits.leakage.pairs import LeakageParams
from harness.audits.leakage.results import ISP_OVER, ISP_OVER_LEAST, ISP_OVER_MOST, inexact_rows
from harness.audits.leakage.rows import (
    CLASSES,
    PARTS,
    InexactRows,
    Measurements,
    Setting,
    Shape,
    partition,
    source_classes,
)
from harness.audits.probabilities import SCHEMES, Scheme
from harness.core.measures import MeasureTable


def test_a_sequence_is_over_one_in_x_only_strictly():
    logs = np.log(np.array([0.5, 0.11, 1e-3]))
    shares = p.share_over(logs, np.array([1, 2, 3, 9, 10, 1001]))
    assert shares.tolist() == pytest.approx([0, 0, 1 / 3, 1 / 3, 2 / 3, 1])


def test_the_expected_share_is_one_minus_the_chance_of_missing_every_time():
    logs = np.log(np.array([0.25, 0.01]))
    wanted = [np.mean([1 - 0.75**x, 1 - 0.99**x]) for x in (1, 7, 500)]
    assert p.expected_share(logs, np.array([1, 7, 500])) == pytest.approx(wanted)


def test_probabilities_near_zero_and_one_lose_no_digits():
    assert p.leaked_probability(np.array([-60.0]), 1e6)[0] == pytest.approx(1e6 * np.exp(-60.0), rel=1e-9)
    assert p.leaked_probability(np.array([-1e-18]), 1)[0] == 1
    assert p.leaked_probability(np.array([-np.inf, 0.0]), 1e6).tolist() == [0, 1]


@given(arrays(np.float64, st.integers(1, 30), elements=st.floats(-40, 0)), st.floats(0, 1))
def test_queries_to_exceed_is_the_first_number_that_does(logs, share):
    grid = np.arange(1, 3000)
    share = round(share * len(logs)) / len(logs)
    by_search = [int(x) for x, value in zip(grid, p.share_over(logs, grid), strict=True) if value > share + 1e-9]
    found = p.queries_to_exceed(logs, share)
    assert found == by_search[0] if by_search else (found is None or found >= 3000)


@given(arrays(np.float64, st.integers(1, 20), elements=st.floats(-40, 0)), st.floats(0, 1))
def test_expected_queries_to_exceed_is_the_first_number_that_does(logs, share):
    found = p.expected_queries_to_exceed(logs, share)
    if found is None:
        assert p.expected_share(logs, np.array([10**6]))[0] <= share
        return
    assert p.expected_share(logs, np.array([found]))[0] > share
    assert found == 1 or p.expected_share(logs, np.array([found - 1]))[0] <= share


def test_the_extraction_rate_underestimates_further_queries():
    logs = np.log(np.array([1.0, 0.1, 0.1, 1e-9]))
    by_threshold, expected = p.underestimate(logs, 30)
    assert by_threshold == pytest.approx(0.75 / 0.3)
    assert expected == pytest.approx((1 + 2 * (1 - 0.9**30)) / 4 / 0.3, rel=1e-6)
    assert np.isnan(p.underestimate(np.array([-np.inf]), 30)).all()


def test_the_discoverable_rate():
    logs = np.log(np.array([0.5, 0.01, 1e-6]))
    assert p.discoverable_rate(logs, 1, 0.5) == pytest.approx(1 / 3)
    assert p.discoverable_rate(logs, 100, 0.5) == pytest.approx(2 / 3)
    assert p.discoverable_rate(logs, 100, 0.9) == pytest.approx(1 / 3)


def test_the_grid_runs_from_one_to_a_million():
    grid = p.query_grid()
    assert grid[0] == 1 and grid[-1] == 10**6 and (np.diff(grid) > 0).all()


def test_a_probability_rounded_above_one_is_one():
    logs = p.log_esp(np.array([[0.0, 4e-6], [1e-6, -1e-6], [0.0, -np.inf]]))
    assert logs.tolist() == [0, 0, -np.inf] and p.extraction_rate(logs) == pytest.approx(2 / 3)
    assert p.leaked_probability(np.array([1e-5]), 30).tolist() == [1]
    assert p.expected_share(np.array([1e-5, -np.inf]), np.array([1, 1000])).tolist() == [0.5, 0.5]


def test_tiny_inexact_probabilities_are_compared_by_their_logarithms():
    logs = np.log(np.array([1e-12, 1e-12, 0.5, 1e-300]))
    probabilities = np.array([3e-12, 1e-12 * (1 + 1e-8), 0.4, 0.0])
    sequences = np.arange(4)
    setting = Setting(0, 50, sequences, np.tile(logs, (len(SCHEMES), 1)), np.ones((len(SCHEMES), 2)))
    rows = InexactRows(sequences, probabilities, probabilities, probabilities, np.zeros(4, np.int64))
    measurements = Measurements(np.ones(1, np.int64), (setting,), {(0, Scheme.PLAIN, 1): rows}, {})
    measured = MeasureTable(list(inexact_rows(measurements, setting, LeakageParams(), "model")))
    assert [measured.get(measure).value for measure in (ISP_OVER, ISP_OVER_LEAST, ISP_OVER_MOST)] == [0.25] * 3


def _classes(values):
    return {CLASSES[place] for place in np.flatnonzero(source_classes(np.array(values, float)[:, None])[:, 0])}


def _part(values):
    (place,) = np.flatnonzero(partition(np.array(values, float)[:, None])[:, 0])
    return PARTS[place]


@pytest.mark.parametrize(
    ("values", "classes", "part"),
    [
        ([1, 2, 3], {(Shape.STRAIGHT, True)}, (Shape.STRAIGHT, True)),
        ([3, 1.5, 2.5, 1], {(Shape.STRAIGHT, False)}, (Shape.STRAIGHT, False)),
        ([2, 1, 3], {(Shape.U, True)}, (Shape.U, True)),
        ([3, 1, 2], {(Shape.U, False)}, (Shape.U, False)),
        ([1, 3, 2], {(Shape.INVERTED_U, True)}, (Shape.INVERTED_U, True)),
        ([2, 3, 1], {(Shape.INVERTED_U, False)}, (Shape.INVERTED_U, False)),
        ([2, 1, 4, 3], {(Shape.U, True), (Shape.INVERTED_U, True)}, (Shape.BOTH, True)),
        ([3, 4, 1, 2], {(Shape.U, False), (Shape.INVERTED_U, False)}, (Shape.BOTH, False)),
        ([1, 1, 1], set(), (Shape.LEVEL, True)),
        ([1, 2, 1], set(), (Shape.LEVEL, True)),
        ([-np.inf, -np.inf, -1], {(Shape.STRAIGHT, True)}, (Shape.STRAIGHT, True)),
    ],
)
def test_trend_classes(values, classes, part):
    assert _classes(values) == classes and _part(values) == part


@given(arrays(np.float64, st.tuples(st.integers(2, 6), st.integers(1, 20)), elements=st.integers(0, 4).map(float)))
def test_every_sequence_is_in_exactly_one_part(values):
    classes, parts = source_classes(values), partition(values)
    assert (parts.sum(axis=0) == 1).all()
    both = parts[6] | parts[7]
    assert (classes.sum(axis=0) == np.where(parts[8], 0, np.where(both, 2, 1))).all()


def test_the_estimate_is_unbiased_and_its_interval_covers_it():
    generator = np.random.default_rng(1)
    length = 5
    own = np.log(generator.uniform(0.5, 0.95, length))
    # Behind a substitution the rest goes on with a probability that depends on the position alone.
    rest = np.append(generator.uniform(0, 1, length - 1), 1.0)
    before = np.concatenate([[0], np.cumsum(own)[:-1]])
    wanted = float((np.exp(before) * (1 - np.exp(own)) * rest).sum())
    found = []
    for seed in range(300):
        plan = plan_draws(own, 16, np.random.default_rng(seed))
        found.append(estimate(plan, np.log(rest[plan.positions])))
    values, lows, highs = np.array(found).T
    assert values.mean() == pytest.approx(wanted, abs=4 * values.std() / np.sqrt(300))
    assert (lows <= values).all() and (values <= highs).all()
    assert ((lows <= wanted) & (wanted <= highs)).mean() >= 0.95


def test_certain_tokens_need_no_draws():
    plan = plan_draws(np.array([0.0, 0.0, np.log(0.25)]), 8, np.random.default_rng(0))
    assert len(plan.positions) == 0 and plan.shared == 0 and plan.certain == pytest.approx(0.75)
