"""The same texts in every type of file, encoding and line end, and the files that were read wrongly once."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import parquet

Write = Callable[[Path, Sequence[str]], Path]
"""Writes texts below a directory, one document each, and returns the path of the corpus."""


def write_texts(folder: Path, texts: Sequence[str], encoding: str = "utf-8", end: str = "\n") -> Path:
    """Write each text as a file of its own."""
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, text in enumerate(texts):
        (corpus / f"{number:03}.txt").write_bytes(text.replace("\n", end).encode(encoding))
    return corpus


def write_json(
    folder: Path, texts: Sequence[str], encoding: str = "utf-8", end: str = "\n", *, name: str = "a.jsonl", **dump: Any
) -> Path:
    """Write an object for each text, on lines or, in `array.json`, in an array."""
    records = [json.dumps({"id": 1, "text": text.replace("\n", end)}, **dump) for text in texts]
    content = f"[{','.join(records)}]" if name == "array.json" else "".join(f"{record}{end}" for record in records)
    (folder / name).write_bytes(content.encode(encoding))
    return folder / name


def write_table(
    folder: Path, texts: Sequence[str], encoding: str = "utf-8", end: str = "\n", *, name: str = "a.csv"
) -> Path:
    """Write a CSV or, without quotes, a TSV."""
    buffer = io.StringIO(newline="")
    if name.endswith(".csv"):
        rows = csv.writer(buffer, lineterminator=end)
        rows.writerow(["id", "text"])
        rows.writerows([1, text.replace("\n", end)] for text in texts)
    else:
        buffer.write(f"id\ttext{end}" + "".join(f"1\t{text}{end}" for text in texts))
    (folder / name).write_bytes(buffer.getvalue().encode(encoding))
    return folder / name


def write_parquet(folder: Path, texts: Sequence[str], end: str = "\n", *, kind: Any = None) -> Path:
    """Write a Parquet file whose column of texts has the type `kind`."""
    column = pyarrow.array([text.replace("\n", end) for text in texts], pyarrow.string())
    parquet.write_table(pyarrow.table({"text": column.cast(kind or pyarrow.string())}), folder / "a.parquet")
    return folder / "a.parquet"


def write_arrow_set(folder: Path, texts: Sequence[str], *, kind: Any = None) -> Path:
    """Write a directory as `save_to_disk` does."""
    corpus = folder / "set"
    corpus.mkdir()
    table = pyarrow.table({"text": pyarrow.array(list(texts), pyarrow.string()).cast(kind or pyarrow.string())})
    with pyarrow.OSFile(str(corpus / "data.arrow"), "wb") as sink, pyarrow.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table)
    (corpus / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data.arrow"}]}))
    return corpus


def write_hub_folder(folder: Path, texts: Sequence[str]) -> Path:
    """Write a directory as `hf download --repo-type dataset` leaves it."""
    corpus = folder / "hub"
    corpus.mkdir()
    write_json(corpus, texts, name="train.json")
    (corpus / "README.md").write_text("---\nlicense: mit\n---\n" + "About this data set. " * 60)
    (corpus / "LICENSE").write_text("Permission is hereby granted. " * 60)
    (corpus / "dataset_infos.json").write_text(json.dumps({"default": {"description": "words " * 60}}, indent=2))
    (corpus / ".gitattributes").write_text("*.json filter=lfs")
    return corpus


DICTIONARY = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
CASES: dict[str, Write] = {
    "text": write_texts,
    "text with CR LF": lambda folder, texts: write_texts(folder, texts, end="\r\n"),
    "text with CR": lambda folder, texts: write_texts(folder, texts, end="\r"),
    "text in UTF-16 with CR LF": lambda folder, texts: write_texts(folder, texts, "utf-16", "\r\n"),
    "text with a BOM": lambda folder, texts: write_texts(folder, texts, "utf-8-sig"),
    "JSON Lines": write_json,
    "JSON Lines with CR LF in texts": lambda folder, texts: write_json(folder, texts, end="\r\n"),
    "JSON Lines with a BOM": lambda folder, texts: write_json(folder, texts, "utf-8-sig", ensure_ascii=False),
    "JSON Lines in UTF-16": lambda folder, texts: write_json(folder, texts, "utf-16", "\r\n"),
    "JSON Lines named .json": lambda folder, texts: write_json(folder, texts, name="a.json"),
    "JSON array": lambda folder, texts: write_json(folder, texts, name="array.json"),
    "JSON array with a BOM": lambda folder, texts: write_json(folder, texts, "utf-8-sig", name="array.json"),
    "CSV": write_table,
    "CSV with CR LF": lambda folder, texts: write_table(folder, texts, "utf-8-sig", "\r\n"),
    "Parquet": write_parquet,
    "Parquet with CR LF": lambda folder, texts: write_parquet(folder, texts, "\r\n"),
    "Parquet with large strings": lambda folder, texts: write_parquet(folder, texts, kind=pyarrow.large_string()),
    "Parquet with string views": lambda folder, texts: write_parquet(folder, texts, kind=pyarrow.string_view()),
    "Parquet with a dictionary": lambda folder, texts: write_parquet(folder, texts, kind=DICTIONARY),
    "Arrow": write_arrow_set,
    "Arrow with string views": lambda folder, texts: write_arrow_set(folder, texts, kind=pyarrow.string_view()),
    "Arrow with a dictionary": lambda folder, texts: write_arrow_set(folder, texts, kind=DICTIONARY),
    "a directory of the hub": write_hub_folder,
}
