"""The measured values of an audit: each measure is declared once, and one table holds all of its values.

An audit declares a `Measure` for every quantity and returns a `MeasureRow` for every value. JSON, tables, charts, key
figures and live figures are projections of these rows (`harness.audits.report`).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

from harness.core.text import (
    NO_VALUE,
    format_bound,
    format_number,
    format_p_value,
    format_percent,
    format_score,
    json_value,
)


class Estimate(NamedTuple):
    """A measured value with its 95 % interval."""

    value: float
    low: float = math.nan
    """The lower end of the interval, NaN without an interval."""
    high: float = math.nan
    """The upper end of the interval, NaN without an interval."""
    of: int = 0
    """The number of items behind the value, 0 if it is not counted."""


NO_ESTIMATE = Estimate(math.nan)
"""The estimate of a value that was not measured."""


class Unit(Enum):
    """The format of a value for people."""

    SHARE = "share"
    """A number in [0, 1] with three decimals, as in a column of scores."""
    PERCENT = "percent"
    """A number in [0, 1] as a percentage."""
    CHANGE = "change"
    """A difference of two shares, with its sign."""
    BOUND = "bound"
    """A round share, such as a threshold, as a short percentage."""
    NUMBER = "number"
    """A number with three significant digits. A whole number keeps all its digits."""
    P_VALUE = "p-value"

    def format(self, value: float) -> str:
        """Return `value` as text, a dash for NaN."""
        return NO_VALUE if math.isnan(value) else _FORMATS[self](value)

    def format_interval(self, estimate: Estimate) -> str:
        """Return the ends of the interval, such as `[0.338, 0.400]`; empty without an interval."""
        if math.isnan(estimate.low):
            return ""
        return f"[{self.format(estimate.low)}, {self.format(estimate.high)}]"

    def format_estimate(self, estimate: Estimate) -> str:
        """Return the value and its interval, such as `0.369 [0.338, 0.400]`, a dash for NaN."""
        return f"{self.format(estimate.value)} {self.format_interval(estimate)}".rstrip()


_FORMATS: dict[Unit, Callable[[float], str]] = {
    Unit.SHARE: format_score,
    Unit.PERCENT: format_percent,
    Unit.CHANGE: partial(format_score, is_signed=True),
    Unit.BOUND: format_bound,
    Unit.NUMBER: format_number,
    Unit.P_VALUE: format_p_value,
}


@dataclass(frozen=True)
class Measure:
    """A quantity that an audit measures, declared once."""

    name: str
    """Its name in JSON, such as `tpr_at_fpr`."""
    title: str
    """Its name in tables, charts and figures, such as `TPR`. `{at}` stands for the value of its parameter."""
    meaning: str
    """Its definition, for pages of audits and the reference."""
    unit: Unit = Unit.SHARE
    at: str = "{}"
    """The text of its parameter, such as `p ≥ {}`, if it has one."""
    at_unit: Unit = Unit.NUMBER
    at_name: str = ""
    """The meaning of its parameter for the reference page, empty if it has none."""

    def at_text(self, at: float) -> str:
        """Return its parameter as text, such as `p ≥ 0.1 %`."""
        return self.at.format(self.at_unit.format(at))

    def label(self, at: float | None = None) -> str:
        """Return its title with its parameter, such as `coverage at p ≥ 0.1 %`, or with X in its place."""
        if at is None:
            return self.title.format(at="X")
        if "{at}" in self.title:
            return self.title.format(at=self.at_text(at))
        return f"{self.title} at {self.at_text(at)}"


class MeasureRow(NamedTuple):
    """One measured value. Fields that do not apply to its measure are empty."""

    measure: Measure
    estimate: Estimate
    model: str = ""
    """The name of the target."""
    side: str = ""
    """The measured part: the corpus, the control, one text, one half of the names."""
    case: str = ""
    """The variant of the measure: a score, a decoding scheme, a threshold of similarity, a prompt."""
    at: float | None = None
    """The parameter of the measure."""

    @property
    def name(self) -> str:
        """The measure with everything that identifies the row."""
        return ", ".join(filter(None, (self.measure.label(self.at), self.case, self.side, self.model)))

    @property
    def text(self) -> str:
        """The value with its interval, for people."""
        return self.measure.unit.format_estimate(self.estimate)

    def as_dict(self) -> dict[str, Any]:
        """Return the row as the cells of a table: numbers, text, or None for what is empty or NaN."""
        value, low, high, of = self.estimate
        return {
            "model": self.model or None,
            "side": self.side or None,
            "case": self.case or None,
            "measure": self.measure.name,
            "at": self.at,
            "value": value,
            "low": low,
            "high": high,
            "of": of or None,
        }


Selected = Measure | tuple[Measure, float]
"""A measure with all of its parameters, or with one of them."""


@dataclass(frozen=True)
class MeasureTable:
    """All measured values of an audit, in the order in which they are reported."""

    rows: Sequence[MeasureRow] = ()

    def __iter__(self) -> Iterator[MeasureRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def select(
        self, *selected: Selected, model: str | None = None, side: str | None = None, case: str | None = None
    ) -> list[MeasureRow]:
        """Return the rows of some measures, in their order. None selects all models, sides or cases."""
        rows = [
            row
            for row in self.rows
            if model in (None, row.model) and side in (None, row.side) and case in (None, row.case)
        ]
        parts = [part if isinstance(part, tuple) else (part, None) for part in selected]
        return [row for measure, at in parts for row in rows if row.measure == measure and (at is None or row.at == at)]

    def get(
        self,
        measure: Measure | str,
        *,
        model: str | None = None,
        side: str | None = None,
        case: str | None = None,
        at: float | None = None,
    ) -> Estimate:
        """Return the estimate of the first row of a measure, NaN without one.

        measure: itself, or its name. None selects any model, side, case or parameter.
        """
        for row in self.rows:
            parts = ((model, row.model), (side, row.side), (case, row.case), (at, row.at))
            if measure in (row.measure, row.measure.name) and all(part in (None, value) for part, value in parts):
                return row.estimate
        return NO_ESTIMATE

    def as_json(self) -> list[dict[str, Any]]:
        """Return the rows as JSON objects.

        Keys:
            model (string?): Name of the target.
            side (string?): Measured part, such as the corpus or the control.
            case (string?): Variant of the measure, such as a score or a decoding scheme.
            measure (string): Name of the measure.
            at (number?): Value of the measure's parameter.
            value (number?): Measured value.
            low (number?): Lower end of the 95 % interval.
            high (number?): Upper end of the 95 % interval.
            of (number?): Number of items from which the value was computed.
        """
        return [json_value(row.as_dict()) for row in self.rows]
