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
    with pytest.raises(HarnessError, match=f"{INDEX}: (not a regular file|larger than)"):
        resolve_target(str(folder))


def test_a_panic_of_the_tokenizer_library_is_one_sentence(tmp_path: Path) -> None:
    content = json.loads((WEIGHTS / "tokenizer.json").read_text())
    content["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": "AAAA////"}
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(content))
    with pytest.raises(HarnessError, match=r"not a tokenizer\.json"):
        load_tokenizer(file).encode("some text")
