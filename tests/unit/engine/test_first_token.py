"""The first token of a tokenizer, whichever files declare it, against the tokenizer that `transformers` builds."""

import json
import shutil

import pytest
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

from harness.core.errors import HarnessError
from harness.demo import SIZES
from harness.engine.first_token import first_token
from harness.engine.loading import load_target

WEIGHTS = SIZES[-1].weights
END = "<|endoftext|>"
NAMES = {"bos_token": END, "eos_token": END, "unk_token": END, "tokenizer_class": "GPT2Tokenizer"}


def _folder(path, *, template=None, has_json=True, config=None):
    """Write a folder with the demo's tokenizer in one of the layouts of the hub."""
    path.mkdir()
    tokenizer = Tokenizer.from_file(str(WEIGHTS / "tokenizer.json"))
    model = json.loads(tokenizer.to_str())["model"]
    (path / "config.json").write_text(json.dumps({"model_type": "opt", "vocab_size": 384}))
    if config is not None:
        (path / "tokenizer_config.json").write_text(json.dumps({**NAMES, **config}))
    if has_json:
        if template is not None:
            tokenizer.post_processor = TemplateProcessing(single=template, special_tokens=[(END, 0)])
        tokenizer.enable_padding(length=9)
        tokenizer.enable_truncation(1)
        tokenizer.save(str(path / "tokenizer.json"))
    else:
        (path / "vocab.json").write_text(json.dumps(model["vocab"]))
        merges = "\n".join(" ".join(pair) for pair in model["merges"])
        (path / "merges.txt").write_text(f"#version: 0.2\n{merges}\n")
    return path


@pytest.mark.parametrize(
    ("layout", "token"),
    [
        ({"has_json": False, "config": {"add_bos_token": True}}, 0),
        ({"has_json": False, "config": {"add_bos_token": False}}, None),
        ({"has_json": False, "config": {}}, None),
        ({"has_json": False}, None),
        ({"template": f"{END} $A"}, 0),
        ({"template": f"{END} $A {END}"}, 0),
        ({"template": f"$A {END}"}, None),
        ({"template": f"{END} $A", "config": {"add_bos_token": False}}, 0),
        ({"config": {"add_bos_token": True}}, None),
        ({}, None),
    ],
)
def test_the_first_token_is_that_of_transformers(tmp_path, layout, token):
    from transformers import AutoTokenizer

    folder = _folder(tmp_path / "model", **layout)
    assert first_token(folder) == token
    with_special = AutoTokenizer.from_pretrained(folder, local_files_only=True, truncation=False)("ab").input_ids
    assert (with_special[:1] == [0]) == (token == 0)


def test_the_target_sees_a_first_token_without_tokenizer_json(tmp_path):
    folder = _folder(tmp_path / "model", has_json=False, config={"add_bos_token": True})
    for name in ("config.json", "model.safetensors"):
        shutil.copy(WEIGHTS / name, folder)
    assert load_target(folder, device="cpu", rows_at_once=1).record["bos_token"] == 0


def test_a_folder_without_a_vocabulary_has_no_first_token(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    assert first_token(tmp_path) is None


def test_several_first_tokens_are_refused(tmp_path):
    with pytest.raises(HarnessError, match="puts 2 tokens before every text, and only one is supported"):
        first_token(_folder(tmp_path / "model", template=f"{END} {END} $A"))


def test_a_vocabulary_that_cannot_be_read_is_one_sentence(tmp_path):
    folder = _folder(tmp_path / "model", has_json=False, config={"add_bos_token": True})
    (folder / "vocab.json").write_text("{")
    with pytest.raises(HarnessError, match=r"the tokenizer cannot be loaded: .*Add the tokenizer\.json"):
        first_token(folder)
