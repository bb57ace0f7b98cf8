"""Small random models, on disk in Hugging Face layout, as targets on each device.

`pytest tests/unit/engine -k gpu` selects the tests on a GPU, which is a fake one on a machine that has none.
"""

import functools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.processors import TemplateProcessing
from transformers import Cohere2Config, GPT2Config, GPTNeoConfig, LlamaConfig
from transformers.models.auto import AutoModelForCausalLM

from harness.engine import model_runner
from harness.engine.loading import load_target
from harness.engine.target import Target
from tests.tools.data import DATA, SATML, SURROGATE, require_data
from tests.tools.devices import DEVICES, open_device
from tests.tools.tiers import first_is_fast

OUT_OF_MEMORY = torch.OutOfMemoryError("CUDA out of memory.")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests on the fake GPU, which is far slower than a CPU, as slow or long.

    Of the tests that also run on the CPU, the first of each file is slow and the others are long. Of each test that
    needs a GPU, the first input is slow.
    """
    if torch.cuda.is_available():
        return
    tests = [
        (item, item.callspec.params.get("device"))
        for item in items
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
    ]
    on_cpu = {item.function for item, device in tests if device == "cpu"}
    seen: set[Any] = set()
    for item, device in tests:
        if device == "gpu":
            kind = item.path if item.function in on_cpu else item.function
            item.add_marker(pytest.mark.long if kind in seen else pytest.mark.slow)
            seen.add(kind)


def configurations(vocabulary: int, *, width: int, heads: int, window: int, spread: float) -> dict[str, Any]:
    """Return small models with large random weights.

    The engine decodes the first two itself, and the others with the models' own code.
    """
    common = {"vocab_size": vocabulary, "initializer_range": spread, "bos_token_id": 0, "eos_token_id": 0}
    shape = {
        "hidden_size": width,
        "intermediate_size": 2 * width,
        "num_hidden_layers": 2,
        "num_attention_heads": heads,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
    }
    neo = {
        **common,
        "hidden_size": width,
        "num_layers": 2,
        "attention_types": [[["global", "local"], 1]],
        "num_heads": heads,
        "window_size": window,
        "max_position_embeddings": 64,
    }
    return {
        "neo": GPTNeoConfig(**neo),
        "llama": LlamaConfig(**common, **shape),
        # The engine's decoder does not know this activation.
        "plain": GPTNeoConfig(**neo, activation_function="tanh"),
        # Its logits are not a plain product with the output embedding, and half of its layers have a sliding window.
        "cohere2": Cohere2Config(
            **common,
            **shape,
            sliding_window=window,
            logit_scale=0.5,
        ),
    }


VOCABULARY = 61
CONFIGURATIONS = configurations(VOCABULARY, width=32, heads=4, window=8, spread=0.3)


def save_model(configuration: Any, folder: Path, seed: int) -> Path:
    """Save a model with random weights and return its folder."""
    torch.manual_seed(seed)
    AutoModelForCausalLM.from_config(configuration).save_pretrained(folder)
    return folder


def with_first_token(folder: Path, copy: Path, template: str = "[B] $A", token: int = 5, **padding: Any) -> Path:
    """Copy a model's folder, add a tokenizer that puts `token` before every text, and return the copy.

    padding: the arguments of `enable_padding`, which changes nothing for one text.
    """
    shutil.copytree(folder, copy)
    tokenizer = Tokenizer(WordLevel({"a": 1, "[B]": 5, "[E]": 6}, unk_token="a"))
    tokenizer.post_processor = TemplateProcessing(single=template, special_tokens=[("[B]", token), ("[E]", 6)])
    if padding:
        tokenizer.enable_padding(**padding)
    tokenizer.save(str(copy / "tokenizer.json"))
    return copy


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {name: save_model(each, root / name, seed=7) for name, each in CONFIGURATIONS.items()}


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> Iterator[torch.device]:
    """The device of a test, which exists for as long as the test runs."""
    with open_device(request.param) as device:
        yield device


def load_on(device: torch.device, folder: Path) -> Target:
    """Load a target in float32 with 32 rows at once."""
    # Two threads would only wait for each other in models this small.
    return load_target(folder, device=str(device), dtype="float32", rows_at_once=32, threads=1)


@pytest.fixture(scope="session")
def targets_on(folders: dict[str, Path]) -> Callable[[torch.device], dict[str, Target]]:
    """Return a function that loads the targets of a device once in a session."""
    return functools.cache(lambda device: {name: load_on(device, folder) for name, folder in folders.items()})


@pytest.fixture
def targets(device: torch.device, targets_on: Callable[[torch.device], dict[str, Target]]) -> dict[str, Target]:
    return targets_on(device)


@pytest.fixture(params=first_is_fast(CONFIGURATIONS, rest=pytest.mark.slow))
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
    require_data(SURROGATE, SATML)
    return DATA


@pytest.fixture
def fail_passes(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that makes the passes raise an error, out of memory by default, if a condition holds."""
    forward_pass = model_runner.forward_pass

    def fail_if(condition: Callable[[torch.Tensor], bool], error: Exception = OUT_OF_MEMORY) -> None:
        def failing(call, rows, *rest, **inputs):
            if condition(rows):
                raise error
            return forward_pass(call, rows, *rest, **inputs)

        monkeypatch.setattr(model_runner, "forward_pass", failing)

    return fail_if


@pytest.fixture(scope="module")
def bases(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model with layers of each kind: [outputs, inputs] and, in GPT-2, [inputs, outputs]."""
    gpt2 = GPT2Config(vocab_size=61, n_embd=32, n_layer=2, n_head=4, n_positions=64, initializer_range=0.3)
    return {**folders, "gpt2": save_model(gpt2, tmp_path_factory.mktemp("gpt2") / "model", seed=7)}
