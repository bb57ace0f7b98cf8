import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from tokenizers import Tokenizer

from harness.audits.classifier import Entity
from harness.audits.leakage.inputs import (
    LeakageSubject,
    Model,
    PairSize,
    read_documents,
    read_pairs,
    shared_tokenizer,
)
from harness.audits.leakage.pairs import LeakageParams, Pairs, PairTexts, entity_pairs, token_at
from harness.audits.options import Reading
from harness.audits.sources import CorpusFiles
from harness.core.errors import HarnessError
from harness.core.rounds import load_round
from harness.demo import CORPUS, SIZES, WEIGHTS
from tests.demo_target.names import NAME

DEMO, SMALL, TINY = (Model(size.name, size.weights) for size in SIZES)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(WEIGHTS / "tokenizer.json"))


WHOLE = PairSize()


def _pairs(path: Path, size: PairSize = WHOLE, models=(TINY,), limit: int = 100) -> Pairs:
    return read_pairs(CorpusFiles(path), models, size, limit=limit, seed=0)


def _model(folder: Path, **config) -> Model:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    return Model(folder.name, folder)


def test_token_files_are_read_as_pairs(tmp_path):
    rows = np.random.default_rng(0).integers(0, 384, (20, 70))
    np.save(tmp_path / "rows.npy", rows)
    np.savez(tmp_path / "pairs.npz", prefixes=rows[:, :50], suffixes=rows[:, 50:])
    whole, parts = _pairs(tmp_path / "rows.npy"), _pairs(tmp_path / "pairs.npz")
    assert (whole.prefixes == rows[:, :50]).all() and (parts.suffixes == rows[:, 50:]).all()
    shorter = _pairs(tmp_path / "pairs.npz", PairSize(prefix=10, suffix=4))
    assert (shorter.prefixes == rows[:, 40:50]).all() and (shorter.suffixes == rows[:, 50:54]).all()
    few = _pairs(tmp_path / "pairs.npz", limit=7)
    assert len(few) == 7 and (_pairs(tmp_path / "pairs.npz", limit=7).prefixes == few.prefixes).all()


@pytest.mark.parametrize("ending", [".jsonl", ".tsv"])
def test_text_pairs_are_encoded_as_one_text(tmp_path, tokenizer, ending):
    prefix = "Nobody in Tormika carried the amber lantern beside the narrow harbour, said Vulzish; " * 2
    suffix = "and the furnace stood behind a garden that Kelbor watched."
    records = [{"prefix": prefix, "suffix": suffix}, {"prefix": "too short", "suffix": suffix}]
    path = tmp_path / f"pairs{ending}"
    if ending == ".jsonl":
        path.write_text("\n".join([*map(json.dumps, records), "no JSON", json.dumps({"prefix": 3}), "\n"]))
    else:
        lines = [f"{one['suffix']}\t{one['prefix']}" for one in records]
        path.write_text("\n".join(["suffix\tprefix", *lines, "only one cell"]))
    found = _pairs(path, PairSize(suffix=8))
    assert len(found) == 1 and found.suffixes.shape == (1, 8)
    begun = tokenizer.decode(found.suffixes[0].tolist())
    assert suffix.startswith(begun.strip()) and len(begun) > 8
    assert prefix.rstrip().endswith(tokenizer.decode(found.prefixes[0].tolist()))
    assert any("Skipped" in note for note in found.notes)


def test_the_demo_sizes_share_a_tokenizer_and_are_small():
    assert shared_tokenizer([DEMO, SMALL, TINY]).content == (WEIGHTS / "tokenizer.json").read_text()
    further = [file for size in SIZES[1:] for file in size.weights.iterdir()]
    assert sum(file.stat().st_size for file in further) <= 3_000_000


def test_models_without_tokenizers_need_equal_vocabulary_sizes(tmp_path):
    models = [_model(tmp_path / name, vocab_size=size) for name, size in (("a", 9), ("b", 9), ("c", 10))]
    assert shared_tokenizer(models[:2]).content is None
    with pytest.raises(HarnessError, match="a and c have different tokenizers"):
        shared_tokenizer(models)
    with pytest.raises(HarnessError, match=r"Add the tokenizer\.json of the model"):
        shared_tokenizer([DEMO, models[0]])


