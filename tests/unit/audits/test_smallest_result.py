"""The smallest result that would have changed an answer, against a search through all counts."""

import re
from functools import partial

import numpy as np
from scipy.stats import binomtest, fisher_exact

from harness.audits.sequence.results import fisher_p, mcnemar_p
from harness.audits.smallest_result import changing_share, clear_changes, smallest_at_spread, smallest_significant
from harness.core.measures import Estimate


def test_the_smallest_results_are_those_of_a_search_through_all_counts() -> None:
    generator = np.random.default_rng(0)
    found = []
    for _ in range(200):
        judged, of_control, tests = generator.integers([1, 1, 1], [40, 40, 9]).tolist()
        passed = min(int(generator.integers(0, 4)), of_control)
        by_fisher = smallest_significant(partial(fisher_p, judged=judged, control=(passed, of_control)), judged, tests)
        against = min(passed, judged)
        by_mcnemar = smallest_significant(partial(mcnemar_p, against=against), judged - against, tests)
        fisher_counts = [
            count
            for count in range(judged + 1)
            if tests
            * fisher_exact([[count, judged - count], [passed, of_control - passed]], alternative="greater").pvalue
            < 0.05
        ]
        mcnemar_counts = [
            count
            for count in range(1, judged - against + 1)
            if tests * binomtest(count, count + against, alternative="greater").pvalue < 0.05
        ]
        assert by_fisher == min(fisher_counts, default=None)
        assert by_mcnemar == min(mcnemar_counts, default=None)
        found += [by_fisher, by_mcnemar]
    assert None in found and len(set(found)) > 10


def test_fifteen_of_forty_are_needed_against_twelve_of_which_none_pass() -> None:
    needed = [smallest_significant(partial(fisher_p, judged=40, control=(0, n)), 40, 4) for n in (12, 20, 40)]
    assert needed == [15, 10, 7]


def test_a_larger_value_at_the_same_spread_excludes_chance() -> None:
    below, above = smallest_at_spread(Estimate(0.55, 0.4, 0.75), 0.5)
    assert (round(below, 9), round(above, 9)) == (0.3, 0.65)
    assert changing_share(above, "AUC") == "AUC above 0.650 would have changed this"
    assert changing_share(1.02, "AUC") == "no AUC could have changed this"


def test_clear_changes_are_those_of_a_search_through_all_changes() -> None:
    """A change is clear if its interval, as wide as the observed one, excludes 0."""
    generator = np.random.default_rng(1)
    clauses = set()
    for _ in range(300):
        before = float(generator.choice([0.0, 0.01, 0.3, 0.99, 1.0]))
        value = float(generator.uniform(-before, 1 - before))
        low, high = value - generator.uniform(0, 1.5), value + generator.uniform(0, 1.5)
        if not low <= 0 <= high:
            continue
        possible = np.linspace(-before, 1 - before, 1_001)
        is_below, is_above = possible + (high - value) < 0, possible - (value - low) > 0
        clause = clear_changes(Estimate(value, low, high), -before, 1 - before, "{:+.6f}".format)
        assert ("below" in clause) == is_below.any() and ("above" in clause) == is_above.any()
        assert ("no change could have been clear" in clause) == (not (is_below | is_above).any())
        bounds = {word: float(bound) for word, bound in re.findall(r"(below|above) ([-+.0-9]+)", clause)}
        for word, is_clear, nearest in (("below", is_below, np.max), ("above", is_above, np.min)):
            if is_clear.any():
                assert abs(nearest(possible[is_clear]) - bounds[word]) < 0.0011
        clauses.add(tuple(bounds))
    assert clauses == {(), ("below",), ("above",), ("below", "above")}
