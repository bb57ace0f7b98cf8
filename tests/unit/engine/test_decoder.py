import numpy as np
import pytest
import torch

from harness.core.errors import HarnessError
from harness.core.policy import Policy
from harness.engine import decoder
from tests.unit.engine.conftest import load_on


def test_the_engines_own_decoder_is_used(neo):
    assert neo.runner.decoder is not None and neo.runner.shares_prefixes


@pytest.mark.parametrize("fault", [RuntimeError("no kernel image is available"), TypeError("an argument less")])
def test_without_its_kernels_decoding_uses_the_models_code(folders, prefixes, neo, monkeypatch, fault):
    def broken(*arguments):
        raise fault

    monkeypatch.setattr(decoder, "attend", broken)
    with pytest.warns(UserWarning, match="own decoder is not used for this GPTNeoForCausalLM"):
        general = load_on(neo.device, folders["neo"])
    assert general.runner.decoder is None
    monkeypatch.undo()
    drawn, wanted = (target.sample(prefixes, Policy(top_k=10), trials=6, seed=2, length=8) for target in (general, neo))
    assert (drawn.suffixes == wanted.suffixes).all() and np.allclose(
        drawn.token_logprobs, wanted.token_logprobs, atol=1e-5
    )


def test_out_of_memory_during_the_probe_is_an_error(device, folders, monkeypatch):
    def scarce(*arguments):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(decoder, "attend", scarce)
    with pytest.raises(HarnessError, match=f"out of memory on {device}"):
        load_on(device, folders["neo"])
