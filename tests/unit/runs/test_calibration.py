"""The file with the calibrations of this machine's devices."""

from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.runs.calibration import calibration_file, calibrations_of, store_calibration, stored_calibrations
from tests.calibrated import calibration


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "state"))


def test_a_new_measurement_replaces_the_earlier_one_of_its_device():
    for one in (calibration("cpu", threads=2), calibration("cpu", threads=4), calibration("gpu")):
        store_calibration(one)
    newest = calibration("cpu", threads=2, official=99.0)
    store_calibration(newest)
    assert len(stored_calibrations()) == 3
    assert calibrations_of([("cpu", 2)]) == (newest,)


def test_a_run_is_calibrated_only_if_each_of_its_devices_is():
    store_calibration(calibration("gpu"))
    assert len(calibrations_of([("gpu", None), ("gpu", None)])) == 2
    assert calibrations_of([("gpu", None), ("other", None)]) == ()
    assert calibrations_of([("gpu", 2)]) == ()


def test_a_calibration_on_another_workload_does_not_count():
    store_calibration(calibration("gpu").model_copy(update={"workload": "an earlier one"}))
    assert stored_calibrations() == ()


def test_a_damaged_file_is_an_error_that_says_what_to_do():
    store_calibration(calibration())
    calibration_file().write_text("{")
    with pytest.raises(HarnessError, match="Delete it; harness bench --calibrate"):
        stored_calibrations()
