"""The speed of machines at one fixed workload, and time that is comparable between machines.

A *standard second* of a machine is the work that this machine does in a second: wall seconds times the rate of the own
machine, divided by the rate of the named one. Rates are suffixes per second of the official arithmetic
(`harness.bench.official`) on the fixed workload, in float32.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.core import paths
from harness.core.errors import HarnessError, unknown_name
from harness.core.times import format_duration, utc_date

WORKLOAD = "GPT-Neo 1024x4, float32, 32 prefixes of 50, suffixes of 50"
"""The name of the fixed workload. Rates of different workloads cannot be compared."""
WORKLOAD_WEIGHTS = 101_940_224
"""The weights of its model."""
WORKLOAD_TOKENS = 50
"""The tokens of each of its suffixes."""
_MAX_BYTES = 1 << 20
_Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class BudgetMachine(_Frozen):
    """A machine that budgets are named after.

    official_per_s: suffixes per second of the official arithmetic on the fixed workload. is_measured: False if the rate
    was derived. source: where the rate comes from, in a sentence.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    official_per_s: _Rate
    is_measured: bool
    source: str = Field(max_length=500)

    @property
    def unit(self) -> str:
        """The unit of a budget: `standard seconds of p100 (derived)`."""
        return f"standard seconds of {self.title}"

    @property
    def title(self) -> str:
        """The name, with a note if the rate was not measured."""
        return self.name if self.is_measured else f"{self.name} (derived)"


P100 = BudgetMachine(
    name="p100",
    official_per_s=66.1,
    is_measured=False,
    source=(
        "derived, not measured: the published peaks of a Tesla P100 (9.3 TFLOP/s in float32, 732 GB/s), at the "
        "efficiency with which the challenge's baseline runs for 3 of its published 'few hours'; 2 and 5 hours give "
        "99 and 40 suffixes per second. python -m harness.bench.derived prints the steps."
    ),
)
SHIPPED_MACHINES = {machine.name: machine for machine in (P100,)}


class Calibration(_Frozen):
    """A measurement of one device on the fixed workload.

    device: the product name of the GPU or the processor. threads: the threads of a CPU, None for a GPU. measured_at: in
    seconds since the epoch. The rates are in suffixes per second: the median over `turns`, with lowest and highest.
    """

    device: str
    threads: int | None
    workload: str
    measured_at: float
    turns: int
    official_per_s: _Rate
    official_lowest: _Rate
    official_highest: _Rate
    engine_per_s: _Rate
    engine_lowest: _Rate
    engine_highest: _Rate
    versions: dict[str, str]

    @property
    def title(self) -> str:
        """The device, with the threads of a CPU."""
        return self.device if self.threads is None else f"{self.device}, {self.threads} threads"

    @property
    def spread(self) -> float:
        """The distance of the highest from the lowest official rate, as a fraction of the median."""
        return (self.official_highest - self.official_lowest) / self.official_per_s

    def relative_to(self, machine: BudgetMachine) -> float:
        """Return how many of `machine` this device is worth: standard seconds per wall second."""
        return self.official_per_s / machine.official_per_s


def official_rate(calibrations: Sequence[Calibration]) -> float | None:
    """Return the rate of all devices of a run together, None if they are not calibrated."""
    return sum(one.official_per_s for one in calibrations) or None


def engine_seconds(calibrations: Sequence[Calibration], *, suffixes: int, tokens: int, weights: int) -> float | None:
    """Return about how long the engine decodes `suffixes` of `tokens` each with a model of so many weights.

    The time for a token is taken as proportional to the weights. None if the devices are not calibrated.
    """
    rate = sum(one.engine_per_s for one in calibrations)
    if not rate:
        return None
    return suffixes / rate * (tokens / WORKLOAD_TOKENS) * (weights / WORKLOAD_WEIGHTS)


