"""An audit context in memory, without a process or a store, which can be killed and resumed."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from numpy.typing import ArrayLike

from harness.core.audit import Audit, AuditBatch, AuditContext, Inputs, Work
from harness.core.findings import Findings
from harness.core.rows import Rows, concatenate_rows, validate_columns
from harness.core.spec import TargetConfig
from harness.core.text import plain_value
from harness.engine.loading import load_target
from harness.engine.target import Target
from harness.submit.finding_tables import redact_findings

REVEALING = "cut"
"""The stage of the leakage audit that finds the sequences of the others, which have no size before."""


class ReportedCalls:
    """The progress of a target. A call of the engine without a step would leave the ETA standing still."""

    def __init__(self) -> None:
        self.steps = 0

    def record_step(self, share: float, step: str) -> None:
        assert 0 <= share <= 1 and step
        self.steps += 1

    def record_call(self) -> None:
        assert self.steps, "every call of the engine reports its steps"
        self.steps = 0


class Killed(Exception):
    """The process was killed."""


def target_configs(*folders: Path) -> tuple[TargetConfig, ...]:
    """Return the configuration of each model for one thread of a CPU."""
    return tuple(TargetConfig(path=folder, device="cpu", dtype="float32", threads=1) for folder in folders)


class InMemory(AuditContext):
    """An audit that is killed after `batches` batches. `resumed` keeps the rows of the batches that ended."""

    def __init__(
        self,
        audit: Audit[Any],
        inputs: Inputs,
        models: tuple[TargetConfig, ...] = (),
        *,
        api_key: str | None = None,
        seed: int = 0,
        batches: int | None = None,
    ) -> None:
        self.audit = audit
        self.inputs = inputs
        self.seed = seed
        self.warnings: list[str] = []
        self.announced: dict[str, int] = {}
        self._models = models
        self._api_key = api_key
        self._batches = batches
        self._tables = {table.name: table for table in audit.tables}
        self._done: set[str] = set()
        self._done_before: set[str] = set()
        self._rows: list[tuple[str, str, dict[str, Any]]] = []
        self._open: str | None = None
        self._loaded: tuple[int, Target] | None = None

    def run(self) -> Self:
        """Run the audit and return this context."""
        self.audit.run(self)
        return self

    def run_until_killed(self) -> Self:
        """Run the audit, which is killed before its end, and return this context."""
        with pytest.raises(Killed):
            self.run()
        return self

    def resumed(self) -> "InMemory":
        """Return a context for the same audit without the rows of unfinished batches."""
        resumed = InMemory(self.audit, self.inputs, self._models, api_key=self._api_key, seed=self.seed)
        resumed._done, resumed._done_before = set(self._done), set(self._done)
        resumed._rows = [row for row in self._rows if row[1] in self._done]
        return resumed

    def findings(self, *models: str) -> Findings:
        """Return the findings of the rows so far, with the names of the models."""
        return self.audit.findings(self.inputs, self.rows, models)

    def findings_of_shuffled_rows(self, *models: str) -> Findings:
        """Return the findings of the rows in another order."""

        def shuffled(table: str) -> Rows:
            rows = self.rows(table)
            order = np.random.default_rng(1).permutation(len(next(iter(rows.values()))))
            return {
                name: [values[place] for place in order] if isinstance(values, list) else values[order]
                for name, values in rows.items()
            }

        return self.audit.findings(self.inputs, shuffled, models)

    @property
    def models(self) -> tuple[TargetConfig, ...]:
        return self._models

    @property
    def api_key(self) -> str | None:
        return self._api_key

    def target(self, number: int = 0) -> Target:
        if self._loaded is None or self._loaded[0] != number:
            config = self._models[number]
            target = load_target(config.path, device=config.device, dtype=config.dtype, threads=config.threads)
            target.progress = ReportedCalls()
            self._loaded = (number, target)
        return self._loaded[1]

    def announce(self, stage: str, items: int, *, weight: float = 1.0) -> None:
        assert items >= 0 and weight > 0
        first = {key.partition("/")[0] for key in self._done - self._done_before}
        assert stage in self.announced or first <= {REVEALING}, "stages are announced before the first batch"
        self.announced[stage] = items

    def batches(
        self, stage: str, items: int, *, size: int, weight: Work = 1.0, ends: Sequence[int] = (), calls: Work = 1.0
    ) -> Iterator[AuditBatch]:
        # A stage that was not announced would not be part of the progress and the ETA before it.
        assert stage in self.announced or stage == REVEALING
        stop = 0
        while (first := stop) < items:
            stop = min([items, first + size, *(end for end in ends if end > first)])
            key = f"{stage}/0/{first}"
            if key in self._done:
                continue
            if self._batches is not None and len(self._done) >= self._batches:
                raise Killed
            self._open = key
            yield AuditBatch(np.arange(first, stop), self.seed)
            self._open = None
            self._done.add(key)

    def emit(self, table: str, **columns: ArrayLike | list[str]) -> None:
        assert self._open is not None, "rows are emitted in a batch"
        self._rows.append((table, self._open, validate_columns(self._tables[table], columns)))

    def rows(self, table: str) -> Rows:
        return concatenate_rows(self._tables[table], [columns for name, _, columns in self._rows if name == table])

    def warn(self, sentence: str) -> None:
        assert sentence.endswith(".")
        self.warnings.append(sentence)


def plain(value: Any) -> Any:
    """Return findings, or a part of them, as plain data that can be compared."""
    if isinstance(value, Findings):
        return plain(asdict(value))
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    # NaN is not equal to itself.
    return "nan" if isinstance(value, float) and np.isnan(value) else value


def quoted_after_redaction(findings: Findings) -> list[str]:
    """Return the texts of at least three words, of columns and passages, that the redacted findings still quote."""
    cells = {
        cell
        for table in findings.tables
        for name in table.text_columns
        for cell in map(plain_value, table.columns[name])
        if isinstance(cell, str)
    }
    texts = cells | {
        "".join(stretch.text for stretch in stretches)
        for passage in findings.passages
        for _, stretches in passage.texts
    }
    assert texts, "an audit without text needs no redaction"
    redacted = json.dumps(plain(redact_findings(findings)), ensure_ascii=False, default=str)
    return [text for text in texts if len(text.split()) > 2 and json.dumps(text, ensure_ascii=False)[1:-1] in redacted]
