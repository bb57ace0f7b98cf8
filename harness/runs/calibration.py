"""The calibrations of this machine's devices: one file, and what runs take from it."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from harness.core import paths
from harness.core.calibration import WORKLOAD, BudgetMachine, Calibration, Pace, TimeScale
from harness.core.errors import HarnessError
from harness.core.files import create_folder, write_atomically
from harness.runs.errors import as_harness_error
from harness.runs.reader import RunReader

_FILE = TypeAdapter(tuple[Calibration, ...])


def calibration_file() -> Path:
    """Return the file with one calibration per device."""
    return paths.state_home() / "calibration.json"


def stored_calibrations() -> tuple[Calibration, ...]:
    """Return the calibrations on the current workload. Raises HarnessError if the file cannot be read."""
    file = calibration_file()
    try:
        found = _FILE.validate_json(file.read_bytes())
    except FileNotFoundError:
        return ()
    except (OSError, ValidationError):
        raise HarnessError(f"{file}: cannot be read. Delete it; harness bench --calibrate writes it again.") from None
    return tuple(one for one in found if one.workload == WORKLOAD)


def store_calibration(calibration: Calibration) -> Path:
    """Store a calibration in place of an earlier one of the device, and return the file.

    Raises HarnessError if the file cannot be read or written.
    """
    file = calibration_file()
    others = [one for one in stored_calibrations() if _key(one) != _key(calibration)]
    try:
        create_folder(file.parent)
        write_atomically(file, _FILE.dump_json((*others, calibration), indent=2).decode() + "\n")
    except OSError as error:
        raise HarnessError(f"{file}: cannot be written ({error.strerror}).") from None
    return file


def calibrations_of(devices: Sequence[tuple[str, int | None]]) -> tuple[Calibration, ...]:
    """Return the calibration of each device, given by product name and CPU threads; none if one is not calibrated."""
    known = {_key(one): one for one in stored_calibrations()}
    found = [known.get(device) for device in devices]
    return tuple(one for one in found if one is not None) if None not in found else ()


def time_scale(reader: RunReader, machine: BudgetMachine | None) -> TimeScale:
    """Return the time scale of a run whose budget is in standard seconds of `machine`, or in wall seconds."""
    with as_harness_error(reader.path):
        return TimeScale(machine, tuple(Pace(**detail) for detail in reader.events_named("pace")))


def _key(calibration: Calibration) -> tuple[str, int | None]:
    return calibration.device, calibration.threads
