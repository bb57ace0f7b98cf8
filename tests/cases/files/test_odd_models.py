"""Files of a model that are no plain files, or that a library does not survive, are refused in one sentence."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.core.tokenizers import load_tokenizer
from harness.demo import WEIGHTS
from harness.engine.resolving import resolve_target

INDEX = "model.safetensors.index.json"


def _link_to_zeros(index: Path) -> None:
    index.symlink_to("/dev/zero")


def _make_huge(index: Path) -> None:
    with index.open("wb") as file:
        file.truncate(1 << 40)


@pytest.mark.parametrize("damage", [_link_to_zeros, os.mkfifo, _make_huge])
def test_an_index_of_weights_is_checked_before_it_is_read(damage: Callable[[Path], None], tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json"):
        shutil.copy(WEIGHTS / name, folder)
    damage(folder / INDEX)
    with pytest.raises(HarnessError, match=f"{INDEX}(: larger than| is not a regular file| is a link that leaves)"):
        resolve_target(str(folder))


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("AAAA////", "its table of characters is cut short"),
        ("", r"not a tokenizer\.json"),
        ("AA", r"not a tokenizer\.json"),
    ],
)
def test_a_table_that_the_tokenizer_library_cannot_read_is_one_sentence(tmp_path: Path, table: str, says: str) -> None:
    content = json.loads((WEIGHTS / "tokenizer.json").read_text())
    content["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": table}
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(content))
    with pytest.raises(HarnessError, match=says):
        load_tokenizer(file).encode("some text")


def test_a_tokenizer_that_is_a_named_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "tokenizer.json")
    with pytest.raises(HarnessError, match="not a regular file"):
        load_tokenizer(tmp_path / "tokenizer.json")


def test_a_link_out_of_a_model_is_refused_before_its_index_is_read(tmp_path: Path) -> None:
    folder, outside = tmp_path / "model", tmp_path / "secret.json"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    outside.write_text('{"weight_map": {"a": "words of a secret"}}')
    (folder / INDEX).symlink_to(outside)
    with pytest.raises(HarnessError, match="is a link that leaves its directory") as refusal:
        resolve_target(str(folder))
    assert "words of a secret" not in str(refusal.value)
