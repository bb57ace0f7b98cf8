"""An adapter that PEFT writes changes the model as PEFT's `merge_and_unload` does."""

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers.models.auto import AutoModelForCausalLM

from tests.unit.engine.test_adapter import load, logits

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "linear": ("llama", {"target_modules": "all-linear"}),
    "transposed": ("gpt2", {"target_modules": ["c_attn", "c_proj"], "fan_in_fan_out": True}),
    "rank-stabilized": ("llama", {"target_modules": ["q_proj", "down_proj"], "use_rslora": True}),
    "patterns": (
        "llama",
        {
            "target_modules": ["q_proj", "v_proj", "down_proj"],
            "rank_pattern": {"layers.0.self_attn.q_proj": 9, "down_proj": 2},
            "alpha_pattern": {"q_proj": 5, "layers.1.mlp.down_proj": 3},
        },
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_merged_adapter_equals_merge_and_unload(bases: dict[str, Path], tmp_path: Path, case: str) -> None:
    kind, options = CASES[case]
    model = AutoModelForCausalLM.from_pretrained(bases[kind], dtype=torch.float32)
    unchanged = logits(model)
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = LoraConfig(task_type="CAUSAL_LM", r=4, lora_alpha=8, init_lora_weights=False, **options)
        adapted = get_peft_model(model, config)
        adapted.save_pretrained(str(tmp_path / "adapter"))
    merged = logits(adapted.merge_and_unload())
    assert float((merged - unchanged).abs().max()) > 0.1
    torch.testing.assert_close(logits(load(tmp_path / "adapter", bases[kind]).model), merged, atol=1e-5, rtol=1e-5)
