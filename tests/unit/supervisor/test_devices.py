"""GPUs are selected by CUDA_VISIBLE_DEVICES, identified by UUID, and locked by one run at a time."""

from pathlib import Path

import pytest

from harness.runs.queue import device_holder
from harness.supervisor import devices
from harness.supervisor.devices import (
    Device,
    DeviceLock,
    matching_devices,
    visible_indices,
    worker_environment,
    worker_names,
)

UUIDS = ["GPU-aa11", "GPU-ab22", "GPU-b333"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("2,0", [2, 0]),
        ("GPU-b3, GPU-aa", [2, 0]),
        ("1,-1,2", [1]),
        ("0,7,1", [0]),
        ("0,0", [0]),
        ("GPU-a", []),
        ("MIG-123", []),
    ],
)
def test_visible_devices_follow_the_rules_of_cuda(variable: str | None, expected: list[int]) -> None:
    assert visible_indices(variable, UUIDS) == expected


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = [Device("cuda:0", "GPU-b333", "NVIDIA H200"), Device("cuda:1", "GPU-aa11", "NVIDIA H200")]
    monkeypatch.setattr(devices, "visible_gpus", lambda: gpus)


@pytest.mark.usefixtures("two_gpus")
def test_cuda_without_an_index_takes_the_first_free_gpu() -> None:
    gpus = matching_devices("cuda")
    first, second, third = (DeviceLock(f"run{number}") for number in range(3))
    acquired = [first.try_acquire(gpus), second.try_acquire(gpus), third.try_acquire(gpus)]
    assert [None if device is None else device.uuid for device in acquired] == ["GPU-b333", "GPU-aa11", None]
    assert [device_holder(gpu.lock_file.name) for gpu in gpus] == ["run0", "run1"]
    second.release()
    assert device_holder(gpus[1].lock_file.name) is None
    device = third.try_acquire(gpus)
    assert device is not None and device.name == "cuda:1"


@pytest.mark.usefixtures("two_gpus")
def test_the_worker_sees_only_the_gpu_of_its_run() -> None:
    (device,) = matching_devices("cuda:1")
    assert worker_environment([device]) == {"CUDA_VISIBLE_DEVICES": "GPU-aa11"}
    assert worker_names([device]) == ("cuda:0",)


def test_a_gpu_without_nvml_is_locked_by_its_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "visible_gpus", list)
    assert matching_devices("cuda") == [Device("cuda:0")]
    assert matching_devices("cuda:3") == [Device("cuda:3")]
    assert worker_environment(matching_devices("cuda:3")) == {}


def test_the_cpu_is_locked_as_one_device() -> None:
    first, second = DeviceLock("run0"), DeviceLock("run1")
    assert first.try_acquire(matching_devices("cpu")) == Device("cpu")
    assert second.try_acquire(matching_devices("cpu")) is None


@pytest.mark.usefixtures("two_gpus")
def test_a_run_on_several_devices_takes_all_or_none() -> None:
    gpus = [matching_devices(name) for name in ("cuda:1", "cuda:0")]
    first, second, third = (DeviceLock(f"run{number}") for number in range(3))
    assert first.try_acquire(gpus[0]) is not None
    assert second.try_acquire_all(gpus) is None
    assert third.try_acquire(gpus[1]) is not None, "a lock was left behind"
    first.release()
    third.release()
    held = second.try_acquire_all(gpus)
    assert held is not None and [device.name for device in held] == ["cuda:1", "cuda:0"]


def test_the_devices_of_a_split_target_are_numbered_inside_the_worker() -> None:
    gpus = [Device("cuda:3", "GPU-b333"), Device("cuda:1", "GPU-aa11")]
    assert worker_environment(gpus) == {"CUDA_VISIBLE_DEVICES": "GPU-b333,GPU-aa11"}
    assert worker_names(gpus) == ("cuda:0", "cuda:1")
    assert (worker_names([Device("cpu")] * 2), worker_environment([Device("cpu")] * 2)) == (("cpu", "cpu"), {})
