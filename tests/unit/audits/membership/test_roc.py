"""ROC curves: their area, their rates, their intervals and the steps that are drawn."""

import numpy as np
import pytest

from harness.audits.membership.roc import roc_of
from harness.core.intervals import wilson

RATES = (0.01, 0.001)


def test_the_area_and_the_rates_are_those_of_the_definition():
    from sklearn.metrics import roc_auc_score

    generator = np.random.default_rng(4)
    is_member = np.repeat([True, False], [150, 200])
    scores = np.round(generator.normal(size=350) + is_member, 1)
    roc = roc_of(scores, is_member, np.arange(350), RATES)
    assert roc.auc.value == pytest.approx(roc_auc_score(is_member, scores))
    assert roc.auc.low < roc.auc.value < roc.auc.high
    non_members = np.sort(scores[~is_member])
    best = max((scores[is_member] >= t).mean() for t in np.unique(scores) if (non_members >= t).mean() <= 0.01)
    assert roc.at[0].value == pytest.approx(best)
    assert np.isnan(roc.at[1].value)
    # The bootstrap has the standard error of Hanley and McNeil (1982), roughly.
    assert 0.015 < (roc.auc.high - roc.auc.low) / 3.92 < 0.04


def test_near_copies_widen_the_interval_as_much_as_fewer_documents():
    generator = np.random.default_rng(5)
    is_member = np.repeat([True, False], 50)
    scores = generator.normal(size=100) + is_member
    few = roc_of(scores, is_member, np.arange(100), RATES).auc
    copies = [np.repeat(values, 4) for values in (scores, is_member, np.arange(100))]
    assert roc_of(*copies, RATES).auc == pytest.approx(few)
    narrow = roc_of(copies[0], copies[1], np.arange(400), RATES).auc
    assert narrow.high - narrow.low < 0.6 * (few.high - few.low)


@pytest.mark.parametrize("sign", [1, -1])
def test_an_interval_at_zero_or_one_has_a_width(sign: int):
    is_member = np.repeat([True, False], [40, 120])
    roc = roc_of(sign * (np.arange(160) < 40), is_member, np.arange(160), RATES)
    value = float(sign == 1)
    low, high = wilson(value, 40)
    for rate in (roc.auc, roc.at[0]):
        assert rate[:3] == pytest.approx((value, low, high))
        assert rate.high - rate.low > 0.08


def test_the_bound_of_a_perfect_area_is_rarely_wrong():
    # An area of 0.97, of which samples of 12 and 12 are often in perfect order.
    generator = np.random.default_rng(6)
    is_member = np.repeat([True, False], 12)
    perfect = [
        roc.auc.low
        for _ in range(60)
        if (roc := roc_of(generator.normal(size=24) + 2.66 * is_member, is_member, np.arange(24), RATES)).auc.value == 1
    ]
    assert len(perfect) > 10 and max(perfect) < 0.97


def test_two_clusters_give_no_interval_without_width():
    is_member = np.repeat([True, False], 30)
    scores = np.random.default_rng(7).normal(size=60) + is_member
    low_and_high = roc_of(scores, is_member, is_member.astype(int), RATES).auc[1:]
    assert low_and_high[1] - low_and_high[0] > 0.5


def test_the_curve_is_drawn_as_steps_from_one_false_positive():
    is_member = np.array([True, True, False, True, True, False, False, True])
    scores = np.array([9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 4.0, 4.0])
    x, y = roc_of(scores, is_member, np.arange(8), RATES).steps(1 / 3)
    assert x.tolist() == pytest.approx([1 / 3, 1, 1])
    assert y.tolist() == pytest.approx([0.8, 0.8, 1])
    # Two false positives come at once: one false positive allows what none does.
    x, y = roc_of(np.array([2.0, 1.0, 1.0, 0.0]), np.array([True, False, False, True]), np.arange(4), RATES).steps(0.5)
    assert x.tolist() == [0.5, 1, 1] and y.tolist() == [0.5, 0.5, 1]
