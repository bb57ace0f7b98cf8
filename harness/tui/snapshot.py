"""Snapshots: frozen descriptions of one run at one moment, which know nothing about stores and widgets."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from harness.analysis.parts import CurveBand
from harness.core.arrays import Tokens
from harness.core.live_score import Figures
from harness.runs.audit_reader import AuditFigure
from harness.runs.summary import RunSummary
from harness.tui.series import Series


@dataclass(frozen=True)
class GuessLine:
    """One guess of a run.

    numbers: its row of `Guesses.numbers`, by column.
    suffix: [length] token ids.
    differing: how many of its tokens are not those of the answer, None if that is unknown.
    """

    seq: int
    numbers: Mapping[str, float]
    suffix: Tokens
    differing: int | None

    @property
    def example(self) -> int:
        """The id of the example."""
        return int(self.numbers["example"])

    @property
    def is_right(self) -> bool | None:
        """True if the suffix is the answer, None if that is unknown."""
        return None if self.differing is None else self.differing == 0


class Verdict(StrEnum):
    """The filter of the table of guesses."""

    ALL = "all"
    RIGHT = "right"
    NEAR_MISS = "near miss"
    WRONG = "wrong"


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The part that runs and audits share.

    telemetry: the last sample of the machine (`Telemetry.sample`), empty before the first.
    log: the last lines of the worker's log.
    loaded: the fraction of the stored guesses read so far, in [0, 1].
    fault: why the run cannot be read now, in which case the other fields hold the values read last.
    """

    summary: RunSummary
    telemetry: dict[str, float] = field(default_factory=dict)
    log: tuple[str, ...] = ()
    loaded: float = 1.0
    fault: str | None = None


@dataclass(frozen=True, kw_only=True)
class RunSnapshot(Snapshot):
    """A run of an attack.

    band: around each point of the curve of `figures`, as wide as it was a little earlier; None in a blind round and
    before it is computed.
    recall: over time, or the number of guesses in a blind round.
    rates: the last sampling rates in suffixes per second, newest last; none before the first two batches.
    lines: the last guesses of each verdict, oldest first. counts: all of them.
    """

    figures: Figures
    band: CurveBand | None
    recall: Series
    rates: tuple[float, ...]
    lines: Mapping[Verdict, tuple[GuessLine, ...]]
    counts: Mapping[Verdict, int]


@dataclass(frozen=True, kw_only=True)
class AuditSnapshot(Snapshot):
    """An audit.

    figures: the newest value of each figure, in the order of their first appearance.
    findings: those that the worker stored last, as a JSON object; empty before the first.
    findings_spent: the seconds of budget after which it did.
    """

    figures: tuple[AuditFigure, ...]
    warnings: tuple[str, ...]
    findings: Mapping[str, Any] = field(default_factory=dict)
    findings_spent: float = 0.0
