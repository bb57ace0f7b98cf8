"""A sampling step stays on the device: it waits once, uploads nothing, and is one graph without breaks."""

from pathlib import Path

import numpy as np
import pytest
import torch

from harness.core.policy import Policy
from harness.engine import kernels
from harness.engine.loading import load_target
from tests.tools.fake_gpu import FakeGpu
from tests.unit.engine.conftest import configurations, save_model

_POLICY = Policy(top_k=10)
_PREFIXES = np.random.default_rng(5).integers(0, 61, (8, 12))
_LENGTHS = (6, 10)
_STEPS = _LENGTHS[1] - _LENGTHS[0]
needs_fake = pytest.mark.skipif(torch.cuda.is_available(), reason="a fake GPU counts, and this machine has a real one")


@pytest.mark.slow
@needs_fake
@pytest.mark.parametrize("name", ["neo", "llama"])
# To a second GPU go states, two tensors of angles, three of slots and two of rows that move. Back come states.
@pytest.mark.parametrize(("gpus", "trials", "waits", "copies"), [(1, 6, 1, 0), (1, 1, 0, 0), (2, 6, 1, 9)])
def test_a_step_waits_once_and_uploads_nothing(folders, name, gpus, trials, waits, copies):
    with FakeGpu(gpus) as gpu:
        target = load_target(folders[name], shards=[f"cuda:{index}" for index in range(gpus)], dtype="bfloat16")
        assert target.runner.decoder is not None
        counts = []
        for length in (*_LENGTHS, *_LENGTHS):
            # The first calls compare decoding with the model's own code.
            gpu.events.clear()
            target.sample(_PREFIXES, _POLICY, trials=trials, length=length)
            counts.append([gpu.count(kind) for kind in ("wait", "upload", "peer copy")])
    found = [later - earlier for earlier, later in zip(*counts[2:], strict=True)]
    assert found[:2] == [_STEPS * waits, 0] and found[2] <= copies * _STEPS, gpu.events


def _kernels_of_a_call(layers: int, folder: Path) -> int:
    shape = configurations(61, width=32, heads=4, window=64, spread=0.3)["neo"]
    shape.num_layers, shape.attention_types = layers, [[["global", "local"], layers // 2]]
    shape.attention_layers = ["global", "local"] * (layers // 2)
    with FakeGpu() as gpu:
        target = load_target(save_model(shape, folder, seed=7), device="cuda", dtype="bfloat16")
        # The first call compares decoding with the model's own code.
        target.sample(_PREFIXES, _POLICY, trials=6, length=_LENGTHS[0])
        gpu.events.clear()
        target.sample(_PREFIXES, _POLICY, trials=6, length=_LENGTHS[0])
        return gpu.count("kernel")


@pytest.mark.slow
@needs_fake
def test_a_layer_launches_few_kernels_a_step(tmp_path):
    two, four = (_kernels_of_a_call(layers, tmp_path / str(layers)) for layers in (2, 4))
    assert (four - two) / 2 / _LENGTHS[0] <= 20


@pytest.mark.long
def test_the_step_has_no_graph_break_and_compiles_few_times(folders, monkeypatch):
    from torch._dynamo.testing import CompileCounterWithBackend

    # The weights in the order of oneDNN are opaque to the compiler. A GPU has none.
    monkeypatch.setattr(kernels, "_is_packable", lambda weight: False)
    target = load_target(folders["neo"], device="cpu", threads=1)
    # No two sizes are equal, because the compiler takes equal ones for the same.
    prefixes = _PREFIXES[:5]
    wanted = target.sample(prefixes, _POLICY, trials=20, length=7)
    counter = CompileCounterWithBackend("aot_eager")
    assert target.runner.decoder is not None
    step = torch.compile(target.runner.decoder.step, fullgraph=True, dynamic=True, backend=counter)
    monkeypatch.setattr(target.runner.decoder, "step", step)
    found = target.sample(prefixes, _POLICY, trials=20, length=7)
    assert np.array_equal(found.suffixes, wanted.suffixes)
    assert np.allclose(found.token_logprobs, wanted.token_logprobs, atol=1e-5)
    # The first step has sizes of 1, and the last one fills the memory of its rows: both have graphs of their own.
    # The compiler orders sizes by the names of the arguments of `step`, so another name can cost one more graph.
    compiled = counter.frame_count
    assert compiled <= 4
    target.sample(prefixes, _POLICY, trials=20, length=7)
    assert counter.frame_count == compiled
