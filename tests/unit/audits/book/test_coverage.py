import numpy as np
import pytest

from harness.audits.book.coverage import (
    Estimate,
    block_length,
    character_peaks,
    difference,
    passages_of,
    sum_over_text,
)
from harness.audits.book.params import THRESHOLDS
from harness.audits.book.rows import Measured
from harness.audits.schemes import SCHEMES, Scheme


def measured(cut: np.ndarray, end: np.ndarray, probabilities: np.ndarray) -> Measured:
    with np.errstate(divide="ignore"):
        logs = np.tile(np.log(probabilities), (len(SCHEMES), 1))
    return Measured(0, 0, 2 * cut - end, cut, end, logs, len(cut))


def random_windows(seed: int, length: int, windows: int) -> Measured:
    generator = np.random.default_rng(seed)
    cut = np.sort(generator.integers(30, length - 30, windows))
    return measured(cut, cut + generator.integers(5, 30, windows), generator.random(windows) ** 8)


def test_a_character_has_the_probability_of_the_likeliest_suffix_around_it():
    windows = random_windows(1, 500, 80)
    peaks = character_peaks(windows, Scheme.TOP_K, 500)
    probabilities = np.exp(windows.log_probability(Scheme.TOP_K))
    for place in range(500):
        around = probabilities[(windows.cut <= place) & (place < windows.end)]
        assert (np.isnan(peaks[place]) and not len(around)) or peaks[place] == around.max()


def test_passages_are_the_longest_runs_at_a_threshold():
    peaks = np.array([0.0, 0.2, 0.3, np.nan, 0.1, 0.05, 0.5])
    assert passages_of(peaks, 0.1) == [(1, 3, 0.3), (4, 5, 0.1), (6, 7, 0.5)]
    assert passages_of(np.full(3, np.nan), 0.1) == []


def test_shares_are_those_of_the_whole_text():
    windows = random_windows(2, 4000, 300)
    peaks = character_peaks(windows, Scheme.PLAIN, 4000)
    sums = sum_over_text(windows, Scheme.PLAIN, peaks)
    known, probabilities = peaks[~np.isnan(peaks)], np.exp(windows.log_probability(Scheme.PLAIN))
    for threshold in THRESHOLDS:
        assert sums.coverage(threshold).value == pytest.approx((known >= threshold).mean())
        assert sums.extractable(threshold).value == pytest.approx((probabilities >= threshold).mean())
        assert sums.coverage(threshold).low <= sums.coverage(threshold).value <= sums.coverage(threshold).high
    assert sums.mean_probability().value == pytest.approx(probabilities.mean())
    both = sums + sums
    assert both.coverage(0.1).value == pytest.approx(sums.coverage(0.1).value)


def simulated(seed: int) -> tuple[Measured, int]:
    """Return a text of 300 stretches of 200 characters, of which each is memorized with a probability of 0.3."""
    is_memorized = np.random.default_rng(seed).random(300) < 0.3
    cut = np.arange(50, 60_000, 50)
    return measured(cut, cut + 50, np.where(np.repeat(is_memorized, 4)[1:], 0.9, 1e-6)), 60_000


def test_intervals_contain_the_true_share_about_as_often_as_they_say():
    contained = 0
    for seed in range(100):
        windows, length = simulated(seed)
        peaks = character_peaks(windows, Scheme.TOP_K, length)
        estimate = sum_over_text(windows, Scheme.TOP_K, peaks).coverage(0.5)
        contained += estimate.low <= 0.3 <= estimate.high
    # 95 of 100 are expected; fewer than 86 have a probability of 2e-4.
    assert 86 <= contained <= 100


def test_an_interval_of_nothing_extracted_is_not_empty():
    cut = np.arange(200, 4000, 10)
    windows = measured(cut, cut + 200, np.zeros(380))
    estimate = sum_over_text(windows, Scheme.TOP_K, character_peaks(windows, Scheme.TOP_K, 4200)).coverage(0.001)
    assert estimate.value == 0 and estimate.low == 0 and 0.05 < estimate.high < 0.5


def test_a_block_is_at_most_an_eighth_of_the_text():
    windows = random_windows(3, 200, 10)
    assert block_length(windows, 200) <= 25 and block_length(windows, 10**6) <= 10 * 2 * 30


def test_a_difference_has_the_error_of_both_parts():
    found = difference(Estimate(0.5, 0.4, 0.6), Estimate(0.1, 0.0, 0.2))
    assert found.value == pytest.approx(0.4)
    assert (found.low, found.high) == pytest.approx((0.4 - 0.02**0.5, 0.4 + 0.02**0.5))
