"""One run at one moment, as a screen shows it: frozen, made by a feed, and knowing nothing of stores and widgets."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from harness.core.arrays import Floats, Ints, Tokens
from harness.core.live_score import Figures
from harness.jobs.audit.reader import AuditFigure
from harness.runs.reader import StageWork
from harness.runs.summary import RunSummary


class Verdict(StrEnum):
    """Whether a guess is the answer."""

    RIGHT = "right"
    WRONG = "wrong"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class GuessLine:
    """One guess of the stream. at: seconds since the epoch; suffix: [length] token ids."""

    seq: int
    at: float
    example: int
    score: float
    suffix: Tokens
    verdict: Verdict


@dataclass(frozen=True)
class History:
    """The running curve so far: spent [points] in seconds of budget, recall [points] (None in a blind round), and how
    many guesses there were, [points]."""

    spent: Floats = field(default_factory=lambda: np.empty(0))
    recall: Floats | None = None
    guesses: Ints = field(default_factory=lambda: np.empty(0, np.int64))


@dataclass(frozen=True)
class Snapshot:
    """All that the run screen shows.

    lines: the last guesses, oldest first; suffixes_per_s: draws finished a second, lately, None before any;
    telemetry: the last look at the machine (`Telemetry.sample`), empty where there was none; log: the log's last lines;
    loaded: the share of the stored guesses that the figures hold already; fault: why the run cannot be read right now,
    the rest then being what was read last.
    """

    summary: RunSummary
    figures: Figures
    history: History
    lines: tuple[GuessLine, ...]
    suffixes_per_s: float | None
    telemetry: dict[str, float]
    log: tuple[str, ...]
    loaded: float
    fault: str | None = None


@dataclass(frozen=True)
class FigureHistory:
    """A figure of an audit in time: spent [points] in seconds of budget, ascending, and value, low, high [points], NaN
    where there was no number."""

    spent: Floats
    value: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class AuditRow:
    """One row of an audit's tables in words. at: seconds since the epoch."""

    seq: int
    at: float
    table: str
    words: str


@dataclass(frozen=True)
class AuditSnapshot:
    """All that the screen of an audit shows; telemetry, log, loaded, fault as in a run's.

    figures: as they stand, in the order in which they first came; histories: of each, by name; rows: the newest of the
    tables, oldest first.
    """

    summary: RunSummary
    figures: tuple[AuditFigure, ...]
    histories: Mapping[str, FigureHistory]
    stages: tuple[StageWork, ...]
    rows: tuple[AuditRow, ...]
    warnings: tuple[str, ...]
    telemetry: dict[str, float]
    log: tuple[str, ...]
    loaded: float = 1.0
    fault: str | None = None
