"""The measurement of a device on the fixed workload, and the derived rate of a P100."""

import copy

import pytest
import torch
from transformers import GPTNeoForCausalLM

from harness.bench.calibration import Workload, calibrate, fixed_workload
from harness.bench.derived import derive
from harness.core.calibration import P100, WORKLOAD, WORKLOAD_TOKENS, WORKLOAD_WEIGHTS


@pytest.fixture
def small() -> Workload:
    """A model of the fixed architecture that takes a second."""
    config = copy.deepcopy(fixed_workload().config)
    config.vocab_size, config.hidden_size = 300, 32
    return Workload(config, prefixes=4)


def test_a_calibration_has_a_rate_and_a_spread_of_both_methods(small):
    said = []
    found = calibrate(
        "cpu", product="a processor", threads=1, versions={"a": "1"}, turns=3, workload=small, on_progress=said.append
    )
    assert (found.device, found.threads, found.turns, found.workload) == ("a processor", 1, 3, WORKLOAD)
    assert 0 < found.official_lowest <= found.official_per_s <= found.official_highest
    assert 0 < found.engine_lowest <= found.engine_per_s <= found.engine_highest
    assert found.spread >= 0 and said[-1] == "turn 3 of 3 …"


def test_the_workload_is_the_same_on_every_machine(small):
    torch.manual_seed(1)
    first = small.model().state_dict()
    torch.manual_seed(2)
    assert all(torch.equal(first[name], weights) for name, weights in small.model().state_dict().items())
    assert (small.tokens() == small.tokens()).all()


def test_the_fixed_workload_is_what_its_name_says():
    config, workload = fixed_workload().config, fixed_workload()
    assert f"{config.hidden_size}x{config.num_layers}" in WORKLOAD and f"{workload.prefixes} prefixes" in WORKLOAD
    assert config.vocab_size == 50257 and workload.tokens().shape[1] == WORKLOAD_TOKENS
    with torch.device("meta"):
        assert GPTNeoForCausalLM(config).num_parameters() == WORKLOAD_WEIGHTS


def test_the_shipped_rate_of_a_p100_is_the_derived_one():
    assert P100.official_per_s == pytest.approx(derive().official_per_s, rel=1e-3)
    assert not P100.is_measured
    for hours, rate in ((2, 99), (5, 40)):
        assert f"{rate}" in P100.source and derive(hours).official_per_s == pytest.approx(rate, abs=0.5)
