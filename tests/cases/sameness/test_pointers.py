"""A pointer of Git LFS is named, whatever kind of file it stands for. A clone without Git LFS has pointers as files."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.audits.leakage.inputs import PairSize, read_pairs
from harness.audits.models import Model
from harness.audits.sequence.completion import read_completions
from harness.audits.sequence.dataset import SequenceParams
from harness.audits.sources import CorpusFiles
from harness.core.arrays import mapped_array
from harness.core.errors import HarnessError
from harness.core.files import require_content
from harness.core.rounds import load_round
from harness.core.submission_reader import SubmissionRules, read_submission
from harness.core.tokenizers import load_tokenizer
from harness.corpora.documents import documents_in
from harness.corpora.text_files import Notes, read_text
from harness.corpora.token_files import open_tokens
from harness.demo import SIZES
from harness.engine.first_token import first_token
from harness.engine.resolving import resolve_target
from harness.submit.archive import unpack
from harness.submit.judging import read_prefixes
from harness.submit.team import load_team
from tests.cases.reciting import syllable_paragraphs

POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{7:064d}\nsize 292144\n"
WEIGHTS = SIZES[-1].weights
DEMO = Model("demo-tiny", WEIGHTS)


def _read_corpus(file: Path) -> None:
    for document in documents_in(file, field=None, split=None, notes=Notes()):
        list(document.lines)


def _read_pairs(file: Path) -> None:
    read_pairs(CorpusFiles(file), [DEMO], PairSize(), limit=9, seed=0)


def _read_completions(file: Path) -> None:
    read_completions(file, SequenceParams(), Notes())


def _unpack(file: Path) -> None:
    unpack(file, file.parent)


def _read_submission(file: Path) -> None:
    read_submission(file, SubmissionRules(9, 50, 384, 9))


READERS: list[tuple[str, Callable[[Path], object]]] = [
    *((f"corpus.{ending}", _read_corpus) for ending in ("txt", "md", "jsonl", "json", "csv", "tsv", "parquet")),
    *((f"pairs.{ending}", _read_pairs) for ending in ("npz", "npy", "jsonl", "tsv")),
    *((f"completions.{ending}", _read_completions) for ending in ("jsonl", "json", "csv")),
    ("names.txt", read_text),
    ("copies.npy", mapped_array),
    ("tokens.bin", lambda file: open_tokens(file, 384)),
    ("prefixes.npz", lambda file: read_prefixes(file, length=50, vocabulary=384)),
    ("tokenizer.json", load_tokenizer),
    ("round.toml", lambda file: load_round(str(file))),
    ("team.toml", load_team),
    ("submission.csv", _read_submission),
    ("bundle.zip", _unpack),
]


def _is_named(file: Path, read: Callable[[Path], object]) -> None:
    words = f"{file.name} is a pointer of Git LFS, not the file: {file}. Run git lfs pull."
    with pytest.raises(HarnessError, match=f"^{re.escape(words)}$"):
        read(file)


@pytest.mark.parametrize(("name", "read"), READERS)
def test_a_pointer_is_named_by_every_reader(name: str, read: Callable[[Path], object], tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text(POINTER)
    _is_named(file, read)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_pointer_in_the_directory_of_a_model_is_named(name: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(WEIGHTS, tmp_path / "model"))
    (folder / name).write_text(POINTER)
    _is_named(folder / name, lambda file: resolve_target(str(file.parent)))


def test_a_pointer_in_place_of_a_shard_or_of_the_index_is_named(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(WEIGHTS, tmp_path / "model"))
    index = folder / "model.safetensors.index.json"
    (folder / "model.safetensors").rename(folder / "shard-1.safetensors")
    index.write_text('{"weight_map": {"a": "shard-1.safetensors", "b": "shard-2.safetensors"}}')
    (folder / "shard-2.safetensors").write_text(POINTER)
    _is_named(folder / "shard-2.safetensors", lambda file: resolve_target(str(file.parent)))
    index.write_text(POINTER)
    _is_named(index, lambda file: resolve_target(str(file.parent)))


def test_a_pointer_in_a_saved_data_set_is_named(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"_data_files": [{"filename": "data.arrow"}]}')
    (tmp_path / "data.arrow").write_text(POINTER)
    _is_named(tmp_path / "data.arrow", lambda file: _read_corpus(file.parent))


@pytest.mark.parametrize("name", ["tokenizer.model", "vocab.json"])
def test_a_pointer_in_place_of_another_vocabulary_is_named(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    shutil.copy(WEIGHTS / "config.json", folder)
    (folder / name).write_text(POINTER)
    _is_named(folder / name, lambda file: first_token(file.parent))


def test_files_that_are_not_loaded_may_be_pointers(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(WEIGHTS, tmp_path / "model"))
    (folder / "pytorch_model.bin").write_text(POINTER)
    assert resolve_target(str(folder)).weights_sha256 == resolve_target(str(WEIGHTS)).weights_sha256


def test_a_text_about_pointers_is_a_text(tmp_path: Path) -> None:
    file = tmp_path / "about.txt"
    file.write_text(POINTER + "".join(syllable_paragraphs()))
    assert read_text(file).startswith(POINTER)


def test_what_is_no_file_is_left_to_its_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "absent", tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        require_content(place)
