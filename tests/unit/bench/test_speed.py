import pytest

from harness.bench.speed import _block_weights, measure
from harness.core.errors import HarnessError
from harness.engine.loading import load_target
from tests.unit.engine.overflow import save_overflowing


@pytest.mark.parametrize("architecture", ["neo", "plain"])
def test_a_benchmark_of_an_overflowing_target_is_an_error(folders, prefixes, tmp_path, architecture):
    folder = save_overflowing(folders[architecture], tmp_path / "model")
    with pytest.raises(HarnessError, match="returned NaN"):
        measure(folder, prefixes, length=6, device="cpu", dtypes=("float32",), threads=1, turns=1)


@pytest.mark.parametrize("architecture", ["neo", "llama", "plain"])
def test_the_roofline_counts_the_matrices_between_the_embeddings(folders, architecture):
    target = load_target(folders[architecture], device="cpu")
    config = target.model.config
    width, layers = config.hidden_size, config.num_hidden_layers
    inner = config.intermediate_size or 4 * width
    heads, stored = config.num_attention_heads, getattr(config, "num_key_value_heads", config.num_attention_heads)
    matrices = 3 if architecture == "llama" else 2  # of the MLP
    attention = (2 + 2 * stored / heads) * width**2
    assert _block_weights(target.model) == layers * (attention + matrices * width * inner)
