"""Rates and tests of the sequence audit against scipy and against small cases worked out by hand."""

import numpy as np
import pytest
from scipy.stats import binom, hypergeom

from harness.audits.sequence.dataset import Dataset, ReadCounts
from harness.audits.sequence.measures import TOO_SHORT, Measurements, Results
from harness.audits.sequence.rates import contrast_sides, run_p_value
from harness.audits.sequence.thresholds import Threshold

COUNTS = ReadCounts(0, 0, 0, 0, 0)


def measurements(verdicts: list[int], runs: list[int], is_compared: list[bool] | None = None) -> Measurements:
    compared = np.array(is_compared or [True] * len(verdicts))
    same = dict.fromkeys(Threshold, np.array(verdicts, np.int64))
    return Measurements(compared, same, np.array(runs), np.array(runs), np.zeros(len(runs)))


def dataset(is_control: list[bool], is_shared: list[bool] | None = None) -> Dataset:
    number = len(is_control)
    texts, zeros = ["x"] * number, np.zeros(number, np.int64)
    shared = np.array(is_shared or [False] * number)
    return Dataset(texts, texts, ["d"], zeros, zeros, zeros, np.array(is_control), shared, COUNTS, None, 35)


def results(own: Measurements, permuted: Measurements) -> Results:
    number = len(own.is_compared)
    return Results([None] * number, [""] * number, [""] * number, own, permuted)


def test_the_paired_test_is_mcnemars_exact_test() -> None:
    own = measurements([1, 1, 1, 1, 0, 0, TOO_SHORT, 1], [0] * 8)
    chance = measurements([0, 0, 0, 1, 1, 0, 0, TOO_SHORT], [0] * 8)
    found = contrast_sides(Threshold.TRIGRAM, dataset([False] * 8), results(own, chance))
    # Four verdicts differ, three of them in favour of the own suffix.
    assert found.p_value == pytest.approx(binom.sf(2, 4, 0.5))
    assert (found.corpus.passed, found.corpus.judged, found.corpus.too_short) == (5, 7, 1)
    assert (found.tested_corpus.judged, found.tested_control.passed) == (6, 2)


def test_equal_verdicts_have_a_p_value_of_one() -> None:
    own = measurements([1, 0], [3, 3])
    found = contrast_sides(Threshold.OVERLAP, dataset([False] * 2), results(own, own))
    assert found.p_value == 1.0
    assert run_p_value(dataset([False] * 2), results(own, own)) == 1.0


def test_the_unpaired_test_is_fishers_exact_test_without_shared_paragraphs() -> None:
    own = measurements([1, 1, 0, 1, 0, 0, 1], [0] * 7)
    nothing = measurements([TOO_SHORT] * 7, [0] * 7, [False] * 7)
    data = dataset([False] * 4 + [True] * 3, [False, False, False, True, False, False, True])
    found = contrast_sides(Threshold.START_5, data, results(own, nothing))
    assert found.p_value == pytest.approx(hypergeom.sf(1, 5, 2, 3))
    assert (found.corpus.judged, found.tested_corpus.judged, found.control.judged) == (4, 3, 2)
    assert run_p_value(data, results(own, nothing)) is None


def test_longer_runs_beside_the_own_suffix_have_a_small_p_value() -> None:
    generator = np.random.default_rng(0)
    chance = generator.integers(0, 4, 200).tolist()
    longer = [run + int(more) for run, more in zip(chance, generator.integers(0, 9, 200), strict=True)]
    data, verdicts = dataset([False] * 200), [0] * 200
    assert run_p_value(data, results(measurements(verdicts, longer), measurements(verdicts, chance))) < 1e-9
    assert run_p_value(data, results(measurements(verdicts, chance), measurements(verdicts, longer))) > 0.99


def test_a_side_without_verdicts_has_no_p_value() -> None:
    nothing = measurements([TOO_SHORT] * 2, [0] * 2, [False] * 2)
    found = contrast_sides(Threshold.TRIGRAM, dataset([False] * 2), results(nothing, nothing))
    assert found.p_value is None and found.corpus.judged == 0 and np.isnan(found.corpus.share.value)
