"""A comparison in words: the tables and sentences that the command prints and the screen shows, cell by cell.

Cells are as they come from records and files: who prints them makes them visible.
"""

from collections.abc import Sequence
from typing import Any

from harness.analysis.comparison import BUDGET_SHARES, Comparison
from harness.core.comparison import MCNEMAR_CAVEAT, Contrast, Part
from harness.core.intervals import Interval
from harness.core.scoring import Score
from harness.core.text import pluralize
from harness.core.times import format_duration

Table = list[tuple[str, ...]]


def scores_and_pace(comparison: Comparison) -> Table:
    """A header, and for each run its score on all examples, its time and its pace."""
    header = ("run", "attack", "status", *_score_header(comparison.whole), "time", "suffixes/s")
    rows = [
        (
            run.id,
            run.shown_attack,
            run.status.words,
            *_score_cells(run.score),
            f"{format_duration(run.elapsed_s)}/{format_duration(run.budget_s)}",
            "–" if run.suffixes_per_s is None else f"{run.suffixes_per_s:,.1f}",
        )
        for run in comparison.runs
    ]
    return [header, *rows]


def scores_on_unreachable(comparison: Comparison) -> Table:
    """A header, and for each run its score on the unreachable part; nothing where there is no such part."""
    if comparison.unreachable is None:
        return []
    rows = [
        (run.id, run.shown_attack, *_score_cells(run.unreachable))
        for run in comparison.runs
        if run.unreachable is not None
    ]
    return [("run", "attack", *_score_header(comparison.unreachable)), *rows]


def unreachable_in_words(comparison: Comparison) -> str:
    """What `scores_on_unreachable` is about, or why there is nothing."""
    if comparison.unreachable is None:
        return f"nothing on the part that cannot be reached: {comparison.no_unreachable_because}"
    return f"the {len(comparison.unreachable):,} examples that cannot be reached from the training rows"


def recall_in_time(comparison: Comparison) -> Table:
    """A header, and for each run its recall at the cap after each of BUDGET_SHARES, on all examples and on the part."""
    header = ("run", *(f"{share:.0%}" for share in BUDGET_SHARES))
    on_part = [f"{header_cell} unreachable" for header_cell in header[1:]] if comparison.unreachable else []
    rows = [
        (run.id, *_recalls(run.recall_at_shares), *_recalls(run.unreachable_at_shares or ())) for run in comparison.runs
    ]
    return [(*header, *on_part), *rows]


def recall_in_time_in_words(comparison: Comparison) -> str:
    """What `recall_in_time` is about."""
    part = comparison.unreachable
    words = f"recall at {pluralize(comparison.whole.cap, 'error')} after a part of the budget"
    if part is None:
        return words
    return f"{words}; at {pluralize(part.cap, 'error')} on the {len(part):,} examples that cannot be reached"


def settings_that_differ(comparison: Comparison) -> Table:
    """A header, and for each setting that is not the same for all runs its values; nothing where all are the same."""
    if not comparison.differing:
        return []
    header = ("what differs", *(run.id for run in comparison.runs))
    return [header, *((name, *map(_value, values)) for name, values in comparison.differing.items())]


NOTHING_DIFFERS = "nothing differs in attack, parameters, seed, budget, target, versions and hardware"


def contrast_in_words(comparison: Comparison, contrast: Contrast, where: str) -> list[str]:
    """The first run against the second: their difference with its interval, and McNemar's test."""
    first, second = (run.id for run in comparison.runs)
    difference, interval = contrast.difference
    return [
        f"{first} less {second}, on {where}",
        f"difference {difference:+.3f} {_bounds(interval, '+.3f')} ({interval.unit})",
        f"McNemar's exact test p = {contrast.mcnemar_p:.3g} ({MCNEMAR_CAVEAT})",
    ]


def contrasts(comparison: Comparison) -> list[tuple[str, Contrast]]:
    """Each contrast that a pair has, and on which examples: all of them, and the unreachable part."""
    found = (
        (comparison.contrast, "all examples"),
        (comparison.unreachable_contrast, "the part that cannot be reached"),
    )
    return [(where, contrast) for contrast, where in found if contrast is not None]


def _recalls(recalls: Sequence[float | None]) -> list[str]:
    return ["–" if recall is None else f"{recall:.3f}" for recall in recalls]


def _score_header(part: Part) -> tuple[str, str]:
    return f"recall at {pluralize(part.cap, 'error')}", "precision"


def _score_cells(score: Score) -> tuple[str, str]:
    return f"{score.recall_at_cap:.3f} {_bounds(score.interval, '.3f')}", f"{score.precision_at_cap:.3f}"


def _bounds(interval: Interval, form: str) -> str:
    return f"[{interval.low:{form}}, {interval.high:{form}}]"


def _value(value: Any) -> str:
    return "–" if value is None else str(value)
