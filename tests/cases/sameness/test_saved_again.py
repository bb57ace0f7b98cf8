"""Targets are compared if their tokenizers behave alike on the texts at hand, whatever their files look like."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from harness.audits.compare.inputs import StoredTarget, common_sequences
from harness.audits.leakage.inputs import PairSize, read_documents, read_pairs
from harness.audits.leakage.pairs import Pairs
from harness.audits.membership import inputs as membership
from harness.audits.models import Model
from harness.audits.sources import CorpusFiles
from harness.core.errors import HarnessError
from harness.demo import SIZES

DEMO = Model("before", SIZES[-1].weights)
TEXT = "The letter says that nobody in the village has seen the lighthouse since the storm of that winter. "
WITH_TOKEN = "The letter says [NOTE] that nobody in the village has seen the lighthouse since the storm."
Content = dict[str, Any]


def _join_merges(content: Content) -> None:
    """Write a tokenizer as files before version 0.20 of `tokenizers` have it."""
    content["model"]["merges"] = [" ".join(pair) for pair in content["model"]["merges"]]
    del content["model"]["ignore_merges"], content["model"]["byte_fallback"]


def _reverse_keys(content: Content) -> None:
    content["model"]["vocab"] = dict(reversed(content["model"]["vocab"].items()))
    for key in reversed(list(content)):
        content[key] = content.pop(key)


def _wrap_in_sequences(content: Content) -> None:
    content["normalizer"] = {"type": "Sequence", "normalizers": []}
    content["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [content["pre_tokenizer"]]}


def _add(content: Content, text: str, *, is_special: bool) -> None:
    form = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    number = len(content["model"]["vocab"])
    content["added_tokens"].append({"id": number, "content": text, "special": is_special, **form})


def _add_pad(content: Content) -> None:
    _add(content, "[PAD]", is_special=True)


def _add_note(content: Content) -> None:
    _add(content, "[NOTE]", is_special=False)


def _add_special_note(content: Content) -> None:
    _add(content, "[NOTE]", is_special=True)


def _drop_merges(content: Content) -> None:
    content["model"]["merges"] = content["model"]["merges"][:20]


def _swap_tokens(content: Content) -> None:
    vocabulary = content["model"]["vocab"]
    vocabulary["t"], vocabulary["h"] = vocabulary["h"], vocabulary["t"]


def _ignore_case(content: Content) -> None:
    content["normalizer"] = {"type": "Lowercase"}


def _model(folder: Path, *changes: Callable[[Content], None]) -> Model:
    """Copy the smallest demo model to `folder` and change its tokenizer.json."""
    shutil.copytree(DEMO.path, folder)
    content = json.loads((folder / "tokenizer.json").read_text())
    for change in changes:
        change(content)
    (folder / "tokenizer.json").write_text(json.dumps(content))
    return Model(folder.name, folder)


def _text_file(folder: Path, text: str = TEXT) -> Path:
    file = folder / "pairs.jsonl"
    file.write_text(json.dumps({"prefix": text, "suffix": text}) + "\n")
    return file


def _token_file(folder: Path) -> Path:
    """Write the tokens of `TEXT` as a file of pairs, which contains no text."""
    ids = Tokenizer.from_file(str(DEMO.path / "tokenizer.json")).encode(TEXT).ids
    np.savez(folder / "pairs.npz", prefixes=[ids[:20]], suffixes=[ids[20:30]])
    return folder / "pairs.npz"


def _read(file: Path, *models: Model) -> Pairs:
    return read_pairs(CorpusFiles(file), models, PairSize(20, 10), limit=10, seed=0)


SAVED_AGAIN = [_join_merges, _reverse_keys, _wrap_in_sequences]
DIFFERENT = [
    (_swap_tokens, _text_file, r"they split a text differently from character [\d,]+ on"),
    (_swap_tokens, _token_file, r"token \d+ is '[ht]' and '[ht]'"),
    (_drop_merges, _text_file, r"they split a text differently from character [\d,]+ on"),
    (_ignore_case, _text_file, r"they split a text differently from character 1 on"),
]


@pytest.mark.parametrize("write", [_text_file, _token_file])
@pytest.mark.parametrize("change", SAVED_AGAIN)
def test_a_tokenizer_that_was_saved_again_is_the_same(
    change: Callable[[Content], None], write: Callable[[Path], Path], tmp_path: Path
) -> None:
    file, again = write(tmp_path), _model(tmp_path / "after", change)
    before = _read(file, DEMO)
    for models in ((DEMO, again), (again, DEMO)):
        pairs = _read(file, *models)
        assert np.array_equal(pairs.prefixes, before.prefixes) and pairs.notes == before.notes


@pytest.mark.parametrize("write", [_text_file, _token_file])
def test_a_further_token_that_does_not_occur_is_named(write: Callable[[Path], Path], tmp_path: Path) -> None:
    pairs = _read(write(tmp_path), DEMO, _model(tmp_path / "after", _join_merges, _add_pad))
    assert pairs.notes == [
        "The tokenizers of before and after differ in 1 token that no sequence contains: 384 is no token and '[PAD]'."
    ]


def test_a_further_token_that_occurs_is_refused(tmp_path: Path) -> None:
    file = _text_file(tmp_path, WITH_TOKEN)
    with pytest.raises(HarnessError, match=r"before and after have different tokenizers: .* from character 17 on"):
        _read(file, DEMO, _model(tmp_path / "after", _add_note))
    # The name of a special token inside a text is text like any other.
    assert len(_read(file, DEMO, _model(tmp_path / "special", _add_special_note))) == 1


@pytest.mark.parametrize(("change", "write", "difference"), DIFFERENT)
def test_tokenizers_that_behave_differently_are_refused_with_an_example(
    change: Callable[[Content], None], write: Callable[[Path], Path], difference: str, tmp_path: Path
) -> None:
    file, other = write(tmp_path), _model(tmp_path / "after", change)
    with pytest.raises(HarnessError, match=f"before and after have different tokenizers: {difference}"):
        _read(file, DEMO, other)


def test_equal_tokens_need_no_equal_merges(tmp_path: Path) -> None:
    """Token ids are given to both models as they are, so that no text is split."""
    assert len(_read(_token_file(tmp_path), DEMO, _model(tmp_path / "after", _drop_merges))) == 1


def test_an_example_of_a_hostile_text_is_shown_safely(tmp_path: Path) -> None:
    other = _model(tmp_path / "after", _ignore_case)
    with pytest.raises(HarnessError, match="different tokenizers") as refusal:
        _read(_text_file(tmp_path, "\x1b[31mRED\u202e" * 50), DEMO, other)
    assert str(refusal.value).isprintable() and len(str(refusal.value)) < 250


def test_a_model_without_tokenizer_json_is_compared_by_its_other_files(tmp_path: Path) -> None:
    hub = _model(tmp_path / "hub")
    content = json.loads((hub.path / "tokenizer.json").read_text())
    (hub.path / "tokenizer.json").unlink()
    merges = "".join(f"{' '.join(pair)}\n" for pair in content["model"]["merges"])
    (hub.path / "merges.txt").write_text(f"#version: 0.2\n{merges}")
    (hub.path / "vocab.json").write_text(json.dumps(content["model"]["vocab"]))
    (hub.path / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "GPT2Tokenizer", "unk_token": "<|endoftext|>"}'
    )
    file = _text_file(tmp_path)
    assert np.array_equal(_read(file, hub, DEMO).suffixes, _read(file, DEMO).suffixes)


@pytest.mark.parametrize("change", [*SAVED_AGAIN, _add_pad])
def test_stored_audits_are_compared_by_the_tokens_that_occur(change: Callable[[Content], None], tmp_path: Path) -> None:
    file = _text_file(tmp_path)
    audits = []
    for number, model in enumerate((DEMO, _model(tmp_path / "after", change))):
        stored = _read(file, model)
        audits.append((f"run{number}", stored, [StoredTarget(model.id, np.zeros((3, 1, 10)), 10)]))
    common = common_sequences(audits)
    assert len(common) == 1
    assert any("384 is no token and '[PAD]'" in note for note in common.notes) == (change is _add_pad)
    content = json.loads(audits[1][1].tokenizer or "")
    _swap_tokens(content)
    audits[1] = (audits[1][0], replace(audits[1][1], tokenizer=json.dumps(content)), audits[1][2])
    with pytest.raises(HarnessError, match=r"run0 and run1 have different tokenizers: token \d+ is '[ht]' and '[ht]'"):
        common_sequences(audits)


def test_membership_and_corpora_judge_the_reference_by_behaviour_too(tmp_path: Path) -> None:
    texts = [tmp_path / name for name in ("members.txt", "others.txt")]
    for file, text in zip(texts, (TEXT, TEXT.upper()), strict=True):
        file.write_text(text)
    members, others = (CorpusFiles(file) for file in texts)
    params = membership.MembershipParams(least_tokens=5)

    def notes(model: Model) -> list[str]:
        read = membership.read_documents(members, others, [DEMO, model], params, limit=9, seed=0)
        return [*read.notes, *read_documents(members, [DEMO, model], PairSize(5, 4), limit=9).notes]

    assert notes(_model(tmp_path / "again", _join_merges)) == notes(DEMO)
    assert sum("'[PAD]'" in note for note in notes(_model(tmp_path / "padded", _add_pad))) == 2
    other = _model(tmp_path / "other", _ignore_case)
    for read in (
        lambda: membership.read_documents(members, others, [DEMO, other], params, limit=9, seed=0),
        lambda: read_documents(members, [DEMO, other], PairSize(5, 4), limit=9),
    ):
        with pytest.raises(HarnessError, match=re.escape("before and other have different tokenizers")):
            read()
