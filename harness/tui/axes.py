"""The axes of a plot: the fraction at which a number lies, and the labelled ticks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from harness.core.arrays import Floats
from harness.core.times import format_duration

_HEADROOM = 0.97
_CLOCK_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800)


class Tick(NamedTuple):
    """A labelled position, as a fraction of the axis."""

    at: float
    label: str


@dataclass(frozen=True)
class Axis:
    """Numbers from `low` to `high`, evenly spaced; the ticks are multiples of 1, 2 or 5 times a power of ten.

    min_step: the minimum distance of two ticks, such as 1 for whole numbers.
    """

    title: str
    low: float
    high: float
    min_step: float = field(default=0.0, kw_only=True)

    def fractions(self, values: Floats) -> Floats:
        """Return where the values are, in [0, 1] for those on the axis."""
        return np.asarray((values - self.low) / (self.high - self.low), np.float64)

    def ticks(self, max_ticks: int) -> list[Tick]:
        """Return at most `max_ticks` ticks, and at least the two ends."""
        step = self._step(max(1, max_ticks - 1))
        places = [step * count for count in range(math.ceil(self.low / step), math.floor(self.high / step + 1e-9) + 1)]
        return self.labelled(places if len(places) > 1 else [self.low, self.high])

    def labelled(self, places: Sequence[float]) -> list[Tick]:
        """Return a tick at each of the numbers."""
        return [
            Tick(at, self._label(place)) for at, place in zip(self.fractions(np.array(places)), places, strict=True)
        ]

    def _step(self, max_steps: int) -> float:
        return max(self.min_step, _round_step(self.high - self.low, max_steps))

    def _label(self, place: float) -> str:
        return f"{place:,.6g}"


class ErrorsAxis(Axis):
    """Numbers of errors on a scale of log10(1 + errors)."""

    def fractions(self, values: Floats) -> Floats:
        return np.asarray(np.log10(1.0 + values) / math.log10(1.0 + self.high), np.float64)

    def ticks(self, max_ticks: int) -> list[Tick]:
        """Return ticks at 0, 1, 10, 100 …, however many there are; a plot leaves out those without room."""
        return self.labelled([0.0, *(10.0**power for power in range(9) if 10**power <= self.high)])

    def _label(self, place: float) -> str:
        return f"{place:,.0f}"


class ClockAxis(Axis):
    """Seconds from zero, with ticks at round times."""

    def _step(self, max_steps: int) -> float:
        return next((float(step) for step in _CLOCK_STEPS if self.high / step <= max_steps), float(_CLOCK_STEPS[-1]))

    def _label(self, place: float) -> str:
        return format_duration(place)


def axis_up_to(title: str, curves: Sequence[Floats], *, min_high: float) -> Axis:
    """Return an axis from 0 to a round number above all curves that is at least `min_high`."""
    highest = max([min_high, *(float(curve[np.isfinite(curve)].max(initial=0.0)) for curve in curves)])
    step = _round_step(highest, 5)
    # A curve on the top edge would look cut off.
    filled = _HEADROOM if highest > min_high else 1.0
    steps = math.ceil(highest / (filled * step) - 1e-9)
    return Axis(title, 0.0, step * (steps + (step * steps < highest)))


def _round_step(distance: float, max_steps: int) -> float:
    """Return the smallest of 1, 2, 5, 10, 20 … that divides `distance` into at most `max_steps` steps."""
    power = 10.0 ** math.floor(math.log10(distance / max_steps))
    return next(factor * power for factor in (1, 2, 5, 10, 20) if distance / (factor * power) <= max_steps + 1e-9)
