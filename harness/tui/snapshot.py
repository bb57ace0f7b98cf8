"""Snapshots: frozen descriptions of one run at one moment, which know nothing of stores and widgets."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.core.arrays import Floats, Ints, Tokens
from harness.core.live_score import Figures
from harness.jobs.audit.reader import AuditFigure
from harness.runs.reader import StageWork
from harness.runs.summary import RunSummary


@dataclass(frozen=True)
class GuessLine:
    """One guess in the stream. at: seconds since the epoch. suffix: [length] token ids. is_right: None if unknown."""

    seq: int
    at: float
    example: int
    score: float
    suffix: Tokens
    is_right: bool | None


@dataclass(frozen=True)
class RecallHistory:
    """The running curve so far.

    spent: [points] seconds of budget. recall: [points], None in a blind round. guesses: [points] guesses committed.
    """

    spent: Floats
    recall: Floats | None
    guesses: Ints


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The part that runs and audits share.

    telemetry: the last sample of the machine (`Telemetry.sample`), empty before the first. log: the last lines of the
    worker's log. loaded: the fraction of the stored guesses read so far, in [0, 1]. fault: why the run cannot be read
    now, in which case the other fields hold the values read last.
    """

    summary: RunSummary
    telemetry: dict[str, float] = field(default_factory=dict)
    log: tuple[str, ...] = ()
    loaded: float = 1.0
    fault: str | None = None


@dataclass(frozen=True, kw_only=True)
class RunSnapshot(Snapshot):
    """A run of an attack.

    lines: the last guesses, oldest first; suffixes_per_s: the recent sampling rate, None before the first two batches.
    """

    figures: Figures
    history: RecallHistory
    lines: tuple[GuessLine, ...]
    suffixes_per_s: float | None


@dataclass(frozen=True)
class FigureHistory:
    """One figure of an audit over time.

    spent: [points] seconds of budget, ascending; value, low, high: [points], NaN where there was no number.
    """

    spent: Floats
    value: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class AuditRow:
    """One row of an audit's tables as text. at: seconds since the epoch."""

    seq: int
    at: float
    table: str
    text: str


@dataclass(frozen=True, kw_only=True)
class AuditSnapshot(Snapshot):
    """An audit.

    figures: the newest value of each figure, in the order of their first appearance. histories: by figure name; rows:
    the newest rows of the tables, oldest first.
    """

    figures: tuple[AuditFigure, ...]
    histories: Mapping[str, FigureHistory]
    stages: tuple[StageWork, ...]
    rows: tuple[AuditRow, ...]
    warnings: tuple[str, ...]
