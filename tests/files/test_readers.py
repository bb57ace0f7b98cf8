"""Every reader of text gives the same for the same texts, whatever their file, their line ends and their tokenizer."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from harness.audits.book.inputs import BookParams, read_texts
from harness.audits.leakage.inputs import PairSize, read_pairs
from harness.audits.membership.inputs import MembershipParams
from harness.audits.membership.inputs import read_documents as read_members
from harness.audits.models import Model
from harness.audits.sequence.dataset import SequenceParams
from harness.audits.sequence.inputs import read_inputs
from harness.audits.sources import CorpusFiles
from harness.core.errors import HarnessError, UsageError
from harness.core.tokenizers import load_tokenizer
from harness.corpora.documents import documents_in, require_fields
from harness.corpora.opening import Corpus, open_corpus
from harness.corpora.text_files import Notes
from harness.demo import SIZES
from tests.files.odd_files import (
    CASES,
    write_hub_folder,
    write_json,
    write_parquet,
    write_table,
    write_texts,
)

TINY = SIZES[-1].weights
LINES = [" ".join(f"w{text}x{word}" for word in range(14)) for text in range(6)]
TEXTS = [f"{line}\nThe end of <|endoftext|> {number}, “café”\u2028.\n" for number, line in enumerate(LINES)]
Read = Callable[..., tuple[list[str], list[str]]]


def _documents(path: Path, model: Path = TINY, *, keeps: bool = False) -> tuple[list[str], list[str]]:
    notes = Notes()
    found = documents_in(path, field=None, split=None, notes=notes, keeps_line_ends=keeps)
    return ["".join(document.lines) for document in found], notes.sentences


def _sequence(path: Path, model: Path = TINY, *, keeps: bool = False) -> tuple[list[str], list[str]]:
    files = CorpusFiles(path, keeps_line_ends=keeps)
    read = read_inputs(files, None, SequenceParams(prompt_length=(5,)), seed=0)
    return [f"{a}|{b}" for a, b in zip(read.prompts, read.suffixes, strict=True)], list(read.notes)


def _membership(path: Path, model: Path = TINY, *, keeps: bool = False) -> tuple[list[str], list[str]]:
    others = write_json(model if model != TINY else path.parent, ["another text " * 40], name="others.jsonl")
    files, params = CorpusFiles(path, keeps_line_ends=keeps), MembershipParams(tokens=200, shots=0)
    found = read_members(files, CorpusFiles(others), [Model("m", model)], params, limit=9, seed=0)
    read = found
    return [text for text, is_member in zip(read.texts, read.is_member, strict=True) if is_member], list(read.notes)


def _book(path: Path, model: Path = TINY, *, keeps: bool = False) -> tuple[list[str], list[str]]:
    params = BookParams(prefix_tokens=20, suffix_tokens=20)
    read = read_texts([CorpusFiles(path, keeps_line_ends=keeps)], None, [Model("m", model)], params)
    return list(read.texts), list(read.notes)


def _round(path: Path, model: Path = TINY, *, keeps: bool = False) -> tuple[list[str], list[str]]:
    tokenizer = model / "tokenizer.json"
    with TemporaryDirectory() as work:
        corpus = Corpus(path, tokenizer, None, None, "<|endoftext|>", keeps)
        opened = open_corpus(corpus, Path(work), lambda done, total: None)
        tokens = np.asarray(opened.stream.tokens).tolist()
        return [load_tokenizer(tokenizer).decode(tokens, skip_special_tokens=False)], opened.notes


READERS: dict[str, Read] = {
    "documents": _documents,
    "sequence": _sequence,
    "membership": _membership,
    "book": _book,
    "rounds": _round,
}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The result of each reader for the same texts in one JSON Lines file."""
    path = write_json(tmp_path_factory.mktemp("plain"), TEXTS)
    found = {name: read(path) for name, read in READERS.items()}
    assert not any(notes for _, notes in found.values())
    assert found["documents"][0] == TEXTS
    return {name: texts for name, (texts, _) in found.items()}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("case", CASES)
def test_every_reader_gives_the_same_for_every_file(
    tmp_path: Path, expected: dict[str, list[str]], reader: str, case: str
) -> None:
    texts, notes = READERS[reader](CASES[case](tmp_path, TEXTS))
    assert sorted(texts) == sorted(expected[reader])
    has_others = "CR" in case or case == "JSON Lines in UTF-16"
    assert any("--keep-line-ends keeps them" in note for note in notes) == has_others
    about = {"README.md", "LICENSE", "dataset_infos.json"} if case == "a directory of the hub" else set()
    assert {name for name in about for note in notes if f"Left out {name}" in note} == about


