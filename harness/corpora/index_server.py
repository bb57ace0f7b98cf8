"""The process that asks the infini-gram engine, started by `index_client`.

The engine is compiled without checks, so damaged files can end its process. Its own output goes to stderr.
"""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import numpy as np
from infini_gram.engine import InfiniGramEngine

from harness.corpora.index_client import READY, REPLY, REQUEST
from harness.corpora.index_files import KINDS


def main() -> None:
    """Answer requests until stdin ends. The arguments are the width of a token and the three files of each shard."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    engine = _open_index(int(sys.argv[1]), sys.argv[2:])
    replies.write(READY)
    replies.flush()
    while header := _read(sys.stdin.buffer, REQUEST.size):
        tokens = np.frombuffer(_read(sys.stdin.buffer, 4 * REQUEST.unpack(header)[0]), "<u4")
        found: Any = engine.find(input_ids=tokens.tolist())
        if "error" in found:
            raise ValueError(found["error"])
        replies.writelines(REPLY.pack(*ranks) for ranks in found["segment_by_shard"])
        replies.flush()


def _open_index(width: int, paths: list[str]) -> InfiniGramEngine:
    """Open the index through links. The engine maps the files into memory, so the links can go afterwards.

    It takes every file for a table whose whole path contains the word, and orders the shards by the names of their
    files. Hence the links are in a directory of their own, and their numbers have leading zeros. It leaves out a shard
    without a table, so a missing file is an error here.
    """
    with TemporaryDirectory(prefix="harness-index-") as folder:
        os.chdir(folder)
        for place, path in enumerate(paths):
            number, kind = divmod(place, len(KINDS))
            Path(f"{KINDS[kind]}.{number:09d}").symlink_to(Path(path).resolve(strict=True))
        # Only the probabilities of tokens, which nobody asks for, depend on the vocabulary and its end of text.
        return InfiniGramEngine(
            index_dir=".", eos_token_id=0, vocab_size=(1 << 8 * width) - 1, token_dtype=f"u{8 * width}"
        )


def _read(stream: BinaryIO, size: int) -> bytes:
    """Return the next `size` bytes, or none at the end of the stream."""
    data = stream.read(size)
    if data and len(data) != size:
        raise EOFError("a request was cut off")
    return data


if __name__ == "__main__":
    main()
