"""A GPT-Neo equals the GPT-2 that it is converted to, up to the window of its local layers."""

import numpy as np
import pytest
import torch
from transformers import GPTNeoConfig, GPTNeoForCausalLM

from tests.bench.ctranslate2_peer import as_gpt2, largest_difference

WINDOW = 8


@pytest.fixture(scope="module")
def neo() -> GPTNeoForCausalLM:
    config = GPTNeoConfig(
        vocab_size=61,
        hidden_size=32,
        num_layers=2,
        attention_types=[[["global", "local"], 1]],
        num_heads=4,
        window_size=WINDOW,
        max_position_embeddings=64,
    )
    torch.manual_seed(7)
    model = GPTNeoForCausalLM(config).train(False)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


@pytest.mark.parametrize(("length", "is_equal"), [(WINDOW, True), (WINDOW + 4, False)])
def test_the_converted_model_is_equal_within_the_window(neo: GPTNeoForCausalLM, length: int, is_equal: bool) -> None:
    gpt2 = as_gpt2(neo, WINDOW + 4)
    tokens = np.random.default_rng(1).integers(0, 61, (5, length)).astype(np.uint16)
    assert (largest_difference(neo, gpt2, tokens) < 1e-4) == is_equal
