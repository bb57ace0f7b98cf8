"""Corpora on disk in all formats, valid and damaged."""

import csv
import gzip
import json
import os
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest

from harness.audits.sequence.dataset import paragraphs_of
from harness.core.errors import HarnessError
from harness.corpora.documents import documents_in
from harness.corpora.text_files import Notes


def read(
    path: Path, field: str | None = None, split: str | None = None
) -> tuple[list[tuple[str, list[str]]], list[str]]:
    notes = Notes()
    found = documents_in(path, field=field, split=split, notes=notes)
    return [(document.name, list(paragraphs_of(document.lines))) for document in found], notes.sentences


def save_arrow_set(folder: Path, texts: list[str | None], *, files: int = 1) -> None:
    folder.mkdir(parents=True)
    names = []
    for number in range(files):
        names.append(f"data-{number:05}-of-{files:05}.arrow")
        table = pyarrow.table({"id": list(range(len(texts[number::files]))), "text": texts[number::files]})
        with pyarrow.OSFile(str(folder / names[-1]), "wb") as sink, pyarrow.ipc.new_stream(sink, table.schema) as out:
            out.write_table(table, max_chunksize=2)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    (folder / "dataset_info.json").write_text("{}")


def test_a_directory_has_a_document_per_file_without_hidden_ones(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "secret").write_text("hidden")
    (tmp_path / "b.txt").write_text("one\n\ntwo")
    (tmp_path / "sub" / "a.md").write_text("three")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert read(tmp_path) == ([("b.txt", ["one", "two"]), ("sub/a.md", ["three"])], [])


def test_invalid_json_lines_are_skipped_with_a_note(tmp_path: Path) -> None:
    lines = [
        '{"text": "one"}',
        "{broken",
        '{"body": "x", "id": 3}',
        "[1]",
        '{"text": 5}',
        "",
        '{"text": "two\\n\\nthree"}',
    ]
    (tmp_path / "c.jsonl").write_bytes("\n".join(lines).encode() + b'\n{"text": "\xff"}\n' + b"[" * 100_000)
    documents, notes = read(tmp_path / "c.jsonl")
    assert documents == [("c.jsonl:1", ["one"]), ("c.jsonl:7", ["two", "three"])]
    assert notes == [
        "Skipped c.jsonl, line 2: not valid JSON.",
        "Skipped c.jsonl, line 3: no text in the field 'text' (it has 2 fields).",
        "Skipped c.jsonl, line 4: not a JSON object.",
        "Skipped c.jsonl, line 5: no text in the field 'text' (the field does not hold text).",
        "Skipped c.jsonl, line 8: not valid JSON.",
        "Skipped c.jsonl, line 9: not valid JSON.",
    ]


