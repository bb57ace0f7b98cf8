"""The files of an infini-gram index, which are checked before the engine opens them.

The engine checks nothing: it crashes on files that do not belong together, and answers wrongly if one was cut off. An
index is a directory with three files for each shard N:

- `tokenized.N`: the ids of all documents as little-endian unsigned integers of 1, 2 or 4 bytes. Before each document
  stands a separator, the largest integer of that size, which is therefore the id of no token.
- `offset.N`: the first byte of each document (its separator) in `tokenized.N`, as little-endian integers of 8 bytes.
- `table.N`: the suffix array, the first byte of every suffix of `tokenized.N` in the order of the suffixes' bytes, as
  little-endian integers of as many bytes as the size of `tokenized.N` needs.

`python -m infini_gram.indexing` writes all three from texts, or only the table if the other two exist, so documents can
be tokenized by any tokenizer. Without a tokenizer it stores the UTF-8 bytes of the texts, of 1 byte each. No file says
which tokenizer was used. Nor does any say whether documents were reversed (`--version 5`), and such an index contains
hardly any generation.
"""

import math
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import HarnessError
from harness.corpora.occurrences import Place

KINDS = ("tokenized", "table", "offset")
_FILE = re.compile(rf"({'|'.join(KINDS)})\.(\d+)")
_SAMPLED_SUFFIXES, _COMPARED_BYTES = 64, 128
_SAMPLED_DOCUMENTS = 64
_SAMPLED_TOKENS = 1 << 20
_ADVICE = "Build the index again."


