"""A sampling step stays on the device: it waits once, uploads nothing, and is one graph without breaks."""

from pathlib import Path

import numpy as np
import pytest
import torch

from harness.core.policy import Policy
from harness.engine import kernels
from harness.engine.loading import load_target
from tests.tools.fake_gpu.gpu import FakeGpu
from tests.unit.engine.conftest import configurations, save_model

_POLICY = Policy(top_k=10)
_PREFIXES = np.random.default_rng(5).integers(0, 61, (8, 12))
# Two lengths of which decoding is compared with the model's own code equally often.
_LENGTHS = (6, 10)
_STEPS = _LENGTHS[1] - _LENGTHS[0]
needs_fake = pytest.mark.skipif(torch.cuda.is_available(), reason="a fake GPU counts, and this machine has a real one")


@pytest.mark.slow
@needs_fake
@pytest.mark.parametrize("name", ["neo", "llama"])
@pytest.mark.parametrize(("trials", "waits"), [(6, 1), (1, 0)])
def test_a_step_waits_once_and_uploads_nothing(folders, name, trials, waits):
    with FakeGpu() as gpu:
        target = load_target(folders[name], device="cuda", dtype="bfloat16")
        assert target.runner.decoder is not None
        counts = []
        for length in _LENGTHS:
            gpu.reset()
            target.sample(_PREFIXES, _POLICY, trials=trials, length=length)
            counts.append((gpu.synchronizations, gpu.uploads))
    assert counts[1][0] - counts[0][0] == _STEPS * waits, gpu.report()
    assert counts[1][1] == counts[0][1], gpu.report()


@pytest.mark.slow
@needs_fake
@pytest.mark.parametrize("name", ["neo", "llama"])
def test_a_step_of_a_split_model_waits_once_and_moves_few_tensors(folders, name):
    with FakeGpu(2) as gpu:
        target = load_target(folders[name], shards=["cuda:0", "cuda:1"], dtype="bfloat16")
        assert target.runner.decoder is not None
        counts = []
        for length in _LENGTHS:
            gpu.reset()
            target.sample(_PREFIXES, _POLICY, trials=6, length=length)
            counts.append((gpu.synchronizations, gpu.uploads, gpu.peer_copies))
    waits, uploads, copies = (later - earlier for earlier, later in zip(*counts, strict=True))
    assert waits == _STEPS and uploads == 0, gpu.report()
    # To the second GPU: states, two tensors of angles, three of slots and two of rows that move. Back: states.
    assert copies <= 9 * _STEPS, gpu.report()


def _kernels_of_a_call(layers: int, folder: Path) -> int:
    shape = configurations(61, width=32, heads=4, window=64, spread=0.3)["neo"]
    shape.num_layers, shape.attention_types = layers, [[["global", "local"], layers // 2]]
    shape.attention_layers = ["global", "local"] * (layers // 2)
    with FakeGpu() as gpu:
        target = load_target(save_model(shape, folder, seed=7), device="cuda", dtype="bfloat16")
        # The first call compares decoding with the model's own code.
        target.sample(_PREFIXES, _POLICY, trials=6, length=_LENGTHS[0])
        gpu.reset()
        target.sample(_PREFIXES, _POLICY, trials=6, length=_LENGTHS[0])
        return gpu.kernels


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
