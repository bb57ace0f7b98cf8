"""The smallest result that would have changed an answer such as "No evidence"."""

from bisect import bisect_left
from collections.abc import Callable

from harness.audits.report import corrected
from harness.core.measures import Estimate
from harness.core.multiple_comparisons import ALPHA
from harness.core.text import format_score


def smallest_significant(p_value: Callable[[int], float], maximum: int, tests: int = 1) -> int | None:
    """Return the smallest count from 0 to `maximum` with a corrected p-value below 0.05, None if there is none.

    p_value: the p-value of a count, which must not increase with the count; tests: the number of tests by which it is
    corrected (Bonferroni).
    """
    counts = range(maximum + 1)
    smallest = bisect_left(counts, True, key=lambda count: corrected(p_value(count), tests) < ALPHA)
    return smallest if smallest <= maximum else None


def smallest_at_spread(estimate: Estimate, chance: float = 0.0) -> tuple[float, float]:
    """Return the values below and above which a 95 % interval as wide as that of `estimate` excludes `chance`."""
    return chance - (estimate.high - estimate.value), chance + (estimate.value - estimate.low)


def changing_share(smallest: float, name: str) -> str:
    """Return the clause that a share `name` above `smallest` would have changed the answer, or that none could."""
    if smallest >= 1:
        return f"no {name} could have changed this"
    return f"{name} above {format_score(smallest)} would have changed this"


def clear_changes(change: Estimate, lowest: float, highest: float, text: Callable[[float], str]) -> str:
    """Return the clause about the changes that would have been clear, or that none could have been.

    lowest, highest: the smallest and the largest change that was possible; text: formats a change.
    """
    below, above = smallest_at_spread(change)
    clear = [f"below {text(below)}"] * (lowest < below) + [f"above {text(above)}"] * (above < highest)
    if not clear:
        return "at this spread, no change could have been clear"
    return f"at this spread, a change {' or '.join(clear)} would have been clear"