@dataclass(frozen=True)
class Shard:
    """One shard of an index. width: bytes of a token; pointer: bytes of an entry of the table."""

    number: int
    tokenized: Path
    table: Path
    offset: Path
    width: int
    pointer: int

    def bytes_of_text(self) -> NDArray[np.uint8]:
        """Return `tokenized`, memory-mapped."""
        return np.memmap(self.tokenized, np.uint8, "r")

    def starts(self) -> NDArray[np.uint64]:
        """Return the first byte of each document, memory-mapped."""
        return np.memmap(self.offset, "<u8", "r")

    def suffixes(self, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the first byte of the suffixes at these places of the table, [ranks]."""
        entries = np.memmap(self.table, np.uint8, "r").reshape(-1, self.pointer)
        wide = np.zeros((len(ranks), 8), np.uint8)
        wide[:, : self.pointer] = entries[ranks]
        return wide.view("<i8")[:, 0]

    def places(self, ranks: NDArray[np.int64]) -> list[Place]:
        """Return the places of the suffixes at these places of the table, [ranks]."""
        documents, starts = self.starts(), self.suffixes(ranks)
        numbers = np.searchsorted(documents, starts.astype(np.uint64), side="right") - 1
        # A separator stands before the first token of a document.
        positions = (starts - documents[numbers].astype(np.int64)) // self.width - 1
        return [Place(self.number, *one) for one in zip(numbers.tolist(), positions.tolist(), strict=True)]


@dataclass(frozen=True)
class IndexFiles:
    """An infini-gram index. documents, tokens: their numbers, without separators."""

    folder: Path
    shards: tuple[Shard, ...]
    documents: int
    tokens: int

    @property
    def width(self) -> int:
        """The bytes of a token."""
        return self.shards[0].width

    @property
    def separator(self) -> int:
        """The id that separates documents, which no token has. All smaller ids can be in the index."""
        return (1 << 8 * self.width) - 1

    def largest_token(self) -> int:
        """Return the largest id in the first, the middle and the last million tokens of the first shard."""
        tokens = self.shards[0].bytes_of_text().view(f"<u{self.width}")
        middle = max(0, len(tokens) - _SAMPLED_TOKENS) // 2
        parts = [tokens[start:][:_SAMPLED_TOKENS] for start in (0, middle, max(0, len(tokens) - _SAMPLED_TOKENS))]
        return max(int(part[part != self.separator].max(initial=0)) for part in parts)


def index_files(folder: Path) -> IndexFiles:
    """Return the files of the index in `folder`.

    The sizes are checked, and samples of the separators and of the table. Raises HarnessError if a file is missing or
    the files do not belong together.
    """
    if not folder.is_dir():
        raise HarnessError(f"no such directory: {folder}. --index expects the directory of an infini-gram index.")
    found: dict[int, dict[str, Path]] = {}
    try:
        for path in folder.iterdir():
            if (match := _FILE.fullmatch(path.name)) is not None and path.is_file():
                found.setdefault(int(match[2]), {})[match[1]] = path
        if not found:
            raise HarnessError(
                f"not an infini-gram index: {folder}. It contains no tokenized.0, table.0 and offset.0; "
                "`python -m infini_gram.indexing` writes them."
            )
        shards = tuple(_shard(folder, number, found[number]) for number in sorted(found))
    except OSError as error:
        raise HarnessError(f"cannot read {error.filename or folder}: {error.strerror}.") from None
    if len({shard.width for shard in shards}) > 1:
        raise HarnessError(f"the shards of {folder} have tokens of different sizes. {_ADVICE}")
    documents = sum(shard.offset.stat().st_size // 8 for shard in shards)
    size = sum(shard.tokenized.stat().st_size for shard in shards)
    return IndexFiles(folder, shards, documents, size // shards[0].width - documents)


def _shard(folder: Path, number: int, files: dict[str, Path]) -> Shard:
    """Return a shard whose files belong together."""
    for kind in KINDS:
        if kind not in files:
            raise HarnessError(f"{kind}.{number} is missing in {folder}. {_ADVICE}")
        if not files[kind].stat().st_size:
            raise HarnessError(f"{files[kind]} is empty. {_ADVICE}")
    text, table, offset = (files[kind].stat().st_size for kind in KINDS)
    if offset % 8:
        raise HarnessError(f"{files['offset']} was cut off: its size is not a multiple of 8 bytes. {_ADVICE}")
    for width in (2, 1, 4):
        entries, rest = divmod(text, width)
        if rest or table % entries or table // entries != _pointer_bytes(text):
            continue
        shard = Shard(number, files["tokenized"], files["table"], files["offset"], width, table // entries)
        if _has_separators(shard) and _is_sorted(shard):
            return shard
    raise HarnessError(
        f"{files['tokenized']}, {files['table'].name} and {files['offset'].name} do not belong together, or one of "
        f"them was cut off. {_ADVICE}"
    )


def _pointer_bytes(size: int) -> int:
    """Return the bytes of an entry of the table, as infini-gram chooses them for a `size` of tokenized.N."""
    return math.ceil(math.log2(size) / 8)


def _has_separators(shard: Shard) -> bool:
    """Return whether documents begin in ascending order, the first one at 0, each of a sample with a separator."""
    starts, text = shard.starts(), shard.bytes_of_text()
    places = starts[_sample(len(starts), _SAMPLED_DOCUMENTS)].astype(np.int64)
    if places[0] or (np.diff(places) <= 0).any() or (places % shard.width).any():
        return False
    if places.min() < 0 or places.max() + shard.width > len(text):
        return False
    return bool((text[places[:, None] + np.arange(shard.width)] == 255).all())


def _is_sorted(shard: Shard) -> bool:
    """Return whether a sample of the table points to suffixes in ascending order."""
    text = shard.bytes_of_text()
    places = shard.suffixes(_sample(len(text) // shard.width, _SAMPLED_SUFFIXES))
    if places.min() < 0 or places.max() >= len(text) or (places % shard.width).any():
        return False
    suffixes = [text[place : place + _COMPARED_BYTES].tobytes() for place in places.tolist()]
    return all(one <= other for one, other in pairwise(suffixes))


def _sample(number: int, most: int) -> NDArray[np.int64]:
    """Return at most `most` of the indices below `number`, the first and the last among them."""
    return np.unique(np.linspace(0, number - 1, min(number, most)).astype(np.int64))
