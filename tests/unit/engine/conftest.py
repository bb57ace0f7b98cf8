"""Small random models of three architectures, on disk in Hugging Face layout."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import Gemma2Config, GPT2Config, GPTNeoConfig, PreTrainedConfig
from transformers.models.auto import AutoModelForCausalLM

from harness.engine import Target, load_target, model_runner
from tests.tiers import first_is_fast

VOCABULARY = 61
CONFIGURATIONS: dict[str, PreTrainedConfig] = {
    "neo": GPTNeoConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_layers=2,
        attention_types=[[["global", "local"], 1]],
        num_heads=4,
        window_size=8,
        max_position_embeddings=64,
        initializer_range=0.3,
        bos_token_id=0,
        eos_token_id=0,
    ),
    "gpt2": GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=64,
        initializer_range=0.3,
        bos_token_id=0,
        eos_token_id=0,
    ),
    # Its logits are not a plain product with the output embedding, and half of its layers have a sliding window.
    "gemma2": Gemma2Config(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        sliding_window=8,
        query_pre_attn_scalar=8,
        final_logit_softcapping=4.0,
        max_position_embeddings=64,
        initializer_range=0.3,
    ),
}


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {}
    for name, configuration in CONFIGURATIONS.items():
        torch.manual_seed(7)
        made[name] = tmp_path_factory.mktemp("models") / name
        AutoModelForCausalLM.from_config(configuration).save_pretrained(made[name])
    return made


@pytest.fixture(scope="session")
def targets(folders: dict[str, Path]) -> dict[str, Target]:
    # Two threads would only wait for each other in models this small.
    return {name: load_target(folder, device="cpu", rows_at_once=32, threads=1) for name, folder in folders.items()}


@pytest.fixture(params=first_is_fast(CONFIGURATIONS))
def target(request: pytest.FixtureRequest, targets: dict[str, Target]) -> Target:
    """One target of each architecture, all with 32 rows at once at the start of a test."""
    chosen = targets[request.param]
    chosen.rows_at_once = 32
    return chosen


@pytest.fixture
def neo(targets: dict[str, Target]) -> Target:
    targets["neo"].rows_at_once = 32
    return targets["neo"]


@pytest.fixture(scope="session")
def prefixes() -> np.ndarray:
    """Nine prefixes longer than the models' windows, two of them equal."""
    made = np.random.default_rng(3).integers(0, VOCABULARY, (9, 12)).astype(np.uint16)
    made[7] = made[2]
    return made


@pytest.fixture(scope="session")
def surrogate_folder() -> Path:
    folder = Path(__file__).resolve().parents[4] / "shared" / "data"
    if not (folder / "surrogate-11m").is_dir() or not (folder / "satml" / "train_prefix.npy").exists():
        pytest.skip(f"no surrogate target and no SaTML rows in {folder}")
    return folder


@pytest.fixture
def memory_for(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return a function of a number of rows: from then on, passes with more rows run out of memory."""
    whole_pass = model_runner.forward_pass

    def limited(most: int) -> None:
        def scarce(call, rows, *rest, **inputs):
            if len(rows) > most:
                raise torch.OutOfMemoryError("CUDA out of memory.")
            return whole_pass(call, rows, *rest, **inputs)

        monkeypatch.setattr(model_runner, "forward_pass", scarce)

    return limited