def _array(path: Path, array) -> Path:
    np.save(path, array)
    return path


@pytest.mark.parametrize(
    ("make", "size", "sentence"),
    [
        (lambda p: p / "absent.npz", PairSize(), "no such file"),
        (lambda p: p / "absent.jsonl", PairSize(), "no such file"),
        (lambda p: _array(p / "a.npy", np.zeros((3, 60))), PairSize(), "expected integers"),
        (lambda p: _array(p / "a.npy", np.zeros((3, 50), int)), PairSize(), "have no suffix"),
        (lambda p: _array(p / "a.npy", np.full((3, 60), 999)), PairSize(), "demo-tiny has no token 999"),
        (lambda p: _array(p / "a.npy", np.full((3, 60), -1)), PairSize(), "contains the token -1"),
        (lambda p: _array(p / "a.npy", np.zeros((3, 400), int)), PairSize(), "context of demo-tiny is 256"),
        (lambda p: _array(p / "a.npy", np.zeros((0, 60), int)), PairSize(), "contains no pair"),
        (lambda p: _array(p / "a.npy", np.zeros((3, 60), int)), PairSize(suffix=11), "a suffix has 10 tokens"),
    ],
)
def test_invalid_token_files_are_refused(tmp_path, make, size, sentence):
    with pytest.raises(HarnessError, match=sentence):
        _pairs(make(tmp_path), size)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.npz", b"not a zip", "not an archive of plain arrays"),
        ("a.jsonl", b"", "It is empty"),
        ("a.jsonl", b"\xff\xfe\x00", "not UTF-16 text"),
        ("a.jsonl", b'{"prefix": "a", "suffix": "b"}', "line 1: fewer than 50 tokens before the suffix"),
        ("a.tsv", b"one\ttwo\n", "no column 'text' among 2 columns. A record has `prefix` and `suffix`"),
        ("a.txt", b"text", r"no text of 100 tokens\. Skipped a.txt: [0-9]+ tokens, and 100 are needed"),
        ("a.jsonl", b'{"prefix": "\\ud800", "suffix": "\\udfff"}\n[[[', "line 1: fewer than 50 tokens"),
    ],
)
def test_invalid_text_files_are_refused(tmp_path, name, content, sentence):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(HarnessError, match=sentence):
        _pairs(tmp_path / name)


