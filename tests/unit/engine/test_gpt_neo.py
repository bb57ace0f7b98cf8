import numpy as np
import pytest
import torch

from harness.core.errors import HarnessError
from harness.core.policy import Policy
from harness.engine import gpt_neo, load_target


def test_the_engines_own_gpt_neo_stands_in_for_the_models_code(neo):
    assert neo.runner.neo is not None and neo.runner.copies == 1


@pytest.mark.parametrize("fault", [RuntimeError("no kernel image is available"), TypeError("an argument less")])
def test_where_its_kernels_do_not_run_decoding_takes_the_models_own_way(folders, prefixes, neo, monkeypatch, fault):
    def broken(*arguments):
        raise fault

    monkeypatch.setattr(gpt_neo, "attended", broken)
    with pytest.warns(UserWarning, match="own GPT-Neo is not used"):
        general = load_target(folders["neo"], device="cpu", rows_at_once=32, threads=1)
    assert general.runner.neo is None
    monkeypatch.undo()
    drawn, wanted = (target.sample(prefixes, Policy(top_k=10), trials=6, seed=2, length=8) for target in (general, neo))
    assert (drawn.suffixes == wanted.suffixes).all() and np.allclose(
        drawn.token_logprobs, wanted.token_logprobs, atol=1e-5
    )


def test_memory_that_runs_out_while_it_is_tried_is_no_reason_against_it(folders, monkeypatch):
    def scarce(*arguments):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(gpt_neo, "attended", scarce)
    with pytest.raises(HarnessError, match="memory of cpu does not suffice"):
        load_target(folders["neo"], device="cpu")
