"""The fake GPU refuses tensors of the CPU, and counts what a GPU would do."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.tools.fake_gpu import FakeGpu


@pytest.fixture
def gpu():
    with FakeGpu() as gpu:
        yield gpu


@pytest.fixture
def table(gpu) -> torch.Tensor:
    """[3, 4] on the fake GPU, uploaded before the counters start."""
    made = torch.arange(12.0).view(3, 4).to("cuda")
    gpu.events.clear()
    return made


MIXTURES = {
    "addition": lambda table: table + torch.ones(4),
    "a host scalar that is written": lambda table: torch.tensor(1.0).add_(table.sum()),
    "index": lambda table: table[torch.tensor([0, 2])],
    "assignment": lambda table: table.__setitem__(torch.tensor([0, 2]), 1.0),
    "layer": lambda table: torch.nn.Linear(4, 2)(table),
    "list of tensors": lambda table: torch.stack([table[0], torch.ones(4)]),
}


@pytest.mark.parametrize("mix", MIXTURES.values(), ids=MIXTURES)
@pytest.mark.parametrize("is_inference", [False, True])
def test_cpu_tensors_are_refused(table, mix, is_inference):
    with torch.inference_mode(is_inference), pytest.raises(RuntimeError, match="two devices, cuda:0 and cpu"):
        mix(table)


WAITS = {
    "float": lambda table: float(table[0, 0]),
    "if": lambda table: 1 if (table > 3).any() else 0,
    "tolist": lambda table: table.tolist(),
    "cpu": lambda table: table.cpu(),
    "to a host tensor": lambda table: torch.empty(3, 4).copy_(table),
    "nonzero": lambda table: table.nonzero(),
    "boolean index": lambda table: table[table > 3],
    "boolean assignment": lambda table: table.__setitem__(table[:, 0] > 3, torch.ones(2, 4, device="cuda")),
    "unique": lambda table: table.unique(),
    "repeats": lambda table: table.repeat_interleave(torch.tensor([1, 2, 3], device="cuda"), 0),
    "equal": lambda table: torch.equal(table, table),
    "scalar index": lambda table: table[torch.zeros((), dtype=torch.int64, device="cuda")],
}


@pytest.mark.parametrize("call", WAITS.values(), ids=WAITS)
@pytest.mark.parametrize("is_inference", [False, True])
def test_waits_are_counted(gpu, table, call, is_inference):
    with torch.inference_mode(is_inference):
        call(table.clone())
    assert gpu.count("wait") == 1, gpu.events


@pytest.mark.parametrize("is_inference", [False, True])
def test_kernels_are_counted_and_views_are_not(gpu, table, is_inference):
    with torch.inference_mode(is_inference):
        table[:, 1:].transpose(0, 1).unsqueeze(0).expand(2, -1, -1).reshape(2, 9)[0].split(3)
        torch.empty(5, device="cuda"), table.new_empty(2), torch.empty_like(table), table.size(), table.contiguous()
        assert gpu.count("kernel") == 1  # reshape copies
        F.layer_norm(table, (4,)).softmax(1).add_(1).long()
    assert gpu.count("kernel") == 5


def test_uploads_are_counted(gpu):
    torch.ones(3).to("cuda"), torch.tensor([1, 2], device="cuda"), torch.as_tensor(np.ones(2), device="cuda")
    torch.zeros(3, device="cuda")[[0, 2]]
    assert (gpu.count("upload"), gpu.count("wait")) == (4, 0)
