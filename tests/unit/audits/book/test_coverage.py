import numpy as np
import pytest

from harness.audits.book.coverage import (
    COVERAGE,
    EXTRACTABLE,
    MEAN,
    TextSums,
    TextWindows,
    character_peaks,
    count_blocks,
    estimate_shares,
    passages_of,
    sum_over_text,
    window_length,
)
from harness.audits.book.inputs import THRESHOLDS
from harness.audits.probabilities import SCHEMES, Scheme
from harness.audits.report import difference
from harness.core.measures import Estimate


def measured(cut: np.ndarray, end: np.ndarray, probabilities: np.ndarray) -> TextWindows:
    with np.errstate(divide="ignore"):
        logs = dict.fromkeys(SCHEMES, np.log(probabilities))
    return TextWindows(0, 0, 2 * cut - end, cut, end, logs)


def sums_of(windows: TextWindows, length: int, scheme: Scheme = Scheme.TOP_K, *, texts: int = 1) -> TextSums:
    peaks = character_peaks(windows, scheme, length)
    return sum_over_text(windows, scheme, peaks, window=window_length([windows]), total=texts * length)


def random_windows(seed: int, length: int, windows: int) -> TextWindows:
    generator = np.random.default_rng(seed)
    cut = np.sort(generator.integers(30, max(31, length - 30), windows))
    return measured(cut, cut + generator.integers(5, 30, windows), generator.random(windows) ** 8)


def test_a_character_has_the_probability_of_the_likeliest_suffix_around_it():
    windows = random_windows(1, 500, 80)
    peaks = character_peaks(windows, Scheme.TOP_K, 500)
    probabilities = np.exp(windows.logs[Scheme.TOP_K])
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
    shares = estimate_shares([sums_of(windows, 4000, Scheme.PLAIN)])
    known, probabilities = peaks[~np.isnan(peaks)], np.exp(windows.logs[Scheme.PLAIN])
    for threshold in THRESHOLDS:
        covered = shares[COVERAGE, threshold]
        assert covered.value == pytest.approx((known >= threshold).mean())
        assert shares[EXTRACTABLE, threshold].value == pytest.approx((probabilities >= threshold).mean())
        assert covered.low <= covered.value <= covered.high
    assert shares[MEAN, None].value == pytest.approx(probabilities.mean())
    once = shares[COVERAGE, 0.1]
    twice = estimate_shares([sums_of(windows, 4000, Scheme.PLAIN)] * 2)[COVERAGE, 0.1]
    assert twice.value == pytest.approx(once.value)
    assert twice.high - twice.low < 0.85 * (once.high - once.low)


def contained(seeds: range, texts: int, length: int) -> int:
    """Return how many intervals contain 0.3, the share of memorized stretches of 200 characters in all texts."""
    number = 0
    for seed in seeds:
        is_memorized = np.random.default_rng(seed).random((texts, length // 200)) < 0.3
        parts = []
        for memorized in is_memorized:
            cut = np.arange(50, length, 50)
            probabilities = np.where(np.repeat(memorized, 4)[1:], 0.9, 1e-6)
            parts.append(sums_of(measured(cut, cut + 50, probabilities), length, texts=texts))
        estimate = estimate_shares(parts)[COVERAGE, 0.5]
        number += estimate.low <= 0.3 <= estimate.high
    return number


def test_intervals_contain_the_true_share_about_as_often_as_they_say():
    # 95 of 100 are expected; fewer than 86 have a probability of 2e-4.
    assert contained(range(100), texts=1, length=60_000) >= 86


@pytest.mark.parametrize("length", [200, 600])
def test_intervals_of_many_short_texts_are_as_wide_as_their_differences(length):
    assert contained(range(100), texts=18_000 // length, length=length) >= 86


def test_an_interval_of_nothing_extracted_is_not_empty():
    cut = np.arange(200, 4000, 10)
    estimate = estimate_shares([sums_of(measured(cut, cut + 200, np.zeros(380)), 4200)])[COVERAGE, 0.001]
    assert estimate.value == 0 and estimate.low == 0 and 0.05 < estimate.high < 0.5


def test_a_single_window_is_one_observation():
    window = measured(np.array([50]), np.array([100]), np.array([0.0]))
    estimate = estimate_shares([sums_of(window, 100)])[COVERAGE, 0.001]
    assert (estimate.low, estimate.high) == pytest.approx((0, 0.793), abs=1e-3)


def test_a_block_has_at_least_a_window_and_at_most_the_text():
    for length in (60, 500, 4_000, 10**6):
        windows = random_windows(3, length, 10)
        text = sums_of(windows, length)
        cells = text.series.shape[1]
        assert min(length, window_length([windows])) <= 1.5 * text.block * text.cell
        assert 1 <= text.block <= cells
        assert count_blocks([text]) <= 600


def test_a_difference_has_the_error_of_both_parts():
    found = difference(Estimate(0.5, 0.4, 0.6), Estimate(0.1, 0.0, 0.2))
    assert found.value == pytest.approx(0.4)
    assert (found.low, found.high) == pytest.approx((0.4 - 0.02**0.5, 0.4 + 0.02**0.5))
