import copy

import pytest
from transformers.models.auto import AutoModelForCausalLM

from harness.bench.speed import Rates, _block_weights, _roofline, _Work, measure
from harness.core.errors import HarnessError
from harness.engine.target import Target
from tests.unit.engine.architectures import KNOWN
from tests.unit.engine.overflow import save_overflowing


@pytest.mark.parametrize("architecture", ["neo", "plain"])
def test_a_benchmark_of_an_overflowing_target_is_an_error(folders, prefixes, tmp_path, architecture):
    folder = save_overflowing(folders[architecture], tmp_path / "model")
    with pytest.raises(HarnessError, match="returned NaN"):
        measure(folder, prefixes, length=6, device="cpu", dtypes=("float32",), threads=1, turns=1)


@pytest.mark.parametrize(
    ("name", "attention", "inner"),
    # In hidden sizes of 32: queries, keys, values and output, then the matrices of the MLP.
    [("gpt2", 4, 2 * 4), ("gpt_neo", 4, 2 * 4), ("llama", 2 + 2 * 0.5, 3 * 1.5)],
)
def test_the_roofline_counts_the_matrices_of_the_blocks(name, attention, inner):
    configuration = KNOWN[name]
    assert (configuration.hidden_size, configuration.num_hidden_layers) == (32, 2)
    model = AutoModelForCausalLM.from_config(configuration)
    assert _block_weights(model) == 2 * (attention + inner) * 32**2


def test_the_roofline_of_attention_depends_on_the_width_of_the_heads():
    wide = copy.deepcopy(KNOWN["llama"])
    wide.head_dim = 2 * KNOWN["llama"].head_dim
    parts = []
    for configuration in (KNOWN["llama"], wide):
        target = Target(AutoModelForCausalLM.from_config(configuration), prefix_length=8, suffix_length=6)
        rates = Rates(matmul=1e9, copy=1e9)
        work = _Work(passes=1, positions=100, logits=10, seen=1000, read=1000)
        parts.append(_roofline(work, 10, rates, target.model, dtype=target.dtype, vocabulary=target.vocabulary))
    assert parts[1].keys_and_values == pytest.approx(2 * parts[0].keys_and_values)
    assert parts[1].head == parts[0].head and parts[1].weights > parts[0].weights