def machine_named(name: str, folder: Path) -> BudgetMachine:
    """Return a shipped machine, or the one in a JSON file, which `harness bench --calibrate --json` has printed.

    A relative path is looked up in `folder`. Raises HarnessError if the machine is unknown or the file is not valid.
    """
    if not (name.endswith(".json") or "/" in name):
        if name not in SHIPPED_MACHINES:
            raise unknown_name("budget machine", name, SHIPPED_MACHINES, see="harness bench --calibrate --json")
        return SHIPPED_MACHINES[name]
    path = folder / paths.expand_home(name)
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise HarnessError(f"{path}: larger than {_MAX_BYTES:,} bytes, so not a calibration.")
        known = json.loads(path.read_bytes())
        fields = {field: known[field] for field in Calibration.model_fields}
        found = Calibration.model_validate(fields)
        source = f"measured on {found.title}, {utc_date(found.measured_at)}."
        machine = BudgetMachine(
            name=path.stem, official_per_s=found.official_per_s, is_measured=True, source=source[:500]
        )
    except FileNotFoundError:
        raise HarnessError(f"{path}: no such file. Expected the output of harness bench --calibrate --json.") from None
    except (OSError, ValueError, TypeError, KeyError, ValidationError, RecursionError):
        raise HarnessError(
            f"{path}: not a calibration. Expected the output of harness bench --calibrate --json."
        ) from None
    if found.workload != WORKLOAD:
        raise HarnessError(f"{path}: measured on another workload ({found.workload}). Calibrate the machine again.")
    return machine


class Pace(NamedTuple):
    """The speed of one execution of a run, which begins after `spent` seconds of the budget.

    speed: seconds charged per wall second. official_per_s: the rate of its devices, None if they are not calibrated.
    """

    spent: float
    speed: float
    official_per_s: float | None


class TimeScale(NamedTuple):
    """Converts the spent budget of a run into wall seconds and into standard seconds of any machine.

    machine: the machine of the budget, None if the budget is in wall seconds. paces: one per execution, ascending;
    empty for a run that has not begun.
    """

    machine: BudgetMachine | None
    paces: tuple[Pace, ...]

    @property
    def speed(self) -> float:
        """The seconds that the last execution is charged per wall second."""
        return self.paces[-1].speed if self.paces else 1.0

    def wall(self, spent: float) -> float:
        """Return the wall seconds in which `spent` seconds of the budget were spent."""
        if self.machine is None or not self.paces:
            return spent
        return sum(seconds / pace.speed for seconds, pace in self._parts(spent))

    def standard(self, spent: float, machine: BudgetMachine) -> float | None:
        """Return the standard seconds of `machine` for `spent` seconds of the budget; None if not calibrated."""
        if self.machine is not None:
            return spent * (self.machine.official_per_s / machine.official_per_s)
        if not self.paces or any(pace.official_per_s is None for pace in self.paces):
            return None
        work = sum(seconds * (pace.official_per_s or 0.0) for seconds, pace in self._parts(spent))
        return work / machine.official_per_s

    def _parts(self, spent: float) -> list[tuple[float, Pace]]:
        """Return the seconds of the budget that each execution spent until `spent`."""
        ends = [*(pace.spent for pace in self.paces[1:]), float("inf")]
        return [(max(0.0, min(spent, end) - pace.spent), pace) for pace, end in zip(self.paces, ends, strict=True)]


def budget_text(spent: float, budget: float, machine: BudgetMachine | None) -> str:
    """Return spent and whole budget, with the unit unless it is wall clock: `0:07 of 0:10`."""
    unit = "" if machine is None else f" in {machine.unit}"
    return f"{format_duration(spent)} of {format_duration(budget)}{unit}"


def duration_in(seconds: float, machine: BudgetMachine | None) -> str:
    """Return a duration, with its unit unless it is wall clock."""
    return format_duration(seconds) + ("" if machine is None else f" in {machine.unit}")