def test_an_archive_needs_both_arrays_with_equally_many_rows(tmp_path):
    np.savez(tmp_path / "a.npz", prefixes=np.zeros((2, 3), int))
    with pytest.raises(HarnessError, match="no array 'suffixes'"):
        _pairs(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", prefixes=np.zeros((2, 3), int), suffixes=np.zeros((3, 3), int))
    with pytest.raises(HarnessError, match="2 prefixes, 3 suffixes"):
        _pairs(tmp_path / "b.npz")


TEXTS = json.loads(CORPUS.read_bytes())[:6]


def _write_folder(folder: Path) -> None:
    folder.mkdir()
    for number, text in enumerate(TEXTS):
        (folder / f"{number}.txt").write_text(text)


def _write_lines(field: str, others: dict[str, str], file: Path) -> None:
    file.write_text("\n".join(json.dumps({field: text} | others) for text in TEXTS))


@pytest.mark.parametrize(
    ("name", "field", "write"),
    [
        ("folder", None, _write_folder),
        ("texts.jsonl", None, partial(_write_lines, "text", {})),
        ("texts.jsonl", "body", partial(_write_lines, "body", {"prefix": "a", "suffix": "b"})),
        ("texts.jsonl", None, partial(_write_lines, "text", {"prefix": "only half of a pair"})),
    ],
)
def test_plain_texts_are_cut_into_sequences(
    tmp_path: Path, tokenizer: Tokenizer, name: str, field: str | None, write: Callable[[Path], object]
) -> None:
    write(tmp_path / name)
    size = PairSize(prefix=20, suffix=13)
    pairs = read_pairs(CorpusFiles(tmp_path / name, field), [TINY], size, limit=1000, seed=0)
    expected = []
    for number, text in enumerate(TEXTS):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        expected += [(number, ids[start : start + 33]) for start in range(0, len(ids) - 32, 33)]
    rows = np.concatenate([pairs.prefixes, pairs.suffixes], axis=1)
    assert list(zip(pairs.rows.tolist(), rows.tolist(), strict=True)) == expected
    assert pairs.prefixes.shape[1] == 20 and pairs.source_rows == len(TEXTS)
    assert pairs.notes == [f"Cut 6 of 6 texts into {len(expected)} sequences of 20 + 13 tokens."]


def test_texts_that_are_too_short_are_counted(tmp_path: Path) -> None:
    texts = ["", "short", *TEXTS[:1], *["too short"] * 20]
    (tmp_path / "texts.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in texts))
    pairs = _pairs(tmp_path / "texts.jsonl")
    assert pairs.rows.tolist() == [2] * len(pairs) and pairs.prefixes.shape[1] == pairs.suffixes.shape[1] == 50
    skipped = sum("tokens, and 100 are needed" in note for note in pairs.notes)
    assert f"Skipped {21 - skipped} further records (texts that are too short)." in pairs.notes
    assert f"Cut 1 of 23 texts into {len(pairs)} sequence{'s' * (len(pairs) > 1)} of 50 + 50 tokens." in pairs.notes


def test_a_blind_round_is_refused(tmp_path):
    (tmp_path / "blind.toml").write_text('base = "demo"\nname = "blind"\nanswer_file = ""\n')
    with pytest.raises(HarnessError, match="round blind is blind"):
        read_pairs(load_round(str(tmp_path / "blind.toml")), [TINY], PairSize(), limit=10, seed=0)


def test_text_needs_a_tokenizer(tmp_path):
    bare = _model(tmp_path / "bare", vocab_size=384)
    (tmp_path / "a.jsonl").write_text("{}")
    with pytest.raises(HarnessError, match=r"has no tokenizer\.json"):
        _pairs(tmp_path / "a.jsonl", models=[bare])
    with pytest.raises(HarnessError, match=r"has no tokenizer\.json"):
        read_documents(CorpusFiles(tmp_path / "a.jsonl"), [bare], PairSize(), limit=9)


def test_a_corpus_without_text_is_refused_with_the_reason(tmp_path):
    for content, reason in ((b"", "It is empty"), ("caf\u00e9".encode("latin-1"), "not UTF-8")):
        (tmp_path / "a.txt").write_bytes(content)
        with pytest.raises(HarnessError, match=rf"contains no text.*{reason}"):
            read_documents(CorpusFiles(tmp_path), [TINY], PairSize(), limit=9)


def test_entities_are_cut_at_token_boundaries(tokenizer):
    text = "Before the keen kettle the warm ledger stood; " * 4 + "then Zolrish, and Bolmor followed."
    spans = [Entity(*match.span(), "PER") for match in NAME.finditer(text)]
    shape, long = (Pairs(np.empty((0, length)), np.empty((0, 4)), None) for length in (50, 500))
    cuts = list(entity_pairs(text, spans, tokenizer, shape, ["per"]))
    assert [tokenizer.decode(tokens[50:]) for _, tokens in cuts] == [" Zolrish", " Bolmor"]
    assert all(len(tokens) == 54 and text[start:].startswith(("Zolrish", "Bolmor")) for start, tokens in cuts)
    assert not list(entity_pairs(text, spans, tokenizer, shape, ["LOC"]))
    assert not list(entity_pairs(text, spans, tokenizer, long, []))
    inside = [Entity(spans[0].start + 1, spans[0].end, "PER")]
    assert not list(entity_pairs(text, inside, tokenizer, shape, []))


def test_a_cut_within_a_token_is_no_pair(tokenizer):
    text = "the harbour and the harbour"
    encoding = tokenizer.encode(text)
    for begin, end in encoding.offsets:
        first = begin + len(text[begin:end]) - len(text[begin:end].lstrip())
        assert token_at(encoding, text, first) is not None
        assert all(token_at(encoding, text, inside) is None for inside in range(first + 1, end))
    assert token_at(encoding, text, len(text)) is None


def test_tokens_decode_to_pieces_or_numbers(tokenizer):
    ids = np.array(tokenizer.encode("Zolrish – naïve").ids)
    pairs = Pairs(ids[None], ids[None], (WEIGHTS / "tokenizer.json").read_text())
    pieces = PairTexts(pairs).pieces(ids)
    assert "".join(pieces) == "Zolrish – naïve" and len(pieces) == len(ids) and "\ufffd" not in "".join(pieces)
    assert PairTexts(replace(pairs, tokenizer=None)).pieces(ids[:2]) == [f"{ids[0]} ", f"{ids[1]} "]


def reading_of(subject: LeakageSubject, *lengths: int) -> Reading:
    """Return what a subject has read for the smallest demo target."""
    find_models = Mock(side_effect=lambda ids, **_: [Mock(id=name, path=TINY.path) for name in ids])
    preparation = Mock(seed=0, revision="main", find_models=find_models)
    return subject.read(LeakageParams(prefix_lengths=lengths), preparation)


def read(subject: LeakageSubject, *lengths: int) -> LeakageParams:
    """Return the parameters after a subject has read its pairs for the smallest demo target."""
    return reading_of(subject, *lengths).params


def test_pairs_come_from_one_source():
    with pytest.raises(HarnessError, match="two sources are named"):
        read(LeakageSubject(pairs=Path("a.npz"), round="demo"))


def test_a_corpus_is_read_with_a_tagger_which_is_the_last_model(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"body": "A text."}\n')
    corpus = {"corpus": path, "target": ("demo",), "field": "body"}
    reading = reading_of(LeakageSubject(**corpus, tagger="ner", limit=7), 10)
    pairs = reading.inputs
    assert (list(pairs.documents), pairs.limit, reading.files) == (["A text."], 7, {"corpus": path})
    assert pairs.prefix_length == 50 and pairs.suffixes.shape == (0, 4)
    assert pairs.split_models([model.id for model in reading.models]) == (["demo"], "ner")
    for fields, sentence in (
        ({}, "--corpus and --tagger must be given together"),
        ({"tagger": "demo"}, "demo is both --target and --tagger"),
        ({"tagger": "ner", "pairs": path}, "two sources are named"),
        ({"tagger": "ner", "round": "demo"}, "two sources are named"),
    ):
        with pytest.raises(HarnessError, match=sentence):
            read(LeakageSubject(**corpus, **fields))
    with pytest.raises(HarnessError, match="--shorter-prefixes 90: the prefixes have 50 tokens"):
        read(LeakageSubject(**corpus, tagger="ner"), 90)


def test_a_prefix_length_beyond_the_prefixes_is_refused():
    for size, longest in ((None, 50), (20, 20)):
        subject = LeakageSubject(round="demo", prefix_tokens=size, limit=5)
        assert read(subject, 10, longest).prefix_lengths == (10, longest)
        with pytest.raises(HarnessError, match=rf"--shorter-prefixes 90: the prefixes have {longest} tokens"):
            read(subject, 10, 90)


def test_damaged_tokenizers_are_refused(tmp_path):
    model = _model(tmp_path / "model", vocab_size=384)
    shutil.copy(WEIGHTS / "tokenizer.json", model.path)
    (model.path / "tokenizer.json").write_text("{")
    with pytest.raises(HarnessError, match=r"not a tokenizer\.json"):
        shared_tokenizer([model, TINY])
    (model.path / "tokenizer.json").write_bytes(b"\xff\xfe{")
    with pytest.raises(HarnessError, match="not UTF-8"):
        shared_tokenizer([model, TINY])
