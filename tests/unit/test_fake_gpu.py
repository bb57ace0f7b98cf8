"""The fake GPU refuses tensors of the CPU, and counts what a GPU would do."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.tools.fake_gpu.gpu import FakeGpu, Kind


@pytest.fixture
def gpu():
    with FakeGpu() as gpu:
        yield gpu


@pytest.fixture
def table(gpu) -> torch.Tensor:
    """[3, 4] on the fake GPU, uploaded before the counters start."""
    made = torch.arange(12.0).view(3, 4).to("cuda")
    gpu.reset()
    return made


MIXTURES = {
    "addition": lambda table: table + torch.ones(4),
    "addition to the host": lambda table: torch.ones(3, 4).add_(table),
    "a host scalar that is written": lambda table: torch.tensor(1.0).add_(table.sum()),
    "concatenation": lambda table: torch.cat([table, torch.ones(1, 4)]),
    "gather": lambda table: table.gather(1, torch.zeros(3, 1, dtype=torch.int64)),
    "index": lambda table: table[torch.tensor([0, 2])],
    "mask": lambda table: table[torch.tensor([True, False, True])],
    "assignment": lambda table: table.__setitem__(torch.tensor([0, 2]), 1.0),
    "product": lambda table: table @ torch.ones(4, 2),
    "embedding": lambda table: F.embedding(torch.tensor([0]), table),
    "layer": lambda table: torch.nn.Linear(4, 2)(table),
    "where": lambda table: torch.where(table > 0, table, torch.zeros(4)),
    "list of tensors": lambda table: torch.stack([table[0], torch.ones(4)]),
}


@pytest.mark.parametrize("mix", MIXTURES.values(), ids=MIXTURES)
@pytest.mark.parametrize("is_inference", [False, True])
def test_cpu_tensors_are_refused(table, mix, is_inference):
    with torch.inference_mode(is_inference), pytest.raises(RuntimeError, match="two devices, cuda:0 and cpu"):
        mix(table)


SYNCHRONIZING = {
    "item": lambda table: table[0, 0].item(),
    "float": lambda table: float(table[0, 0]),
    "int": lambda table: int(table[0, 0]),
    "bool": lambda table: bool(table[0, 0]),
    "if": lambda table: 1 if (table > 3).any() else 0,
    "tolist": lambda table: table.tolist(),
    "cpu": lambda table: table.cpu(),
    "to": lambda table: table.to("cpu"),
    "to a host tensor": lambda table: torch.empty(3, 4).copy_(table),
    "nonzero": lambda table: table.nonzero(),
    "masked_select": lambda table: table.masked_select(table > 3),
    "boolean index": lambda table: table[table > 3],
    "boolean assignment": lambda table: table.__setitem__(table[:, 0] > 3, torch.ones(2, 4, device="cuda")),
    "unique": lambda table: table.unique(),
    "repeats": lambda table: table.repeat_interleave(torch.tensor([1, 2, 3], device="cuda"), 0),
    "equal": lambda table: torch.equal(table, table),
    "allclose": lambda table: torch.allclose(table, table),
    "scalar index": lambda table: table[torch.zeros((), dtype=torch.int64, device="cuda")],
    "synchronize": lambda table: torch.cuda.synchronize(),
}


@pytest.mark.parametrize("call", SYNCHRONIZING.values(), ids=SYNCHRONIZING)
@pytest.mark.parametrize("is_inference", [False, True])
def test_synchronizations_are_counted(gpu, table, call, is_inference):
    with torch.inference_mode(is_inference):
        call(table.clone())
    assert gpu.synchronizations == 1


@pytest.mark.parametrize("is_inference", [False, True])
def test_kernels_are_counted_and_views_are_not(gpu, table, is_inference):
    with torch.inference_mode(is_inference):
        table[:, 1:].transpose(0, 1).unsqueeze(0).expand(2, -1, -1).reshape(2, 9)[0].split(3)
        assert gpu.kernels == 1  # reshape copies
        torch.empty(5, device="cuda"), table.new_empty(2), torch.empty_like(table), table.size(), table.contiguous()
        assert gpu.kernels == 1
        F.layer_norm(table, (4,)).softmax(1).add_(1).long()
        assert gpu.kernels == 5
        F.linear(table, table, torch.zeros(3, device="cuda"))
    assert gpu.kernels == 7  # and that zeros
    product = "aten.linear.default" if is_inference else "aten.addmm.default"
    assert gpu.operations[Kind.KERNEL][product] == 1


def test_uploads_are_counted_by_the_kind_of_memory(gpu):
    torch.ones(3).to("cuda"), torch.tensor([1, 2], device="cuda"), torch.as_tensor(np.ones(2), device="cuda")
    torch.zeros(3, device="cuda")[[0, 2]]
    assert (gpu.uploads, gpu.synchronizations, gpu.transfers) == (4, 0, 0)
    torch.ones(3).pin_memory().to("cuda", non_blocking=True)
    buffer = torch.empty(4, pin_memory=True)
    torch.zeros(2, device="cuda").copy_(buffer[:2], non_blocking=True)
    assert (gpu.uploads, gpu.transfers) == (4, 2) and buffer.is_pinned() and not torch.ones(1).is_pinned()
