"""A pipe, a device, a directory or an endless file in place of an input is one sentence, and is not waited for."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.core.arrays import mapped_array
from harness.core.errors import HarnessError
from harness.core.files import file_sha256, read_start
from harness.core.inputs import read_bounded, require_file
from harness.core.submission_reader import SubmissionRules, submission_faults
from harness.core.tokenizers import load_tokenizer
from harness.corpora.arrow_sets import values_in_arrow_set
from harness.corpora.documents import documents_in
from harness.corpora.text_files import Notes, read_text
from harness.corpora.token_files import open_tokens
from harness.demo import WEIGHTS
from harness.engine.resolving import configured_number, resolve_target
from harness.plugins.discovery import find_attacks
from harness.submit.archive import unpack
from harness.submit.bundle_checks import bundle_sha256
from harness.submit.judging import read_archive

TERABYTE = 1 << 40


def _loop(file: Path) -> None:
    file.symlink_to(file.name)


def _zeros(file: Path) -> None:
    file.symlink_to("/dev/zero")


def _endless(file: Path) -> None:
    with file.open("wb") as sparse:
        sparse.truncate(TERABYTE)


def _arrow_set(file: Path) -> list[Any]:
    shutil.move(file, file.parent / "state.json")
    return list(values_in_arrow_set(file.parent, field="text", split=None, notes=Notes()))


READERS: dict[str, Callable[[Path], object]] = {
    "bounded": lambda file: read_bounded(file, limit=10),
    "array": mapped_array,
    "tokenizer": load_tokenizer,
    "text": read_text,
    "archive of arrays": lambda file: read_archive(file, ["prefixes"]),
    "zip": lambda file: unpack(file, file.parent / "unpacked"),
    "Arrow data set": _arrow_set,
}


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, _zeros, _loop, _endless])
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_an_input_that_is_no_usual_file_is_one_sentence(
    make: Callable[[Path], None], read: Callable[[Path], object], tmp_path: Path
) -> None:
    make(tmp_path / "file")
    with pytest.raises(HarnessError, match=str(tmp_path)):
        read(tmp_path / "file")


@pytest.mark.parametrize("make", [os.mkfifo, _zeros])
@pytest.mark.parametrize(
    "read",
    [
        lambda file: list(submission_faults(file, SubmissionRules(8, 1, 100))),
        lambda file: open_tokens(file, 100),
        bundle_sha256,
        require_file,
    ],
    ids=["submission", "tokens", "bundle", "any file that is named"],
)
def test_a_pipe_in_place_of_a_table_is_one_sentence(
    make: Callable[[Path], None], read: Callable[[Path], object], tmp_path: Path
) -> None:
    make(tmp_path / "file")
    with pytest.raises(HarnessError, match="not a regular file"):
        read(tmp_path / "file")


@pytest.mark.parametrize("make", [os.mkfifo, _zeros, _loop])
def test_a_file_is_hashed_only_if_it_is_one(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "file")
    for read in (file_sha256, read_start):
        with pytest.raises(OSError, match=r"not a regular file|Too many levels"):
            read(tmp_path / "file")


@pytest.mark.parametrize("make", [os.mkfifo, _zeros, _loop, _endless])
def test_an_attack_that_is_no_usual_file_is_never_usable(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "odd.py")
    attacks = [attack for attack in find_attacks(tmp_path) if attack.path.name == "odd.py"]
    assert all(attack.error is not None for attack in attacks)


@pytest.mark.parametrize("suffix", [".txt", ".jsonl", ".json", ".csv"])
def test_a_corpus_of_a_terabyte_of_zeros_is_skipped(suffix: str, tmp_path: Path) -> None:
    _endless(tmp_path / f"corpus{suffix}")
    notes = Notes()
    assert not [
        line for document in documents_in(tmp_path, field=None, split=None, notes=notes) for line in document.lines
    ]
    assert "a binary file (it contains zero bytes)" in notes.sentences[0]


@pytest.fixture
def model(tmp_path: Path) -> Iterator[Path]:
    yield Path(shutil.copytree(WEIGHTS, tmp_path / "model"))


@pytest.mark.parametrize(
    "name",
    [
        *(
            "model.safetensors.index.json",
            "config.json",
            "generation_config.json",
            "tokenizer_config.json",
            "special_tokens_map.json",
        ),
        *("added_tokens.json", "chat_template.jinja", "chat_template.json", "vocab.json", "merges.txt", "vocab.txt"),
        *("spiece.model", "tokenizer.json", "tekken.json", "qwen.tiktoken", "preprocessor_config.json"),
    ],
)
def test_a_file_of_a_model_that_is_read_whole_has_a_limit(name: str, model: Path) -> None:
    (model / name).unlink(missing_ok=True)
    _endless(model / name)
    if name.endswith(".index.json"):
        (model / "model.safetensors").unlink()
    with pytest.raises(HarnessError, match=rf"{name}: larger than [\d,]+ bytes\. Download the model again\."):
        resolve_target(str(model))


@pytest.mark.parametrize("make", [os.mkfifo, _endless])
def test_a_number_is_not_read_from_an_endless_configuration(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "config.json")
    assert configured_number(tmp_path, ("vocab_size",)) is None


def test_weights_and_files_of_other_folders_may_be_large(model: Path) -> None:
    (model / "checkpoint").mkdir()
    _endless(model / "checkpoint" / "optimizer.json")
    _endless(model / "other.bin")
    assert resolve_target(str(model)).path == model