@pytest.mark.parametrize("reader", [name for name in READERS if name not in ("sequence", "leakage")])
def test_line_ends_can_be_kept(tmp_path: Path, reader: str) -> None:
    texts, notes = READERS[reader](write_texts(tmp_path, TEXTS, end="\r\n"), keeps=True)
    assert all("\r\n" in text for text in texts)
    assert any(note.startswith("Line ends CR LF or CR were kept in") for note in notes)


def _model(folder: Path, **stored: Any) -> Path:
    folder.mkdir()
    shutil.copy(TINY / "config.json", folder)
    content = json.loads((TINY / "tokenizer.json").read_text()) | stored
    (folder / "tokenizer.json").write_text(json.dumps(content))
    return folder


TRUNCATION = {"direction": "Right", "max_length": 10, "strategy": "LongestFirst", "stride": 0}
PADDING = {
    "strategy": {"Fixed": 256},
    "direction": "Right",
    "pad_to_multiple_of": None,
    "pad_id": 0,
    "pad_type_id": 0,
    "pad_token": "<|endoftext|>",
}


@pytest.mark.parametrize("reader", [name for name in READERS if name not in ("documents", "sequence")])
@pytest.mark.parametrize("stored", [{"truncation": TRUNCATION}, {"padding": PADDING}], ids=["truncation", "padding"])
def test_stored_truncation_and_padding_change_nothing(
    tmp_path: Path, expected: dict[str, list[str]], reader: str, stored: dict[str, Any]
) -> None:
    model = _model(tmp_path / "model", **stored)
    assert getattr(Tokenizer.from_file(str(model / "tokenizer.json")), next(iter(stored))) is not None
    assert READERS[reader](write_json(tmp_path, TEXTS), model)[0] == expected[reader]


PAIRS = [{"prefix": f"{line} <|endoftext|>", "suffix": f" {line}"} for line in LINES]


@pytest.mark.parametrize("stored", [{}, {"truncation": TRUNCATION}, {"padding": PADDING}])
@pytest.mark.parametrize("name", ["pairs.jsonl", "pairs.json"])
def test_pairs_are_cut_from_the_whole_text(tmp_path: Path, stored: dict[str, Any], name: str) -> None:
    model = Model("m", _model(tmp_path / "model", **stored))
    records = [json.dumps({**pair, "prefix": pair["prefix"] + "\r\n"}) for pair in PAIRS]
    content = f"[{','.join(records)}]" if name == "pairs.json" else "\n".join(records)
    (tmp_path / name).write_text(content)
    found = read_pairs(CorpusFiles(tmp_path / name), [model], PairSize(30, 30), limit=9, seed=0)
    assert found.prefixes.shape == (6, 30) and found.suffixes.shape == (6, 30)
    # The name of a special token is text, and nothing is padding.
    assert 0 not in found.prefixes and 0 not in found.suffixes
    assert found.notes == [f"Line ends CR LF or CR became LF in 1 file: {name}. --keep-line-ends keeps them."]
    with pytest.raises(HarnessError, match="fewer than 30 tokens before the suffix or 2000 in it"):
        read_pairs(CorpusFiles(tmp_path / name), [model], PairSize(30, 2000), limit=9, seed=0)


def test_pairs_that_begin_with_the_first_token_are_named(tmp_path: Path) -> None:
    template = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [0], "tokens": ["<|endoftext|>"]}},
    }
    model = Model("m", _model(tmp_path / "model", post_processor=template))
    prefixes = np.arange(3, 63).reshape(6, 10)
    prefixes[:2, 0] = 0
    np.savez(tmp_path / "pairs.npz", prefixes=prefixes, suffixes=prefixes[:, 1:])
    found = read_pairs(CorpusFiles(tmp_path / "pairs.npz"), [model], PairSize(), limit=9, seed=0)
    assert found.notes == [
        "2 of 6 prefixes begin with token 0, which the tokenizer puts before every text. The model sees it once."
    ]
    assert read_pairs(CorpusFiles(tmp_path / "pairs.npz"), [Model("m", TINY)], PairSize(), limit=9, seed=0).notes == []


