"""An audit context in memory, without a process or a store, which can be killed and resumed."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from harness.core.audit import FIGURES, Audit, AuditBatch, AuditContext, AuditInputs
from harness.core.rows import Kind, Rows, Table
from harness.core.spec import TargetConfig
from harness.engine.loading import load_target
from harness.engine.target import Target


class Cut(Exception):
    """The process was killed."""


class InMemory(AuditContext):
    """After `cut_after` batches the audit is killed. Rows of finished batches are kept for `again`."""

    def __init__(
        self,
        audit: Audit[Any],
        inputs: AuditInputs,
        orders: tuple[TargetConfig, ...] = (),
        *,
        secret: str | None = None,
        seed: int = 0,
        cut_after: int | None = None,
    ) -> None:
        self.audit = audit
        self.inputs = inputs
        self.seed = seed
        self.figures: dict[str, float] = {}
        self.warnings: list[str] = []
        self._orders = orders
        self._secret = secret
        self._cut_after = cut_after
        self._tables: dict[str, Table] = {one.name: one for one in (*audit.tables, FIGURES)}
        self._done: set[str] = set()
        self._rows: list[tuple[str, str, dict[str, Any]]] = []
        self._open: str | None = None
        self._loaded: tuple[int, Target] | None = None

    def again(self) -> "InMemory":
        """Return the resumed audit, without rows of unfinished batches."""
        resumed = InMemory(self.audit, self.inputs, self._orders, secret=self._secret, seed=self.seed)
        resumed._done = set(self._done)
        resumed._rows = [row for row in self._rows if row[1] in self._done]
        return resumed

    @property
    def models(self) -> tuple[TargetConfig, ...]:
        return self._orders

    @property
    def api_key(self) -> str | None:
        return self._secret

    def target(self, number: int = 0) -> Target:
        if self._loaded is None or self._loaded[0] != number:
            order = self._orders[number]
            target = load_target(order.path, device=order.device, dtype=order.dtype, threads=order.threads)
            self._loaded = (number, target)
        return self._loaded[1]

    def announce(self, stage: str, items: int, *, weight: float = 1.0) -> None:
        assert items >= 0 and weight > 0

    def batches(self, stage: str, items: int, *, size: int, weight: float = 1.0) -> Iterator[AuditBatch]:
        for first in range(0, items, size):
            key = f"{stage}/0/{first}"
            if key in self._done:
                continue
            if self._cut_after is not None and len(self._done) >= self._cut_after:
                raise Cut
            self._open = key
            yield AuditBatch(np.arange(first, min(first + size, items)), self.seed, stage)
            self._open = None
            self._done.add(key)

    def emit(self, table: str, **columns: ArrayLike | list[str]) -> None:
        declared = self._tables[table]
        assert self._open is not None, "rows are emitted under a batch"
        assert set(columns) == {column.name for column in declared.columns}
        made: dict[str, Any] = {}
        for column in declared.columns:
            values = columns[column.name]
            if column.kind is Kind.TEXT:
                assert isinstance(values, list)
                assert all(isinstance(text, str) for text in values)
                made[column.name] = list(values)
            else:
                dtype = np.int64 if column.kind is Kind.INTEGER else np.float64
                made[column.name] = np.asarray(values, dtype)
                assert made[column.name].ndim == (2 if column.kind is Kind.REALS else 1)
        assert len({len(values) for values in made.values()}) == 1
        self._rows.append((table, self._open, made))

    def rows(self, table: str) -> Rows:
        columns: dict[str, Any] = {}
        for column in self._tables[table].columns:
            parts = [row[column.name] for name, _, row in self._rows if name == table]
            if column.kind is Kind.TEXT:
                columns[column.name] = [text for part in parts for text in part]
            else:
                empty = np.empty((0,) + (() if column.kind is not Kind.REALS else (0,)), np.float64)
                columns[column.name] = np.concatenate(parts) if parts else empty
        return columns

    def figure(self, name: str, value: float, *, low: float = np.nan, high: float = np.nan, of: int = 0) -> None:
        assert np.isnan(low) or low <= value <= high
        self.figures[name] = value

    def warn(self, sentence: str) -> None:
        assert sentence.endswith(".")
        self.warnings.append(sentence)
