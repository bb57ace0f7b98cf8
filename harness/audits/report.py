"""Parts of a report that all audits share: shares with their intervals, tables from rows, charts, number formats."""

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from harness.core.arrays import Floats
from harness.core.findings import BarChart, FoundTable
from harness.core.intervals import wilson
from harness.core.text import format_percent, plain_value

NORMAL_975 = NormalDist().inv_cdf(0.975)
Row = Mapping[str, Any]


class Share(NamedTuple):
    """A share in [0, 1] of `of` items and its 95 % interval (Wilson 1927); NaN if `of` is 0."""

    value: float
    low: float
    high: float
    of: int

    def __str__(self) -> str:
        return f"{format_percent(self.value)} [{format_percent(self.low)}, {format_percent(self.high)}] of {self.of:,}"


class Estimate(NamedTuple):
    """A share or a mean and its 95 % interval."""

    value: float
    low: float
    high: float


def difference(one: Estimate, other: Estimate) -> Estimate:
    """Return one - other of independent samples and its interval from both intervals (Zou and Donner 2008)."""
    value = one.value - other.value
    low = value - math.hypot(one.value - one.low, other.high - other.value)
    return Estimate(value, low, value + math.hypot(one.high - one.value, other.value - other.low))


def share_of(number: float, of: int) -> Share:
    """Return `number` as a share of `of`."""
    if of == 0:
        return Share(math.nan, math.nan, math.nan, 0)
    value = number / of
    low, high = wilson(value, of)
    # At 0 and 1 rounding may put the end of the interval beyond the value.
    return Share(value, min(low, value), max(high, value), of)


def finite_mean(values: Any) -> float:
    """Return the mean of the finite values, NaN if there is none."""
    finite = np.asarray(values)[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else math.nan


def normal_interval(values: Floats) -> tuple[float, float, float]:
    """Return the mean of the finite values and its normal 95 % interval; of a single value, the value itself."""
    finite = values[np.isfinite(values)]
    mean = finite_mean(finite)
    half = NORMAL_975 * float(finite.std(ddof=1)) / len(finite) ** 0.5 if len(finite) > 1 else 0.0
    return mean, mean - half, mean + half


def corrected(p: float, tests: int) -> float:
    """Return the smallest of the p-values of `tests` tests, corrected for their number (Bonferroni)."""
    return min(1.0, p * tests)


def likelihood_words(p: float) -> str:
    """Return the answer that a p-value allows: "Probably" below 0.01, "Possibly" below 0.05, else "No evidence"."""
    return "Probably" if p < 0.01 else "Possibly" if p < 0.05 else "No evidence"


def table_of(
    name: str, title: str, rows: Sequence[Row], *, is_detail: bool = False, text_columns: Sequence[str] = ()
) -> FoundTable:
    """Return a table of `rows`, whose keys are the columns; None stands for NaN.

    `text_columns` that the rows lack are ignored.
    """
    columns = {column: [plain_value(row[column]) for row in rows] for column in rows[0]} if rows else {}
    texts = tuple(column for column in text_columns if column in columns)
    return FoundTable(name, title, columns, is_detail=is_detail, text_columns=texts)


def bar_chart(
    name: str,
    title: str,
    y_label: str,
    groups: Mapping[str, Mapping[str, Any]],
    labels: Sequence[str],
    *,
    reference: float | None = None,
    controls: tuple[str, ...] = (),
) -> BarChart:
    """Return a bar chart of `groups`: for each label anything with `value`, `low` and `high`, or nothing."""
    absent = Share(math.nan, math.nan, math.nan, 0)
    bars = [[group.get(label, absent) for label in labels] for group in groups.values()]
    values, low, high = (
        np.array([[getattr(bar, part) for bar in row] for row in bars], float).reshape(len(bars), len(labels))
        for part in ("value", "low", "high")
    )
    return BarChart(name, title, y_label, labels, list(groups), values, low, high, reference, controls)
