"""The columns of every list of runs: of `harness list`, the TUI and notebooks."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from harness.core.text import format_score, shorten
from harness.core.times import date_and_time, format_duration
from harness.runs.summary import RunSummary


@dataclass(frozen=True)
class RunColumn:
    """One column of a list of runs."""

    title: str
    value: Callable[[RunSummary], Any]
    text: Callable[[RunSummary], str]
    """The value for people, as recorded: whoever prints it makes control characters visible."""
    name: str = ""
    """The name in a data frame, if it is not the title."""
    is_right: bool = False
    """True if the text is aligned at the right."""
    sort_key: Callable[[RunSummary], Any] | None = None
    """Returns what the TUI sorts by; None if it cannot sort by this column."""
    is_descending: bool = False
    """True if the highest value comes first."""
    priority: int = 1
    """1 for a column that the TUI shows too, which has less room; 2 for one of `harness list` and notebooks only."""


def recall_text(run: RunSummary) -> str:
    """Return the recall at the error cap, `blind`, or a dash without a score."""
    return "blind" if run.is_blind else format_score(run.known_recall)


COLUMNS = (
    RunColumn("run", lambda run: run.id, lambda run: run.id, sort_key=lambda run: run.id),
    RunColumn("attack", lambda run: run.attack, lambda run: run.labelled_attack, sort_key=lambda run: run.attack),
    RunColumn(
        "status", lambda run: str(run.status), lambda run: run.status.words, sort_key=lambda run: run.status.value
    ),
    RunColumn("round", lambda run: run.round, lambda run: run.round, priority=2),
    RunColumn(
        "recall",
        lambda run: run.recall_at_cap,
        lambda run: recall_text(run) + run.interval_text,
        is_right=True,
        sort_key=lambda run: -1.0 if run.known_recall is None else run.known_recall,
        is_descending=True,
    ),
    RunColumn(
        "time",
        lambda run: run.elapsed_s,
        lambda run: f"{format_duration(run.elapsed_s)}/{format_duration(run.budget_s)}",
        "elapsed_s",
        is_right=True,
        sort_key=lambda run: run.elapsed_s,
        is_descending=True,
    ),
    RunColumn("guesses", lambda run: run.guesses, lambda run: f"{run.guesses:,}", is_right=True, priority=2),
    RunColumn(
        "started",
        lambda run: datetime.fromtimestamp(run.created_at, UTC),
        lambda run: date_and_time(run.created_at),
        "created_at",
        sort_key=lambda run: run.created_at,
        is_descending=True,
    ),
    RunColumn("tags", lambda run: run.tags, lambda run: " ".join(run.tags), priority=2),
    # Runs without a note are last.
    RunColumn(
        "note", lambda run: run.note, lambda run: shorten(run.note, 40), sort_key=lambda run: run.note or "\U0010ffff"
    ),
)
"""The columns from left to right."""
