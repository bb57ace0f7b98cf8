"""The conversion of a GGUF file equals what transformers reads from it, or is refused in a sentence."""

import json
import math
import re
import shutil
import struct
from pathlib import Path
from typing import Any

import gguf
import pytest
import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer

from harness.core.errors import HarnessError
from harness.engine import conversion
from harness.engine.conversion import convert
from tests.tools.gguf_files import write_gguf


@pytest.fixture(autouse=True)
def _reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the reader of GGUF files, which the conversion replaces in its own process."""
    monkeypatch.setattr(gguf, "GGUFReader", gguf.GGUFReader)


def _load(path: Path, **options: Any) -> Any:
    return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, local_files_only=True, **options)


@pytest.mark.parametrize("quantization", ["F32", "F16", "BF16", "Q8_0", "Q4_0"])
@pytest.mark.parametrize("architecture", ["llama", "gemma3"])
def test_the_directory_has_the_weights_of_a_plain_pass(tmp_path: Path, architecture: str, quantization: str) -> None:
    file = write_gguf(tmp_path / "m.gguf", architecture=architecture, quantization=quantization)
    plain = _load(tmp_path, gguf_file=file.name).state_dict()
    convert(file, tmp_path / "model")
    converted = _load(tmp_path / "model").state_dict()
    assert plain.keys() == converted.keys()
    assert all(torch.equal(plain[name], converted[name]) for name in plain)
    with safe_open(tmp_path / "model" / "model.safetensors", "pt") as weights:
        assert "lm_head.weight" not in weights.keys()  # noqa: SIM118  it is no dictionary
        assert weights.get_slice("model.embed_tokens.weight").get_dtype() == {"F16": "F16", "BF16": "BF16"}.get(
            quantization, "F32"
        )


def test_the_tokenizer_is_that_of_the_file(tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "m.gguf")
    text = "the thing of 2024"
    plain = AutoTokenizer.from_pretrained(tmp_path, gguf_file=file.name)(text)["input_ids"]
    convert(file, tmp_path / "model")
    assert (tmp_path / "model" / "tokenizer.json").is_file()
    assert AutoTokenizer.from_pretrained(tmp_path / "model")(text)["input_ids"] == plain


def test_the_scaling_of_angles_is_that_of_the_file(tmp_path: Path) -> None:
    """transformers ignores both, and would predict something else."""
    linear = {"gemma3.rope.scaling.type": "linear", "gemma3.rope.scaling.factor": 8.0}
    convert(write_gguf(tmp_path / "m.gguf", architecture="gemma3", fields=linear), tmp_path / "gemma3")
    angles = json.loads((tmp_path / "gemma3" / "config.json").read_bytes())["rope_parameters"]
    assert angles["full_attention"] == {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 8.0}
    assert angles["sliding_attention"]["rope_type"] == "default"
    # As convert_hf_to_gguf.py of llama.cpp computes them for Llama 3.1.
    lengths = [2 * math.pi * 500_000 ** (place / 8) for place in range(8)]
    blends = [min(max((8192 / length - 1) / 3, 0), 1) for length in lengths]
    factors = [1 / ((1 - blend) / 8 + blend) for blend in blends]
    extra, fields = {"rope_freqs.weight": factors}, {"llama.rope.freq_base": 500_000.0}
    shutil.rmtree(tmp_path / "source")
    convert(write_gguf(tmp_path / "l.gguf", extra=extra, fields=fields), tmp_path / "llama")
    inverse = _load(tmp_path / "llama").model.rotary_emb.inv_freq
    expected = [2 * math.pi / length / factor for length, factor in zip(lengths, factors, strict=True)]
    assert inverse.tolist() == pytest.approx(expected, rel=1e-5)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "part": ({"fields": {"split.count": 3}}, r"one of 3 parts of a model\. Merge them with `llama-gguf-split"),
    "projector": ({"fields": {"general.type": "mmproj"}}, "contains a projector for images or sound. Name the GGUF"),
    "adapter": ({"fields": {"general.type": "adapter"}}, "contains an adapter"),
    "scaled angles": ({"fields": {"llama.rope.scaling.type": "yarn"}}, "sets llama.rope.scaling.type to yarn"),
    "caps": ({"fields": {"llama.final_logit_softcapping": 30.0}}, "sets llama.final_logit_softcapping to 30.0"),
    "other factors": ({"extra": {"rope_freqs.weight": [3.0] * 8}}, "scales angles in another way than Llama 3"),
    "unused tensor": ({"extra": {"blk.0.attn_q.bias": [1.0] * 64}}, "contains 78,400 numbers and .* uses 78,336"),
    "missing tensor": ({"without": "blk.1.attn_v.weight"}, "not those of a LlamaForCausalLM, such as model.layers.1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_would_give_other_figures_is_refused(tmp_path: Path, case: str) -> None:
    options, sentence = REFUSED[case]
    file = write_gguf(tmp_path / "m.gguf", **options)
    with pytest.raises(HarnessError, match=sentence):
        convert(file, tmp_path / "model")


def _with_type(content: bytes, kind: int) -> bytes:
    """Return the file with another quantization of its first tensor."""
    name = b"token_embd.weight"
    place = content.index(struct.pack("<Q", len(name)) + name) + 8 + len(name) + 4 + 2 * 8
    return content[:place] + struct.pack("<I", kind) + content[place + 4 :]


DAMAGED = {
    "empty": (lambda content: b"", "complete GGUF file .*empty"),
    "another format": (lambda content: b"<html>" + content, "complete GGUF file .*magic invalid"),
    "half": (lambda content: content[: len(content) // 2], "complete GGUF file"),
    "header alone": (lambda content: content[:24], "complete GGUF file"),
    "2^60 tensors": (lambda content: content[:8] + struct.pack("<Q", 1 << 60) + content[16:], "complete GGUF file"),
    "2^60 fields": (lambda content: content[:16] + struct.pack("<Q", 1 << 60) + content[24:], "complete GGUF file"),
    "future quantization": (lambda content: _with_type(content, 999), "complete GGUF file .*999"),
    "future version": (lambda content: content[:4] + struct.pack("<I", 99) + content[8:], "version 99"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_file_is_one_sentence(tmp_path: Path, damage: str) -> None:
    change, sentence = DAMAGED[damage]
    file = write_gguf(tmp_path / "m.gguf")
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(HarnessError, match=sentence):
        convert(file, tmp_path / "model")


def test_a_full_disk_is_found_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_gguf(tmp_path / "m.gguf", quantization="Q8_0")
    monkeypatch.setattr(conversion.shutil, "disk_usage", lambda path: type("usage", (), {"free": 1000}))
    with pytest.raises(HarnessError, match=re.escape("0.0 GB free. Free space, or set HARNESS_CACHE")):
        convert(file, tmp_path / "model")
    assert not any((tmp_path / "model").iterdir())
