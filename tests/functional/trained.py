"""Small models of other architectures than the demo's, trained for seconds on the first examples of the demo."""

import shutil
from pathlib import Path

import numpy as np
import torch
from transformers import AutoConfig, PreTrainedModel
from transformers.models.auto import AutoModelForCausalLM

from harness.core.arrays import Tokens
from harness.demo import ROUND_ARRAYS, WEIGHTS
from tests.demo_target.training import Schedule, train

ATTACKED, TRAINING = 60, 120
_VOCABULARY, _STEPS = 384, 480
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")


def write_trained_model(model_type: str, folder: Path) -> Path:
    """Train a model of `model_type` until it knows about half of the examples, and write it to `folder`."""
    torch.manual_seed(0)
    configuration = AutoConfig.for_model(
        model_type,
        vocab_size=_VOCABULARY,
        hidden_size=64,
        intermediate_size=192,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=128,
        bos_token_id=0,
        eos_token_id=0,
    )
    model: PreTrainedModel = AutoModelForCausalLM.from_config(configuration)  # type: ignore[no-untyped-call]
    rows = np.concatenate([_rows("", ATTACKED), _rows("train_", TRAINING)]).tolist()
    schedule = Schedule(steps=_STEPS, warm_up=10, cool_down=_STEPS // 2)
    train(model, rows, range(len(rows)), schedule, seed=0, report=lambda step, loss: None)
    model.save_pretrained(folder)
    for name in _TOKENIZER_FILES:
        shutil.copy(WEIGHTS / name, folder)
    return folder


def _rows(split: str, count: int) -> Tokens:
    """Return the first rows of a split, [count, prefix and suffix]."""
    return np.concatenate(
        [np.load(ROUND_ARRAYS / f"{split}{part}.npy")[:count] for part in ("prefix", "suffix")], axis=1
    )
