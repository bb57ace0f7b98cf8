"""The part of an audit that its screen reads."""

import json
from typing import Any

import numpy as np

from harness.core.audit import FIGURES
from harness.runs.audit_reader import AuditFigure, AuditReader, finite_or_none
from harness.runs.folder import RunFolder
from harness.runs.summary import RunSummary
from harness.tui.feed import Feed
from harness.tui.snapshot import AuditSnapshot

_MAX_FIGURES = 200


class AuditFeed(Feed[AuditSnapshot, AuditReader]):
    """The part of one audit that has been read."""

    def __init__(self, folder: RunFolder) -> None:
        """Raises HarnessError if the audit's record cannot be read."""
        super().__init__(folder)
        self.spec = folder.audit_spec()
        self._ledger: list[tuple[float, float]] = []
        self._warnings: tuple[str, ...] = ()
        self._reset()

    def _reset(self) -> None:
        self._last_figure = 0
        self._stored = b""
        self._findings: dict[str, Any] = {}
        self._figures: dict[str, AuditFigure] = {}

    def _open(self) -> AuditReader:
        return AuditReader(self.folder.store)

    def _read_new_rows(self, reader: AuditReader, summary: RunSummary) -> None:
        # The sequence numbers of the ledger are consecutive, so their count is also the last one.
        self._ledger += [(entry.at, entry.spent) for entry in reader.ledger(len(self._ledger))]
        self._read_figures(reader)
        if (stored := reader.findings()) != self._stored:
            self._stored, self._findings = stored, json.loads(stored)
        self._warnings = tuple(reader.warnings())

    def _snapshot(self, **common: Any) -> AuditSnapshot:
        # Times, and the seconds of budget that were spent until each.
        times, spent = zip(*self._ledger, strict=True) if self._ledger else ((0.0,), (0.0,))
        return AuditSnapshot(
            figures=tuple(self._figures.values()),
            warnings=self._warnings,
            findings=self._findings,
            findings_spent=float(np.interp(self._findings.get("at", 0.0), times, spent)),
            **common,
        )

    def _read_figures(self, reader: AuditReader) -> None:
        new = reader.audit_rows(FIGURES, after=self._last_figure)
        if not len(new.seq):
            return
        self._last_figure = int(new.seq[-1])
        rows = zip(
            new.columns["name"],
            *(new.columns[name].tolist() for name in ("value", "low", "high", "of")),
            strict=True,
        )
        for name, value, low, high, of in rows:
            if name in self._figures or len(self._figures) < _MAX_FIGURES:
                bounds = finite_or_none(low), finite_or_none(high)
                self._figures[name] = AuditFigure(name, finite_or_none(value), *bounds, of)
