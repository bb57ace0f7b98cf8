"""The calibrations of the devices that a run computes on."""

from collections.abc import Sequence

from harness.core.calibration import BudgetMachine, Calibration, official_rate
from harness.core.errors import HarnessError
from harness.core.spec import TargetRecord
from harness.runs.calibration import calibrations_of
from harness.runs.machine import processor, usable_cores
from harness.supervisor.devices import Device, matching_devices


def requested_devices(targets: Sequence[TargetRecord], workers: Sequence[str]) -> list[Device]:
    """Return the distinct devices that a run asks for: those of its workers, else of its model, else the CPU.

    The devices of a split target work one after the other, so the first one stands for all.
    """
    loaded = next((target for target in targets if not target.is_tokenizer_only), None)
    names = workers or (("cpu",) if loaded is None else loaded.shards[:1] or (loaded.device,))
    return [matching_devices(name)[0] for name in dict.fromkeys(names)]


def cpu_threads(targets: Sequence[TargetRecord], workers: Sequence[str]) -> int:
    """Return the CPU threads of all workers of a run together."""
    return targets[0].threads * max(1, len(workers)) if targets else usable_cores()


def device_key(device: Device, threads: int) -> tuple[str, int | None]:
    """Return what calibrations know a device by: its product name, and the threads of a CPU."""
    return (processor(), threads) if device.name == "cpu" else (device.model or device.name, None)


def calibrations_on(devices: Sequence[Device], threads: int) -> tuple[Calibration, ...]:
    """Return the calibration of each device, none if one is not calibrated. `threads` is that of the CPU.

    Raises HarnessError if the stored calibrations cannot be read.
    """
    return calibrations_of([device_key(device, threads) for device in devices])


def planned_calibrations(
    targets: Sequence[TargetRecord], workers: Sequence[str] = (), machine: BudgetMachine | None = None
) -> tuple[Calibration, ...]:
    """Return the calibrations that a run records, those of the devices that it asks for.

    `machine` is that of its budget. Raises HarnessError as `charge_speed` does.
    """
    devices, threads = requested_devices(targets, workers), cpu_threads(targets, workers)
    calibrations = calibrations_on(devices, threads)
    charge_speed(calibrations, machine, devices, threads)
    return calibrations


def charge_speed(
    calibrations: Sequence[Calibration], machine: BudgetMachine | None, devices: Sequence[Device], threads: int
) -> float:
    """Return the seconds that a run is charged per wall second: 1 for a budget in wall seconds.

    Raises HarnessError if the budget is in standard seconds of `machine` and there are no calibrations.
    """
    if machine is None:
        return 1.0
    rate = official_rate(calibrations)
    if rate is None:
        known = [bool(calibrations_on([device], threads)) for device in devices]
        name = devices[known.index(False)].name
        options = f"--device cpu --threads {threads}" if name == "cpu" else f"--device {name}"
        raise HarnessError(
            f"this machine is not calibrated: the budget is in {machine.unit}. Run harness bench --calibrate {options}."
        )
    return rate / machine.official_per_s
