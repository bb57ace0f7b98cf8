"""Telemetry reads the GPU that the run holds, by its UUID."""

import os
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from harness.supervisor.telemetry import Telemetry


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Install a driver with one GPU per UUID, and return the UUIDs that were asked for."""
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


def test_the_gpu_of_the_run_is_sampled(asked: list[str]) -> None:
    sample = Telemetry("GPU-b333").sample([os.getpid()])
    assert asked == ["GPU-b333"]
    assert (sample["gpu"], sample["gpu_memory"], sample["gpu_power"], sample["gpu_temperature"]) == (
        50,
        1 << 30,
        700,
        60,
    )
    assert sample["memory"] > 0


def test_a_run_without_a_gpu_has_no_gpu_readings(asked: list[str]) -> None:
    assert not [name for name in Telemetry("").sample([os.getpid()]) if name.startswith("gpu")]
    assert asked == []
