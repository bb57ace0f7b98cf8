import numpy as np
import pytest
import torch

from harness.core.errors import HarnessError
from harness.core.policy import Policy
from harness.engine import decoder
from harness.engine.agreement import compared_range
from tests.unit.engine.architectures import KNOWN
from tests.unit.engine.conftest import load_on


def test_the_engines_own_decoder_is_used(neo):
    assert neo.runner.decoder is not None and neo.runner.shares_prefixes


@pytest.mark.parametrize("fault", [RuntimeError("no kernel image is available"), TypeError("an argument less")])
def test_without_its_kernels_decoding_uses_the_models_code(folders, prefixes, neo, monkeypatch, fault):
    def broken(*arguments, **options):
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
    def scarce(*arguments, **options):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(decoder, "attend", scarce)
    with pytest.raises(HarnessError, match=f"out of memory on {device}"):
        load_on(device, folders["neo"])


def test_one_comparison_serves_lengths_without_a_limit_in_between():
    llama, windows = KNOWN["llama"], KNOWN["mistral"]
    assert compared_range(llama, 10, 20, 0) == compared_range(llama, 12, 27, 0) == (1, 32)
    assert compared_range(llama, 40, 50, 0) == (32, 50), "64 positions are all that the model has"
    assert compared_range(windows, 10, 20, 0) == (10, 32), "the window of 8 tokens ends in between"
