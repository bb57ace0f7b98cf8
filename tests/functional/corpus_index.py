"""Infini-gram indexes of small corpora, and a search of the same corpora without an index."""

import resource
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from harness.corpora.occurrences import Place, Span

pytest.importorskip("infini_gram", reason="infini-gram has no wheel for this version of Python or this machine")

Shards = Sequence[Sequence[ArrayLike]]


def build_index(folder: Path, shards: Shards, dtype: str = "<u2") -> Path:
    """Write the index of documents in `shards` to `folder` with the tool of infini-gram, and return the folder.

    With tokens of 4 bytes the tool reserves 32 GiB of memory, so numpy sorts the suffixes in its place.
    """
    folder.mkdir(parents=True)
    width = np.dtype(dtype).itemsize
    for number, documents in enumerate(shards):
        parts = [b"\xff" * width + np.asarray(document, dtype).tobytes() for document in documents]
        sizes = [0, *(len(part) for part in parts)]
        np.cumsum(sizes[:-1]).astype("<u8").tofile(folder / f"offset.{number}")
        (folder / f"tokenized.{number}").write_bytes(b"".join(parts))
    if width == 4:
        for number in range(len(shards)):
            _write_table(folder, number, width)
    else:
        _run_tool(folder, len(shards), width)
    return folder


def _run_tool(folder: Path, shards: int, width: int) -> None:
    """Run the tool, which tokenizes nothing if the tokens are there already.

    It replaces `tokenized` in the whole path of a file to name the table.
    """
    assert "tokenized" not in str(folder)
    empty, scratch = folder / "texts", folder / "scratch"
    empty.mkdir()
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    options = {"data_dir": empty, "temp_dir": scratch, "save_dir": folder, "token_dtype": f"u{8 * width}"}
    options |= {"shards": shards, "cpus": 1, "mem": 1, "ulimit": most_files}
    command = [sys.executable, "-m", "infini_gram.indexing"]
    command += [word for name, value in options.items() for word in (f"--{name}", str(value))]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def _write_table(folder: Path, number: int, width: int) -> None:
    text = (folder / f"tokenized.{number}").read_bytes()
    pointer = int(np.ceil(np.log2(len(text)) / 8))
    starts = sorted(range(0, len(text), width), key=lambda start: text[start:])
    entries = (start.to_bytes(pointer, "little") for start in starts)
    (folder / f"table.{number}").write_bytes(b"".join(entries))


def places_of(shards: Shards, tokens: ArrayLike) -> list[Place]:
    """Return every place of the tokens in the documents."""
    wanted = np.asarray(tokens)
    return [
        Place(shard, number, position)
        for shard, documents in enumerate(shards)
        for number, document in enumerate(documents)
        for position in _positions(np.asarray(document), wanted)
    ]


def _positions(document: NDArray[np.integer], wanted: NDArray[np.integer]) -> list[int]:
    starts = len(document) - len(wanted) + 1
    if starts < 1:
        return []
    windows = np.lib.stride_tricks.sliding_window_view(document, len(wanted))
    found: list[int] = np.flatnonzero((windows == wanted).all(axis=1)).tolist()
    return found


def longest_of(shards: Shards, tokens: ArrayLike) -> Span:
    """Return the first of the longest spans of the tokens that the documents contain."""
    row = np.asarray(tokens)
    best = Span(0, 0)
    for start in range(len(row)):
        while start + best.length < len(row) and places_of(shards, row[start : start + best.length + 1]):
            best = Span(start, best.length + 1)
    return best


def windows_of(shards: Shards, tokens: ArrayLike, min_tokens: int) -> list[int]:
    """Return the start of each window of `min_tokens` tokens that the documents contain."""
    row = np.asarray(tokens)
    return [start for start in range(len(row) - min_tokens + 1) if places_of(shards, row[start : start + min_tokens])]


def across_documents(shards: Shards) -> list[int]:
    """Return the end of one document and the start of the next, which no document contains."""
    one, other = next(pair for documents in shards for pair in pairwise(documents))
    return [*np.asarray(one)[-3:].tolist(), *np.asarray(other)[:3].tolist()]