def test_after_three_notes_of_a_kind_the_others_are_counted(tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text("x\n" * 10)
    assert read(tmp_path / "c.jsonl")[1][3:] == ["Skipped 7 further records (lines that are not JSON)."]


def test_a_lone_surrogate_becomes_a_question_mark(tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text('{"text": "a \\ud800 b"}')
    assert read(tmp_path / "c.jsonl")[0] == [("c.jsonl:1", ["a ? b"])]


def test_a_csv_is_read_by_its_column_with_quotes(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text('id,body\n1,"one, and\n\ntwo"\n2\n3,three\n')
    documents, notes = read(tmp_path / "c.csv", field="body")
    assert documents == [("c.csv:4", ["one, and", "two"]), ("c.csv:6", ["three"])]
    assert notes == ["Skipped c.csv, line 5: the row is too short."]


def test_a_csv_without_the_column_is_noted_without_quoting_it(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text('1,"My dear Anne, you are not to tell"\n')
    assert read(tmp_path / "c.csv") == ([], ["Skipped c.csv: no column 'text' among 2 columns."])


def test_text_is_read_up_to_an_invalid_byte(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\n\n" * 5_000 + "caf\u00e9".encode("latin-1"))
    (tmp_path / "b.txt").write_bytes("caf\u00e9 noir".encode("utf-16"))
    (tmp_path / "c.bin").write_bytes(b"\x7fELF\0\0\0")
    documents, notes = read(tmp_path)
    assert set(documents[0][1]) == {"one"}
    assert documents[1:] == [("b.txt", ["caf\u00e9 noir"]), ("c.bin", [])]
    assert notes == [
        "Skipped the rest of a.txt: not UTF-8 text (nor UTF-16 with a BOM).",
        "Skipped c.bin: a binary file (it contains zero bytes).",
    ]


def test_a_saved_data_set_is_read_over_all_its_files(tmp_path: Path) -> None:
    save_arrow_set(tmp_path / "set", ["one", "two", None, "four\n\nfive"], files=2)
    documents, notes = read(tmp_path / "set")
    assert documents == [("set:1", ["one"]), ("set:3", ["two"]), ("set:4", ["four", "five"])]
    assert notes == []


def test_a_data_set_with_splits_is_read_by_its_split(tmp_path: Path) -> None:
    save_arrow_set(tmp_path / "sets" / "train", ["one"])
    save_arrow_set(tmp_path / "sets" / "test", ["two"])
    (tmp_path / "sets" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    assert read(tmp_path / "sets", split="test")[0] == [("test:1", ["two"])]
    with pytest.raises(HarnessError, match=r"has several splits. Choose one with --split: train, test"):
        read(tmp_path / "sets")
    with pytest.raises(HarnessError, match=r"has no split 'dev'"):
        read(tmp_path / "sets", split="dev")


@pytest.mark.parametrize("splits", ["5", '{"train": 1}', "[]", "[5, null]", '"train"', '["..", "a/b", ""]', "null"])
def test_splits_without_names_are_refused(tmp_path: Path, splits: str) -> None:
    save_arrow_set(tmp_path / "sets" / "train", ["one"])
    (tmp_path / "state.json").write_text("{}")
    (tmp_path / "sets" / "dataset_dict.json").write_text(f'{{"splits": {splits}}}')
    for split in (None, "..", "train"):
        with pytest.raises(HarnessError, match="names no splits"):
            read(tmp_path / "sets", split=split)


def test_a_damaged_arrow_file_is_skipped_and_the_next_is_read(tmp_path: Path) -> None:
    save_arrow_set(tmp_path / "set", ["one", "two"], files=2)
    (tmp_path / "set" / "data-00000-of-00002.arrow").write_bytes(b"nothing of the sort")
    documents, notes = read(tmp_path / "set")
    assert documents == [("set:1", ["two"])]
    assert notes == ["Skipped the rest of data-00000-of-00002.arrow: not a valid Arrow file."]


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ("{", "not a JSON object"),
        ("[]", "not a JSON object"),
        ("{}", "lists no Arrow file"),
        ('{"_data_files": [{"filename": "../../etc/passwd"}]}', "lists no Arrow file of its directory"),
        ('{"_data_files": [{"filename": "a"}], "_indices_data_files": [{"filename": "b"}]}', "flatten_indices"),
    ],
)
def test_an_invalid_state_file_is_refused(tmp_path: Path, state: str, says: str) -> None:
    (tmp_path / "state.json").write_text(state)
    with pytest.raises(HarnessError, match=says):
        read(tmp_path)


def test_a_missing_or_non_text_column_is_named(tmp_path: Path) -> None:
    save_arrow_set(tmp_path / "set", ["one"])
    with pytest.raises(HarnessError, match=r"no column 'body' in .*: id, text"):
        read(tmp_path / "set", field="body")
    with pytest.raises(HarnessError, match="has type int64"):
        read(tmp_path / "set", field="id")


def test_a_missing_path_or_split_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="no such file or directory"):
        read(tmp_path / "nowhere")
    (tmp_path / "a.txt").write_text("one")
    with pytest.raises(HarnessError, match="not a data set with splits"):
        read(tmp_path / "a.txt", split="train")


def test_control_characters_in_file_names_are_escaped(tmp_path: Path) -> None:
    (tmp_path / "a\x1b[2J.txt").write_text("one")
    (tmp_path / "b\udcff.txt").write_text("two")
    ((first, _), (second, _)), _ = read(tmp_path)
    assert (first, second) == (r"a\x1b[2J.txt", r"b\udcff.txt")


@pytest.mark.parametrize("name", ["long.csv", "long.tsv"])
def test_the_csv_field_limit_of_the_process_is_restored(tmp_path: Path, name: str) -> None:
    usual = csv.field_size_limit()
    (tmp_path / name).write_text("text\n" + "word " * 50_000 + "\n")
    ((_, (paragraph,)),), notes = read(tmp_path / name)
    assert len(paragraph) > 200_000 and notes == []
    assert csv.field_size_limit() == usual


def test_two_tables_with_long_fields_are_read_in_turn(tmp_path: Path) -> None:
    usual = csv.field_size_limit()
    for name, rows in (("a.csv", 1), ("b.csv", 3)):
        (tmp_path / name).write_text("text\n" + ("word " * 50_000 + "\n") * rows)
    notes = Notes()
    first, second = (documents_in(tmp_path / name, field=None, split=None, notes=notes) for name in ("a.csv", "b.csv"))
    read = [next(second), *first, *second]
    assert [document.name for document in read] == ["b.csv:2", "a.csv:2", "b.csv:3", "b.csv:4"]
    assert notes.sentences == [] and csv.field_size_limit() == usual


def test_a_tsv_has_no_quotes(tmp_path: Path) -> None:
    (tmp_path / "c.tsv").write_text('id\ttext\n1\t"Hello," she said\n2\ttwo\n')
    assert read(tmp_path / "c.tsv") == ([("c.tsv:2", ['"Hello," she said']), ("c.tsv:3", ["two"])], [])


def _zstd(content: bytes) -> bytes:
    compressed: bytes = pyarrow.compress(content, "zstd", asbytes=True)
    return compressed


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".zst", _zstd), (".GZ", gzip.compress)])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", '{"text": "one"}\n\n{"text": "two"}\n'),
        ("a.json", '[{"text": "one"}, "two"]'),
        ("a.csv", "text\none\ntwo\n"),
        ("a.txt", "one\n\ntwo"),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_compressed_files_equal_plain_ones(
    tmp_path: Path, name: str, content: str, encoding: str, suffix: str, compress: Callable[[bytes], bytes]
) -> None:
    encoded = content.encode(encoding)
    (tmp_path / name).write_bytes(encoded)
    (tmp_path / (name + suffix)).write_bytes(compress(encoded[:9]) + compress(encoded[9:]))  # in two members
    plain, compressed = read(tmp_path / name), read(tmp_path / (name + suffix))
    assert [text for _, text in compressed[0]] == [text for _, text in plain[0]] and "two" in str(plain)
    assert compressed[1] == plain[1] == []


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".zst", _zstd)])
def test_a_damaged_compressed_file_is_read_up_to_the_damage(
    tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes]
) -> None:
    lines = "".join(json.dumps({"text": os.urandom(300).hex()}) + "\n" for _ in range(5_000))
    content = compress(lines.encode())
    file = tmp_path / f"a.jsonl{suffix}"
    file.write_bytes(content[: len(content) // 2])
    documents, notes = read(file)
    assert 1_000 < len(documents) < 4_000 and "damaged compression" in notes[-1]
    file.write_bytes(b"plain")
    assert read(file) == ([], [f"Skipped {file.name}: cannot be read (damaged compression)."])


def test_decompressed_bytes_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.corpora.compressed.MAX_BYTES", 1 << 20)
    line = json.dumps({"text": "long"}).encode() + b"\n"
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(line + b"\n" * (1 << 20)))
    documents, notes = read(tmp_path / "a.jsonl.gz")
    assert [text for _, text in documents] == [["long"]]
    assert notes == ["Skipped a.jsonl.gz: cannot be read (more than 1 MB when decompressed)."]


def write_epub(
    file: Path, chapters: dict[str, str], order: str = "ab", compression: int = zipfile.ZIP_DEFLATED, extra: str = ""
) -> None:
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.writestr("mimetype", "application/epub+zip", zipfile.ZIP_STORED)
        archive.writestr("META-INF/container.xml", '<container><rootfile full-path="O/c.opf"/></container>')
        items = "".join(f"<opf:item id='{name}' href='text/{name}%201.xhtml'/>" for name in chapters)
        spine = "".join(f'<opf:itemref idref="{name}"/>' for name in order)
        archive.writestr(
            "O/c.opf", f"<?xml version='1.0'?><opf:package>{items}<!-- {items} -->{spine}{extra}</opf:package>"
        )
        for name, chapter in chapters.items():
            archive.writestr(f"O/text/{name} 1.xhtml", chapter)


def test_the_text_of_an_epub_has_its_paragraphs_in_reading_order(tmp_path: Path) -> None:
    first = (
        "<html><head><title>no</title></head><body><h1>I</h1><p>Call me\n <i>Ish</i>mael &amp; &#8220;co&#8221;.</p>"
    )
    second = "<body><script>if (a < b) no()</script><p>x > y<br/>z<!-- <p>no</p> --></p></body>"
    write_epub(tmp_path / "book.epub", {"b": second, "a": first})
    assert read(tmp_path) == ([("book.epub", ["I", "Call me Ishmael & \u201cco\u201d.", "x > y", "z"])], [])


@pytest.mark.parametrize("tail", ["<script>if (a", "<style>p {}", "<p", "<!-- no", " <b>end"])
def test_no_word_before_damaged_markup_is_lost(tmp_path: Path, tail: str) -> None:
    write_epub(tmp_path / "book.epub", {"a": f"<p>first</p>last words {tail}", "b": "<p>second</p>"})
    lines = read(tmp_path)[0][0][1]
    assert lines[0] == "first" and lines[1].startswith("last words") and lines[-1] == "second"


def test_a_damaged_epub_is_left_out_with_a_note(tmp_path: Path) -> None:
    file = tmp_path / "book.epub"
    write_epub(file, {"a": "<p>one</p>"})
    assert read(file)[0] == [("book.epub", ["one"])] and "the rest of book.epub: damaged" in read(file)[1][0]
    file.write_bytes(file.read_bytes()[:300])
    assert "the rest of book.epub: damaged" in read(file)[1][0]
    write_epub(file, {"a": "<p>" + "a" * (65 << 20)}, "a")
    assert "larger than 64 MB" in read(file)[1][0]
    write_epub(file, {"a": "<" * (1 << 20) + "=" * 9, "b": "<p " + "a" * (1 << 20) + "<!--" * (1 << 18)})
    assert read(file)[1] == []
    write_epub(file, {"a": "<p>one</p>"}, compression=zipfile.ZIP_LZMA)
    assert "the rest of book.epub: damaged" in read(file)[1][0]


@pytest.mark.parametrize("kind", ["empty tags", "words", "items", "json"])
def test_a_text_takes_little_memory_for_its_size(tmp_path: Path, kind: str) -> None:
    size = 1 << 20
    chapter = {"empty tags": "<p>" * (size // 3), "words": "a " * (size // 2)}.get(kind, "<p>one</p>")
    file = tmp_path / ("texts.json" if kind == "json" else "book.epub")
    if kind == "json":
        file.write_text(json.dumps([{"text": "a" * size}]))
    else:
        write_epub(file, {"a": chapter}, "a", extra="<a/>" * (size // 4) if kind == "items" else "")
    tracemalloc.start()
    try:
        assert read(file)[1] == []
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 35 * size


def test_a_pdf_is_left_out_with_advice(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7\n%\xe2\xe3")
    assert read(tmp_path)[1] == ["Skipped a.pdf: a PDF. Extract its text with pdftotext."]
