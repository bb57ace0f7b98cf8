"""Findings about several targets say which of them are given a first token before every text."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness.audits.book.inputs import BookParams, BookSubject
from harness.audits.compare.inputs import CompareParams, CompareSubject, StoredTarget, common_sequences
from harness.audits.entities.audit import EntitiesParams
from harness.audits.entities.inputs import EntitiesSubject
from harness.audits.leakage.inputs import LeakageSubject, PairSize, read_pairs
from harness.audits.leakage.pairs import LeakageParams
from harness.audits.membership.inputs import MembershipParams, MembershipSubject
from harness.audits.models import Model
from harness.audits.options import Reading
from harness.audits.sequence.dataset import SequenceParams
from harness.audits.sequence.inputs import SequenceSubject
from harness.core.rounds import load_round
from harness.demo import SIZES
from tests.unit.audits.preparing import preparation

WEIGHTS = SIZES[-1].weights
TEXT = "The letter says that nobody in the village has seen the lighthouse since the storm of that winter. " * 8


def _put_first(folder: Path, token: str | None) -> Path:
    """Copy the smallest demo model, whose tokenizer then puts `token` before every text."""
    shutil.copytree(WEIGHTS, folder)
    if token is not None:
        content = json.loads((folder / "tokenizer.json").read_text())
        number = content["model"]["vocab"][token]
        single = [{"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
        content["post_processor"] = {
            "type": "TemplateProcessing",
            "single": single,
            "pair": [*single, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {token: {"id": token, "ids": [number], "tokens": [token]}},
        }
        (folder / "tokenizer.json").write_text(json.dumps(content))
    return folder


def _compare(models: list[str], corpus: Path) -> Reading:
    return CompareSubject(round="demo", target=models, limit=3).read(CompareParams(), preparation())


def _leakage(models: list[str], corpus: Path) -> Reading:
    return LeakageSubject(round="demo", target=models, limit=3).read(LeakageParams(), preparation())


def _membership(models: list[str], corpus: Path) -> Reading:
    subject = MembershipSubject(round="demo", non_members=corpus, target=models[0], reference=models[1])
    return subject.read(MembershipParams(), preparation())


def _sequence(models: list[str], corpus: Path) -> Reading:
    return SequenceSubject(corpus=corpus, target=models).read(SequenceParams(), preparation())


def _book(models: list[str], corpus: Path) -> Reading:
    return BookSubject(text=[corpus], target=models).read(BookParams(), preparation())


def _entities(models: list[str], corpus: Path) -> Reading:
    names = [corpus.with_name(name) for name in ("in", "out")]
    for file in names:
        file.write_text("\n".join(f"Anna {file.name}{number}" for number in range(9)))
    subject = EntitiesSubject(target=models, in_train=names[0], out_train=names[1])
    return subject.read(EntitiesParams(), preparation())


@pytest.mark.parametrize("read", [_compare, _leakage, _membership, _sequence, _book, _entities])
def test_different_first_tokens_are_named(read: Callable[[list[str], Path], Reading], tmp_path: Path) -> None:
    corpus = tmp_path / "text.txt"
    corpus.write_text(TEXT)
    models = {
        name: _put_first(tmp_path / name, token) for name, token in (("before", None), ("after", "<|endoftext|>"))
    }
    models |= {"same": _put_first(tmp_path / "same", "<|endoftext|>"), "mark": _put_first(tmp_path / "mark", "!")}

    def notes(*names: str) -> list[str]:
        reading = read([str(models[name]) for name in names], corpus)
        return [note for note in reading.inputs.notes if "first tokens" in note]

    words = "The tokenizers put different first tokens before every text: {}. Models of equal weights would differ too."
    assert notes("before", "after") == [words.format(f"{models['before']} none, {models['after']} token 0")]
    assert notes("mark", "after") == [words.format(f"{models['mark']} token 1, {models['after']} token 0")]
    assert notes("same", "after") == []


def test_the_note_is_made_from_stored_audits_too(tmp_path: Path) -> None:
    audits = []
    for name, token in (("before", None), ("after", "<|endoftext|>")):
        model = Model(name, _put_first(tmp_path / name, token))
        pairs = read_pairs(load_round("demo"), [model], PairSize(), limit=3, seed=0)
        audits.append((name, pairs, [StoredTarget(name, np.zeros((3, *pairs.suffixes.shape)), 10)]))
    assert sum("before none, after token 0" in note for note in common_sequences(audits).notes) == 1
