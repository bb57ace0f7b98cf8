"""The devices that tests of the engine run on: "cpu", and "gpu", which is a fake one on a machine without a GPU."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from tests.fake_gpu import FakeGpu

DEVICES = ("cpu", "gpu")


@contextmanager
def open_device(name: str) -> Iterator[torch.device]:
    """Make a device of `DEVICES` available and yield it."""
    if name == "cpu":
        yield torch.device("cpu")
    elif torch.cuda.is_available():
        yield torch.device("cuda", 0)
    else:
        with FakeGpu():
            yield torch.device("cuda", 0)


only_on_cpu = pytest.mark.parametrize("device", ["cpu"], indirect=True)
"""For tests of a property that GPUs do not have."""
only_on_gpu = pytest.mark.parametrize("device", ["gpu"], indirect=True)
"""For tests of a property that CPUs do not have."""
slow_on_gpu = pytest.mark.parametrize("device", ["cpu", pytest.param("gpu", marks=pytest.mark.slow)], indirect=True)
"""For tests that take long on the fake GPU."""
