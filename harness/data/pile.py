"""Cut the arrays of a split out of a copy of The Pile, as the authors of the challenge did.

A copy has 30 files, 00.jsonl to 29.jsonl, with one document per line: a JSON object with a "text". Nothing is written
unless the rows have the official md5, which detects a different copy or tokenizer.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import IO, Any

import numpy as np
from tokenizers import Tokenizer

from harness.core import tokenizers
from harness.core.arrays import Tokens
from harness.core.errors import HarnessError
from harness.core.files import atomic_file
from harness.data.catalog import SEQUENCE_LENGTH, VOCABULARY, Split
from harness.data.pointers import Pointer

MAX_DOCUMENT_BYTES = 256 << 20
PREPREFIX_END, PREFIX_END = 100, 150
TOKENIZER_REPOSITORIES = ("openai-community/gpt2", "gpt2", "EleutherAI/gpt-neo-1.3B")
"""Hub repositories whose tokenizer.json is GPT-2's."""

Progress = Callable[[int], None]
"""Called with the number of finished examples."""


def cut_rows(pile: Path, pointers: Sequence[Pointer], tokenizer: Tokenizer, progress: Progress) -> Tokens:
    """Return the rows that `pointers` point at, [pointers, 200] uint16, in the order of their example ids.

    `pointers` are ordered by their position.

    Raises HarnessError, naming file and offset, if the copy does not contain a row.
    """
    rows: dict[int, list[int]] = {}
    for number, in_file in groupby(pointers, key=lambda pointer: pointer.file):
        with _open_file(pile, number) as file:
            for pointer in in_file:
                rows[pointer.example] = _tokens(_document(file, pointer.line_offset), pointer, tokenizer)
                progress(len(rows))
    return np.array([rows[example] for example in sorted(rows)], np.uint16)


def write_split(split: Split, rows: Tokens, folder: Path) -> tuple[Path, ...]:
    """Write the pre-prefix, prefix and suffix files of rows [examples, 200] uint16 and return their paths.

    Raises HarnessError and writes nothing unless the rows have the md5 of the split.
    """
    found = hashlib.md5(rows.astype("<u2").tobytes(), usedforsecurity=False).hexdigest()
    if found != split.md5:
        raise HarnessError(
            f"{split.name}: the {len(rows):,} rows have md5 {found}, the official one is {split.md5}; nothing is "
            "written. Check the copy of The Pile, the tokenizer and the pointers."
        )
    parts = (rows[:, :PREPREFIX_END], rows[:, PREPREFIX_END:PREFIX_END], rows[:, PREFIX_END:])
    folder.mkdir(parents=True, exist_ok=True)
    paths = tuple(folder / name for name in split.file_names)
    for path, part in zip(paths, parts, strict=True):
        with atomic_file(path) as file:
            np.save(file, np.ascontiguousarray(part), allow_pickle=False)
    return paths


def load_tokenizer(place: Path | None) -> Tokenizer:
    """Return GPT-2's tokenizer from a tokenizer.json, a directory with one, or by default the Hugging Face cache.

    Raises HarnessError if there is none or it has more tokens than GPT-2.
    """
    path = place if place is not None else _cached_tokenizer()
    if path.is_dir():
        path = path / "tokenizer.json"
    if not path.is_file():
        raise HarnessError(f"{path} does not exist. --tokenizer expects GPT-2's tokenizer.json or its directory.")
    # The authors' tokenizer read the end-of-text token inside texts.
    tokenizer = tokenizers.load_tokenizer(path, reads_special_tokens=True)
    if tokenizer.get_vocab_size() > VOCABULARY:
        raise HarnessError(f"{path} has {tokenizer.get_vocab_size():,} tokens. GPT-2 has {VOCABULARY:,}.")
    return tokenizer


def _cached_tokenizer() -> Path:
    from huggingface_hub import try_to_load_from_cache

    for repository in TOKENIZER_REPOSITORIES:
        if isinstance(found := try_to_load_from_cache(repository, "tokenizer.json"), str):
            return Path(found)
    raise HarnessError(
        "no GPT-2 tokenizer in the Hugging Face cache. Use --tokenizer FILE, or run "
        f"`hf download {TOKENIZER_REPOSITORIES[0]} tokenizer.json` with network access."
    )


def _open_file(pile: Path, number: int) -> IO[bytes]:
    path = pile / f"{number:02d}.jsonl"
    try:
        return path.open("rb")
    except FileNotFoundError:
        packed = path.with_name(f"{path.name}.zst")
        hint = f" Unpack {packed.name}." if packed.exists() else ""
        raise HarnessError(f"{path} does not exist.{hint}") from None
    except OSError as error:
        raise HarnessError(f"cannot read {path}: {error.strerror}.") from None


def _document(file: IO[bytes], offset: int) -> str:
    """Return the text of the document whose line begins at byte `offset`."""
    where = f"{file.name}: byte {offset:,}"
    beyond_end = HarnessError(f"{where} is beyond the end of this copy.")
    try:
        file.seek(offset)
    except OSError:
        # The offset is beyond the largest file of this file system.
        raise beyond_end from None
    line = file.readline(MAX_DOCUMENT_BYTES + 1)
    if not line:
        raise beyond_end
    if len(line) > MAX_DOCUMENT_BYTES:
        raise HarnessError(f"{where}: a line of more than {MAX_DOCUMENT_BYTES >> 20} MiB is not a document.")
    try:
        document: Any = json.loads(line)
    except (ValueError, RecursionError):
        raise HarnessError(f"{where}: no line of JSON begins there. This is a different copy of The Pile.") from None
    if not isinstance(document, dict) or not isinstance(text := document.get("text"), str):
        raise HarnessError(f"{where}: the document has no text.")
    return text


def _tokens(text: str, pointer: Pointer, tokenizer: Tokenizer) -> list[int]:
    """Return the tokens of the example, found by token positions or by byte positions."""
    where = f"example {pointer.example} (file {pointer.file:02d}, byte {pointer.line_offset:,})"
    try:
        raw = text.encode("utf-8")
    except UnicodeEncodeError:
        raise HarnessError(f"{where}: the document is not Unicode text.") from None
    if pointer.start_token >= 0:
        whole: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        ids = whole[pointer.start_token : pointer.end_token]
    else:
        ids = _tokens_at_bytes(raw, pointer, tokenizer)
    if len(ids) != SEQUENCE_LENGTH:
        raise HarnessError(f"{where}: found {len(ids)} tokens instead of {SEQUENCE_LENGTH}. The document differs.")
    return ids


def _tokens_at_bytes(text: bytes, pointer: Pointer, tokenizer: Tokenizer) -> list[int]:
    end = pointer.end + pointer.take_after
    # A start before the first byte counts from the end, as the slice of the authors did. The text is then mostly empty.
    around = text[pointer.start - pointer.take_before : end].decode("utf-8", "ignore")
    ids: list[int] = tokenizer.encode(around, add_special_tokens=False).ids
    ids = ids[pointer.internal_offset : pointer.internal_offset + pointer.size]
    if ids:
        return ids
    # If no token is left, the authors put a letter in front of the text and dropped its token again.
    alone = "z" + text[pointer.start : end].decode("utf-8", "ignore")
    fallback: list[int] = tokenizer.encode(alone, add_special_tokens=False).ids
    return fallback[1 : pointer.size + 1]
