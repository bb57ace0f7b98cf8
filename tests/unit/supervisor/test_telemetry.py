"""Telemetry reads the GPU of the run by its UUID."""

import os
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from harness.supervisor.telemetry import Telemetry


@pytest.fixture
def requested(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace the driver by one that knows every UUID, and return the list of requested UUIDs."""
    uuids: list[str] = []

    def handle(uuid: str) -> str:
        uuids.append(uuid)
        return uuid

    replaced: dict[str, Any] = {
        "nvmlInit": lambda: None,
        "nvmlDeviceGetHandleByUUID": handle,
        "nvmlDeviceGetUtilizationRates": lambda gpu: SimpleNamespace(gpu=50),
        "nvmlDeviceGetMemoryInfo": lambda gpu: SimpleNamespace(used=1 << 30),
        "nvmlDeviceGetPowerUsage": lambda gpu: 700_000,
        "nvmlDeviceGetTemperature": lambda gpu, sensor: 60,
    }
    for name, function in replaced.items():
        monkeypatch.setattr(pynvml, name, function)
    return uuids


@pytest.mark.parametrize("gpus", [["GPU-b333"], ["GPU-b333", "GPU-aa11"]])
def test_the_gpus_of_the_run_are_sampled_together(requested: list[str], gpus: list[str]) -> None:
    sample = Telemetry(gpus).sample([os.getpid()])
    assert requested == gpus and sample["memory"] > 0
    assert (sample["gpu"], sample["gpu_temperature"]) == (50, 60)
    assert (sample["gpu_memory"], sample["gpu_power"]) == (len(gpus) << 30, 700 * len(gpus))


def test_a_run_without_a_gpu_has_no_gpu_readings(requested: list[str]) -> None:
    assert not [name for name in Telemetry([]).sample([os.getpid()]) if name.startswith("gpu")]
    assert requested == []
