"""The speed at which a run is charged, from the calibrations of the devices that it holds."""

from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.runs.calibration import store_calibration
from harness.runs.machine import processor, usable_cores
from harness.supervisor.calibrations import calibrations_on, charge_speed, cpu_threads, requested_devices
from harness.supervisor.devices import Device
from tests.calibrated import calibration, machine

CARDS = [Device(f"cuda:{number}", f"uuid-{number}", "a GPU") for number in range(4)]
CPU = Device("cpu")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "state"))


@pytest.mark.parametrize("count", [1, 2, 4])
def test_several_gpus_are_charged_the_sum_of_their_rates(count: int) -> None:
    store_calibration(calibration("a GPU", official=30.0))
    found = calibrations_on(CARDS[:count], threads=8)
    assert charge_speed(found, machine(10.0), CARDS[:count], 8) == 3.0 * count


def test_workers_on_the_cpu_are_one_device_with_all_of_their_threads() -> None:
    assert [device.name for device in requested_devices([], ("cpu", "cpu"))] == ["cpu"]
    assert cpu_threads([], ("cpu", "cpu")) == usable_cores()
    store_calibration(calibration(processor(), official=5.0, threads=6))
    assert charge_speed(calibrations_on([CPU], 6), machine(10.0), [CPU], 6) == 0.5
    assert calibrations_on([CPU], 4) == ()


def test_a_budget_in_wall_clock_needs_no_calibration() -> None:
    assert charge_speed((), None, [CPU], 2) == 1.0


@pytest.mark.parametrize(
    ("devices", "options"),
    [([CPU], "--device cpu --threads 2."), ([CARDS[0], Device("cuda:1", "uuid", "another")], "--device cuda:1.")],
)
def test_the_error_names_the_command_for_the_device_that_is_not_calibrated(devices: list[Device], options: str) -> None:
    store_calibration(calibration("a GPU"))
    with pytest.raises(HarnessError, match=f"harness bench --calibrate {options}"):
        charge_speed(calibrations_on(devices, 2), machine(1.0), devices, 2)
