"""The devices that tests of the engine run on: "cpu", and "gpu", which is a fake one on a machine without a GPU."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from tests.tools.fake_gpu import FakeGpu

DEVICES = ("cpu", "gpu")


@contextmanager
def open_device(name: str) -> Iterator[torch.device]:
    """Make a device of `DEVICES` available and yield it."""
    with open_devices(name, 1) as (device,):
        yield device


@contextmanager
def open_devices(name: str, count: int) -> Iterator[list[torch.device]]:
    """Make `count` devices of a kind in `DEVICES` available and yield them. All devices "cpu" are the same."""
    gpus = [torch.device("cuda", index) for index in range(count)]
    if name == "cpu":
        yield [torch.device("cpu")] * count
    elif torch.cuda.device_count() >= count:
        yield gpus
    elif torch.cuda.is_available():
        pytest.skip(f"this machine has fewer than {count} GPUs")
    else:
        with FakeGpu(count):
            yield gpus


only_on_cpu = pytest.mark.parametrize("device", ["cpu"], indirect=True)
"""For tests of a property that GPUs do not have."""
only_on_gpu = pytest.mark.parametrize("device", ["gpu"], indirect=True)
"""For tests of a property that CPUs do not have."""
slow_on_gpu = pytest.mark.parametrize("device", ["cpu", pytest.param("gpu", marks=pytest.mark.slow)], indirect=True)
"""For tests that take long on the fake GPU."""
