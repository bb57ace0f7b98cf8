"""An adapter changes the model as its two matrices beside each layer would, or is refused in one sentence."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers.models.auto import AutoModelForCausalLM

from harness.core.errors import HarnessError
from harness.core.spec import AdapterRecord
from harness.engine.adapter import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from harness.engine.loading import load_target
from harness.engine.resolving import ResolvedTarget, adapter_folder, resolve_adapter, resolve_target
from harness.engine.target import Target
from tests.tools.adapters import write_adapter

QUERY = "model.layers.0.self_attn.q_proj"
DOWN = "model.layers.1.mlp.down_proj"


def resolved(adapter: Path, base: Path) -> ResolvedTarget:
    folder = adapter_folder(str(adapter))
    assert folder is not None
    return resolve_adapter(str(adapter), folder, resolve_target(str(base)))


def load(adapter: Path, base: Path, dtype: str = "float32", **options: Any) -> Target:
    return load_target(
        base,
        adapter=AdapterRecord(path=adapter, base=str(base), base_sha256=""),
        device="cpu",
        dtype=dtype,
        threads=1,
        **options,
    )


def logits(model: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        result: torch.Tensor = model(torch.arange(48).reshape(2, 24)).logits
    return result


CASES: dict[str, tuple[str, dict[str, Any], Callable[[str], float]]] = {
    "linear": ("llama", {}, lambda layer: 8 / 4),
    "transposed": ("gpt2", {"transposed": True, "fan_in_fan_out": True}, lambda layer: 8 / 4),
    "rank-stabilized": ("llama", {"use_rslora": True}, lambda layer: 8 / 2),
    "patterns": (
        "llama",
        {
            "ranks": {QUERY: 9, DOWN: 2},
            "rank_pattern": {r"layers\.0\.self_attn\.q_proj": 9, "down_proj": 2},
            "alpha_pattern": {f"^{QUERY}": 6, "q_proj": 5, "^down_proj": 100, "layers.1.mlp.down_proj": 3},
            "use_rslora": True,
        },
        lambda layer: {QUERY: 6 / 3, DOWN: 3 / math.sqrt(2)}.get(layer, (5 if "q_proj" in layer else 8) / 2),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_merged_adapter_equals_its_matrices_beside_the_layers(
    bases: dict[str, Path], tmp_path: Path, case: str
) -> None:
    kind, fields, scale = CASES[case]
    tensors = write_adapter(tmp_path / "adapter", bases[kind], **fields)
    beside = AutoModelForCausalLM.from_pretrained(bases[kind], dtype=torch.float32)
    unchanged = logits(beside)
    for name, a in tensors.items():
        if name.endswith("lora_A.weight"):
            layer = name.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
            b = tensors[name.replace("lora_A", "lora_B")]

            def add(_: Any, inputs: Any, output: Any, a: Any = a, b: Any = b, layer: str = layer) -> Any:
                return output + scale(layer) * (inputs[0] @ a.T) @ b.T

            beside.get_submodule(layer).register_forward_hook(add)
    merged = logits(load(tmp_path / "adapter", bases[kind]).model)
    assert float((logits(beside) - unchanged).abs().max()) > 0.1
    torch.testing.assert_close(merged, logits(beside), atol=2e-4, rtol=1e-4)


def test_weights_are_rounded_once_after_merging(bases: dict[str, Path], tmp_path: Path) -> None:
    write_adapter(tmp_path / "adapter", bases["llama"])
    exact, rounded = (load(tmp_path / "adapter", bases["llama"], dtype).model for dtype in ("float32", "bfloat16"))
    for (name, weight), (_, second) in zip(exact.named_parameters(), rounded.named_parameters(), strict=True):
        assert torch.equal(weight.bfloat16(), second), name


def test_another_base_than_the_adapter_names_is_one_warning(bases: dict[str, Path], tmp_path: Path) -> None:
    said: list[str] = []
    for number, name in enumerate(("somebody/llama", "/elsewhere/llama", "somebody/else", None)):
        write_adapter(tmp_path / f"{number}", bases["llama"], base_model_name_or_path=name)
        load(tmp_path / f"{number}", bases["llama"], warn=said.append)
    (sentence,) = (sentence for sentence in said if "adapter" in sentence)
    assert sentence == "2 says that it is an adapter of somebody/else, and was merged into llama."


def _field(**fields: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        file = folder / ADAPTER_CONFIG
        file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))

    return change


def _tensors(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], None]:
    def rewrite(folder: Path) -> None:
        tensors = load_file(folder / ADAPTER_WEIGHTS)
        change(tensors)
        save_file(tensors, folder / ADAPTER_WEIGHTS)

    return rewrite


def _pickled(folder: Path) -> None:
    (folder / ADAPTER_WEIGHTS).rename(folder / "adapter_model.bin")


A = f"base_model.model.{QUERY}.lora_A.weight"
NEW_TOKENS = "base_model.model.model.embed_tokens.base_layer.weight"
RESOLVING: dict[str, tuple[Callable[[Path], None], str]] = {
    "another method": (_field(peft_type="IA3"), 'peft_type is "IA3", not a plain LoRA'),
    "DoRA": (_field(use_dora=True), "use_dora is true"),
    "whole modules": (_field(modules_to_save=["lm_head"]), "modules_to_save is .*lm_head"),
    "biases": (_field(bias="all"), 'bias is "all"'),
    "new tokens": (_field(trainable_token_indices=[1]), "trainable_token_indices is"),
    "a changed base": (_field(init_lora_weights="pissa"), 'init_lora_weights is "pissa"'),
    "a field of the future": (_field(use_novelty={"rank": 3}), "use_novelty is"),
    "a regular expression": (_field(alpha_pattern={"(a+)+$": 2}), r"alpha_pattern is \"\(a\+\)\+"),
    "no number": (_field(lora_alpha="8"), "lora_alpha: must be a"),
    "pickle": (_pickled, "no adapter_model.safetensors in .* may run code"),
}
LOADING: dict[str, tuple[Callable[[Path], None], str]] = {
    "a whole module": (_tensors(lambda tensors: tensors.update({NEW_TOKENS: torch.ones(70, 32)})), NEW_TOKENS),
    "half of a pair": (_tensors(lambda tensors: tensors.pop(A)), f"{A} is missing"),
    "nothing": (_tensors(lambda tensors: tensors.clear()), "lora_A is missing"),
    "another rank": (_field(r=8), r"A \[4, 64\] and B \[32, 4\] do not fit \[32, 64\] and rank 8"),
    "another width": (_tensors(lambda tensors: tensors.update({A: torch.ones(4, 16)})), r"A \[4, 16\] and B"),
    "a vector": (_tensors(lambda tensors: tensors.update({A: torch.ones(4)})), r"A \[4\] and B"),
    "NaN": (_tensors(lambda tensors: tensors[A][0].fill_(math.nan)), f"{QUERY} is infinite or NaN"),
    "overflow": (_field(lora_alpha=1e41), "is infinite or NaN after merging"),
}


@pytest.mark.parametrize("kind", RESOLVING)
def test_an_adapter_that_is_no_plain_lora_is_refused_before_a_run(
    bases: dict[str, Path], tmp_path: Path, kind: str
) -> None:
    change, sentence = RESOLVING[kind]
    write_adapter(tmp_path / "adapter", bases["llama"])
    change(tmp_path / "adapter")
    with pytest.raises(HarnessError, match=sentence):
        resolved(tmp_path / "adapter", bases["llama"])


@pytest.mark.parametrize("kind", LOADING)
def test_weights_that_do_not_fit_the_base_are_refused(bases: dict[str, Path], tmp_path: Path, kind: str) -> None:
    change, sentence = LOADING[kind]
    write_adapter(tmp_path / "adapter", bases["llama"])
    change(tmp_path / "adapter")
    with pytest.raises(HarnessError, match=sentence):
        load(tmp_path / "adapter", bases["llama"])


def test_layers_that_the_base_lacks_or_shares_are_refused(bases: dict[str, Path], tmp_path: Path) -> None:
    write_adapter(tmp_path / "adapter", bases["llama"])
    with pytest.raises(HarnessError, match=r"is not a linear layer of the base model\. Name another --base"):
        load(tmp_path / "adapter", bases["neo"])
    # GPT-Neo's head is its embedding.
    tensors = {f"base_model.model.lm_head.lora_{half}.weight": torch.ones(4, 4) for half in "AB"}
    save_file(tensors, tmp_path / "adapter" / ADAPTER_WEIGHTS)
    with pytest.raises(HarnessError, match="lm_head shares its weight"):
        load(tmp_path / "adapter", bases["neo"])


def test_the_hash_is_of_the_base_and_of_both_files_of_the_adapter(bases: dict[str, Path], tmp_path: Path) -> None:
    base, adapter = bases["llama"], tmp_path / "adapter"
    write_adapter(adapter, base)
    (adapter / "tokenizer.json").write_text("{}")  # a copy beside the adapter is not read
    whole, target = resolve_target(str(base)), resolved(adapter, base)
    assert (target.id, target.path, target.adapter) == (
        str(adapter),
        whole.path,
        AdapterRecord(path=adapter, base=str(base), base_sha256=whole.weights_sha256),
    )
    hashes = {whole.weights_sha256, target.weights_sha256}
    for change in (_field(lora_alpha=9), _tensors(lambda tensors: tensors[A].add_(1))):
        change(adapter)
        hashes.add(resolved(adapter, base).weights_sha256)
    assert len(hashes) == 4
    assert adapter_folder(str(base)) is None


def test_an_adapter_is_no_base_and_needs_one(bases: dict[str, Path], tmp_path: Path) -> None:
    adapter = tmp_path / "adapter"
    write_adapter(adapter, bases["llama"])
    for base in (None, adapter):
        with pytest.raises(HarnessError, match=r"contains an adapter .* not a whole model"):
            resolve_target(str(adapter)) if base is None else resolved(adapter, base)
