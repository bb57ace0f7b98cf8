import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from harness.audits import probabilities as p
from harness.audits.leakage.measures import ISP_OVER, ISP_OVER_MOST
from harness.audits.leakage.pairs import LeakageParams
from harness.audits.leakage.results import inexact_rows
from harness.audits.leakage.rows import CLASSES, Measurements, Setting, Trend, likeliest_matches, source_classes
from harness.audits.probabilities import Scheme
from harness.audits.report import clustered_shares
from harness.core.intervals import wilson
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
    assert found == by_search[0] if by_search else (np.isnan(found) or found >= 3000)


@given(arrays(np.float64, st.integers(1, 20), elements=st.floats(-40, 0)), st.floats(0, 1))
def test_expected_queries_to_exceed_is_the_first_number_that_does(logs, share):
    found = p.expected_queries_to_exceed(logs, share)
    if np.isnan(found):
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


def test_a_probability_rounded_above_one_is_one():
    logs = p.log_esp(np.array([[0.0, 4e-6], [1e-6, -1e-6], [0.0, -np.inf]]))
    assert logs.tolist() == [0, 0, -np.inf] and p.extraction_rate(logs) == pytest.approx(2 / 3)
    assert p.leaked_probability(np.array([1e-5]), 30).tolist() == [1]
    assert p.expected_share(np.array([1e-5, -np.inf]), np.array([1, 1000])).tolist() == [0.5, 0.5]


def test_tiny_inexact_probabilities_are_compared_by_their_logarithms():
    logs = np.log(np.array([1e-12, 1e-12, 0.5, 1e-300]))
    probabilities = np.array([3e-12, 1e-12 * (1 + 1e-8), 0.4, 0.0])
    sequences = np.arange(4)
    setting = Setting(0, 50, sequences, {Scheme.PLAIN: logs}, {})
    key = {"model": np.zeros(4), "scheme": np.full(4, p.SCHEMES.index(Scheme.PLAIN)), "errors": np.ones(4)}
    rows = {**key, "sequence": sequences, "probability": probabilities, "bound": np.zeros(4)}
    measurements = Measurements(np.ones(1, np.int64), (setting,), rows, {})
    measured = MeasureTable(list(inexact_rows(measurements, LeakageParams(), "model")))
    assert [measured.get(measure).value for measure in (ISP_OVER, ISP_OVER_MOST)] == [0.25] * 2


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        ([1, 2, 3], {"straight, increasing"}),
        ([3, 1.5, 2.5, 1], {"straight, decreasing"}),
        ([2, 1, 3], {"U-shaped, increasing"}),
        ([3, 1, 2], {"U-shaped, decreasing"}),
        ([1, 3, 2], {"inverted-U-shaped, increasing"}),
        ([2, 3, 1], {"inverted-U-shaped, decreasing"}),
        ([2, 1, 4, 3], {"U-shaped, increasing", "inverted-U-shaped, increasing"}),
        ([3, 4, 1, 2], {"U-shaped, decreasing", "inverted-U-shaped, decreasing"}),
        ([1, 1, 1], set()),
        ([1, 2, 1], set()),
        ([-np.inf, -np.inf, -1], {"straight, increasing"}),
    ],
)
def test_trend_classes(values, classes):
    is_in_class = source_classes(np.array(values, float)[:, None])[:, 0]
    assert {CLASSES[place] for place in np.flatnonzero(is_in_class)} == classes


@given(arrays(np.float64, st.tuples(st.integers(2, 6), st.integers(1, 20)), elements=st.integers(0, 4).map(float)))
def test_every_sequence_is_in_the_classes_of_its_direction(values):
    classes = source_classes(values)
    ends_differ = values[0] != values[-1]
    low, high = values.min(axis=0), values.max(axis=0)
    has_both_inside = (low < np.minimum(values[0], values[-1])) & (high > np.maximum(values[0], values[-1]))
    assert (classes.sum(axis=0) == ends_differ * (1 + has_both_inside)).all()
    assert (classes[::2].any(axis=0) == (values[-1] > values[0])).all()


@given(arrays(np.float64, st.tuples(st.integers(2, 6), st.integers(0, 20)), elements=st.integers(0, 4).map(float)))
def test_a_sequence_is_easier_if_another_setting_exceeds_the_last_one(values):
    trend = Trend("model sizes", (), np.arange(values.shape[1]), {Scheme.PLAIN: values})
    is_easier = trend.is_easier(Scheme.PLAIN)
    assert is_easier.tolist() == [any(value > last for value in earlier) for *earlier, last in values.T]
    # The source's classes: all that decrease, and the inverted U that increases. Equal ends are in none.
    in_classes = source_classes(values)[[1, 3, 4, 5]].any(axis=0) if values.size else is_easier
    assert (in_classes == (is_easier & ((values[0] != values[-1]) | in_classes))).all()


def test_intervals_of_shares_draw_whole_clusters():
    is_counted = np.random.default_rng(4).random((2, 60)) < [[0.3], [0.6]]
    single = clustered_shares(is_counted, np.arange(60))
    copies = clustered_shares(is_counted.repeat(5, axis=1), np.repeat(np.arange(60), 5))
    assert copies == [share._replace(of=300) for share in single]
    assert all(share.low < share.value < share.high for share in single)
    (none,) = clustered_shares(np.zeros((1, 40), bool), np.repeat(np.arange(4), 10))
    assert none == (0, *wilson(0, 4), 40)
    assert np.isnan(clustered_shares(np.zeros((1, 0), bool), np.arange(0))[0].value)


def test_the_likeliest_matches_are_the_same_in_any_order_and_in_parts():
    generator = np.random.default_rng(5)
    tokens = generator.integers(0, 3, (2000, 4))
    sequence = generator.integers(0, 40, 2000)
    errors = (tokens != 0).sum(axis=1)
    # Few different values, so that many matches are equally likely; a match has one probability and may occur twice.
    logprob = -((tokens @ [1, 2, 3, 4] + sequence) % 7).astype(float)
    rows = {"sequence": sequence, "errors": errors, "logprob": logprob, "tokens": tokens}
    listed = [(errors[row], -logprob[row], sequence[row], tuple(tokens[row])) for row in range(2000)]
    wanted = {number: sorted({row for row in listed if row[0] == number})[:100] for number in range(5)}

    def chosen(part, within):
        places = part[likeliest_matches({name: column[part] for name, column in rows.items()})]
        return places, {number: [listed[row] for row in places if errors[row] == number] for number in within}

    assert chosen(np.arange(2000), wanted)[1] == wanted
    assert chosen(generator.permutation(2000), wanted)[1] == wanted
    of_parts = np.concatenate([chosen(part, wanted)[0] for part in np.array_split(np.arange(2000), 3)])
    assert chosen(of_parts, wanted)[1] == wanted
