"""The process that asks the infini-gram engine, started by `index_client`.

The engine is compiled without checks, so damaged files can end its process. Its own output goes to stderr.
"""

import os
import sys
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from infini_gram.engine import InfiniGramEngine

from harness.core.errors import HarnessError
from harness.corpora.index_client import PLACE, READY, REPLY, REQUEST
from harness.corpora.index_files import IndexFiles, Shard, index_files
from harness.corpora.occurrences import Place


def main() -> None:
    """Answer requests until stdin ends."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # The engine takes every file for a table whose whole path contains the word.
    os.chdir(sys.argv[1])
    try:
        server = _Server(index_files(Path()))
    except HarnessError as error:
        sys.exit(str(error))
    replies.write(READY)
    replies.flush()
    while header := _read(sys.stdin.buffer, REQUEST.size):
        number, most = REQUEST.unpack(header)
        tokens = np.frombuffer(_read(sys.stdin.buffer, 4 * number), "<u4")
        count, places = server.answer(tokens.tolist(), most)
        replies.write(REPLY.pack(count, len(places)))
        replies.writelines(PLACE.pack(*place) for place in places)
        replies.flush()


class _Server:
    def __init__(self, files: IndexFiles) -> None:
        self._shards = files.shards
        # Only the probabilities of tokens, which nobody asks for, depend on the vocabulary and its end of text.
        self._engine = InfiniGramEngine(
            index_dir=".", eos_token_id=0, vocab_size=files.separator, token_dtype=f"u{8 * files.width}"
        )

    def answer(self, tokens: list[int], most: int) -> tuple[int, list[Place]]:
        """Return how often the index contains the tokens, and at most `most` places."""
        found: Any = self._engine.find(input_ids=tokens)
        if "error" in found:
            raise ValueError(found["error"])
        places: list[Place] = []
        for shard, (first, end) in zip(self._shards, found["segment_by_shard"], strict=True):
            ranks = np.arange(first, min(end, first + most - len(places)), dtype=np.int64)
            places += _places(shard, shard.suffixes(ranks).tolist()) if len(ranks) else []
        return found["cnt"], places


def _places(shard: Shard, starts: list[int]) -> list[Place]:
    documents = shard.starts()
    numbers = [int(np.searchsorted(documents, np.uint64(start), side="right")) - 1 for start in starts]
    return [
        # A separator stands before the first token of a document.
        Place(shard.number, number, (start - int(documents[number])) // shard.width - 1)
        for number, start in zip(numbers, starts, strict=True)
    ]


def _read(stream: BinaryIO, size: int) -> bytes:
    """Return the next `size` bytes, or none at the end of the stream."""
    data = stream.read(size)
    if data and len(data) != size:
        raise EOFError("a request was cut off")
    return data


if __name__ == "__main__":
    main()
