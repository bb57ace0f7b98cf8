"""The smallest result that would have changed the answer "No evidence"."""

from bisect import bisect_left
from collections.abc import Callable

from harness.audits.report import corrected
from harness.core.multiple_comparisons import ALPHA


def smallest_significant(p_value: Callable[[int], float], most: int, tests: int = 1) -> int | None:
    """Return the smallest count from 0 to `most` with a corrected p-value below 0.05, None if there is none.

    p_value: the p-value of a count, which must not increase with the count; tests: the number of tests by which it is
    corrected (Bonferroni).
    """
    counts = range(most + 1)
    smallest = bisect_left(counts, True, key=lambda count: corrected(p_value(count), tests) < ALPHA)
    return smallest if smallest <= most else None