@pytest.mark.parametrize(
    ("name", "content", "notes"),
    [
        ("infos.json", '{"default": {"a": 1}}', ["Left out infos.json: it contains no array of records."]),
        ("a.json", "[1, 2]", [f"Skipped a.json, record {n}: not a JSON object." for n in (1, 2)]),
        ("a.json", '[{"body": "x"}]', ["Skipped a.json, record 1: no text in the field 'text' (it has 1 field)."]),
        ("a.json", "not JSON", ["Skipped a.json, line 1: not valid JSON."]),
        ("a.jsonl.gz", "\x1f\x8b\0", ["Skipped a.jsonl.gz: cannot be read (damaged compression)."]),
        ("a.jsonl.bz2", "BZh\0", ["Skipped a.jsonl.bz2: a binary file (it contains zero bytes)."]),
    ],
)
def test_what_is_no_text_of_the_corpus_is_named(tmp_path: Path, name: str, content: str, notes: list[str]) -> None:
    (tmp_path / name).write_text(content, encoding="latin-1")
    found, said = _documents(tmp_path / name)
    assert [text for text in found if text] == [] and said == notes


def test_an_array_of_texts_and_one_object_are_records(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(["one", "two"]))
    (tmp_path / "b.json").write_text(json.dumps({"text": "three"}, indent=1))
    assert _documents(tmp_path) == (["one", "two", "three"], [])


def test_a_readme_that_is_named_or_deeper_is_text(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "README.md").write_text("deep")
    (tmp_path / "README.md").write_text("named")
    assert _documents(tmp_path) == (["deep"], ["Left out README.md: it describes the corpus."])
    assert _documents(tmp_path / "README.md") == (["named"], [])


def test_a_field_without_effect_is_an_error(tmp_path: Path) -> None:
    corpus = write_texts(tmp_path, TEXTS)
    with pytest.raises(UsageError, match=r"--field has no effect: no source contains records\. Remove --field\."):
        require_fields("answer", [corpus, None, corpus / "000.txt"])
    for has_fields in (write_json(tmp_path, TEXTS), write_hub_folder(tmp_path, TEXTS), tmp_path / "absent"):
        require_fields("answer", [corpus, has_fields])
    require_fields(None, [corpus])


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "text",
    ["我们的文本没有空格" * 20, "これは日本語の文章です。" * 20, "ภาษาไทยไม่มีช่องว่าง" * 20, "我们的文本没\n" * 60],
    ids=["Chinese", "Japanese", "Thai", "wrapped"],
)
def test_text_without_spaces_is_refused(tmp_path: Path, text: str, end: str) -> None:
    spaced = "\n".join(text[start : start + 9] for start in range(0, len(text), 9))
    with pytest.raises(HarnessError, match="script without spaces between words"):
        _sequence(write_texts(tmp_path, [spaced if "\n" not in text else text], end=end))


def test_text_split_into_words_is_read(tmp_path: Path) -> None:
    words = ["我们 的 文本 有 空格 " * 20, "ภาษา ไทย มี ช่อง ว่าง " * 20, "A text with 引用文 of it. " * 20]
    assert len(_sequence(write_texts(tmp_path, words))[0]) == 3


CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\ufeff\x1a")
# Hardly any text would contain a line feed by chance.
PARAGRAPHS = st.lists(st.text(CHARACTERS, min_size=1, max_size=12), min_size=1, max_size=4).map("\n".join)
ENCODINGS = st.sampled_from(["utf-8", "utf-8-sig", "utf-16"])
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


@settings(max_examples=150, deadline=None)
@given(
    texts=st.lists(PARAGRAPHS, min_size=1, max_size=4),
    encoding=ENCODINGS,
    end=ENDS,
    kind=st.sampled_from(["text", "a.jsonl", "a.json", "array.json", "a.csv", "a.tsv", "parquet"]),
    is_ascii=st.booleans(),
)
def test_types_encodings_and_line_ends_give_the_same_documents(
    texts: list[str], encoding: str, end: str, kind: str, is_ascii: bool
) -> None:
    with TemporaryDirectory() as place:
        folder = Path(place)
        if kind == "text":
            path = write_texts(folder, texts, encoding, end)
        elif kind == "parquet":
            path = write_parquet(folder, texts, end)
        elif kind == "a.tsv":
            texts = [text.replace("\n", " ").replace("\t", " ") for text in texts]
            path = write_table(folder, texts, encoding, "\n" if end == "\r" else end, name=kind)
        elif kind == "a.csv":
            path = write_table(folder, texts, encoding, end)
        elif kind == "array.json":
            path = write_json(folder, texts, encoding, end, name=kind, ensure_ascii=is_ascii)
        else:
            # A file of lines cannot end its lines with CR.
            path = write_json(folder, texts, encoding, "\r\n" if end == "\r" else end, name=kind, ensure_ascii=is_ascii)
        found, notes = _documents(path)
        assert found == texts
        has_others = end != "\n" and kind != "a.tsv" and any("\n" in text for text in texts)
        assert len(notes) == has_others and all("became LF" in note for note in notes)
