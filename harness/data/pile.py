"""Cutting a split's arrays out of a copy of The Pile, as the challenge's authors cut them.

A copy is 30 files, 00.jsonl to 29.jsonl, one document a line as a JSON object with its "text". Nothing is written
unless the rows have the official md5, so no other copy and no other tokenizer can pass for the right one.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from tokenizers import Tokenizer

from harness.core.arrays import Tokens
from harness.core.errors import HarnessError
from harness.core.files import atomic_file
from harness.core.text import shorten
from harness.data.catalog import SEQUENCE_LENGTH, VOCABULARY, Split
from harness.data.pointers import Pointer

MAX_DOCUMENT_BYTES = 256 << 20
PREPREFIX_END, PREFIX_END = 100, 150
TOKENIZER_REPOSITORIES = ("openai-community/gpt2", "gpt2", "EleutherAI/gpt-neo-1.3B")
"""Hub repositories whose tokenizer.json is GPT-2's."""

Progress = Callable[[int], None]
"""Told the number of examples done."""


def cut_rows(pile: Path, pointers: Sequence[Pointer], tokenizer: Tokenizer, progress: Progress) -> Tokens:
    """The rows that the pointers lead to, [pointers, 200] uint16, in the order of their example ids.

    Reads in the pointers' order. Raises HarnessError, naming file and offset, where the copy does not have them.
    """
    rows: dict[int, list[int]] = {}
    opened: tuple[int, IO[bytes]] | None = None
    try:
        for done, pointer in enumerate(pointers, start=1):
            if opened is None or opened[0] != pointer.file:
                if opened is not None:
                    opened[1].close()
                opened = (pointer.file, _opened(pile, pointer.file))
            text = _document(opened[1], pointer.line_offset)
            rows[pointer.example] = _tokens(text, pointer, tokenizer)
            progress(done)
    finally:
        if opened is not None:
            opened[1].close()
    return np.array([rows[example] for example in sorted(rows)], np.uint16)


def write_split(split: Split, rows: Tokens, folder: Path) -> tuple[Path, ...]:
    """Write the split's pre-prefix, prefix and suffix files from rows [examples, 200] uint16; returns their paths.

    Raises HarnessError, and writes nothing, unless the rows have the split's md5.
    """
    found = hashlib.md5(rows.astype("<u2").tobytes(), usedforsecurity=False).hexdigest()
    if found != split.md5:
        raise HarnessError(
            f"{split.name}: the {len(rows):,} rows cut have md5 {found} and not the official {split.md5}; nothing is "
            "written, for it is another copy of The Pile, another tokenizer or other pointers."
        )
    parts = (rows[:, :PREPREFIX_END], rows[:, PREPREFIX_END:PREFIX_END], rows[:, PREFIX_END:])
    folder.mkdir(parents=True, exist_ok=True)
    paths = tuple(folder / name for name in split.file_names)
    for path, part in zip(paths, parts, strict=True):
        with atomic_file(path) as file:
            np.save(file, np.ascontiguousarray(part), allow_pickle=False)
    return paths


def load_tokenizer(place: Path | None) -> Tokenizer:
    """GPT-2's tokenizer from a tokenizer.json, a folder that holds one, or else the local Hugging Face cache.

    Raises HarnessError when there is none or it has more tokens than GPT-2.
    """
    path = place if place is not None else _cached_tokenizer()
    if path.is_dir():
        path = path / "tokenizer.json"
    if not path.is_file():
        raise HarnessError(f"{path}: no tokenizer there; --tokenizer wants GPT-2's tokenizer.json or its folder.")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    # tokenizers raises bare exceptions for anything that it cannot read.
    except Exception as error:
        raise HarnessError(f"{path}: not a tokenizer.json ({shorten(str(error), 120)}).") from None
    if tokenizer.get_vocab_size() > VOCABULARY:
        raise HarnessError(f"{path}: {tokenizer.get_vocab_size():,} tokens where GPT-2 has {VOCABULARY:,}.")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _cached_tokenizer() -> Path:
    from huggingface_hub import try_to_load_from_cache

    for repository in TOKENIZER_REPOSITORIES:
        if isinstance(found := try_to_load_from_cache(repository, "tokenizer.json"), str):
            return Path(found)
    raise HarnessError(
        "no GPT-2 tokenizer in the Hugging Face cache: give --tokenizer FILE, or run "
        f"`hf download {TOKENIZER_REPOSITORIES[0]} tokenizer.json` where there is a network."
    )


def _opened(pile: Path, number: int) -> IO[bytes]:
    path = pile / f"{number:02d}.jsonl"
    try:
        return path.open("rb")
    except FileNotFoundError:
        packed = path.with_name(f"{path.name}.zst")
        hint = f"{packed.name} is: unpack it, offsets count unpacked bytes" if packed.exists() else "it is needed"
        raise HarnessError(f"{path}: no such file ({hint}).") from None
    except OSError as error:
        raise HarnessError(f"{path}: cannot be read ({error.strerror}).") from None


def _document(file: IO[bytes], offset: int) -> str:
    """The text of the document whose line begins at byte `offset`."""
    where = f"{file.name}: byte {offset:,}"
    file.seek(offset)
    line = file.readline(MAX_DOCUMENT_BYTES + 1)
    if not line:
        raise HarnessError(f"{where} lies behind the end of this copy.")
    if len(line) > MAX_DOCUMENT_BYTES:
        raise HarnessError(f"{where}: a line of more than {MAX_DOCUMENT_BYTES >> 20} MiB is no document.")
    try:
        document: Any = json.loads(line)
    except (ValueError, RecursionError):
        raise HarnessError(f"{where}: no line of JSON begins there; this is another copy of The Pile.") from None
    if not isinstance(document, dict) or not isinstance(text := document.get("text"), str):
        raise HarnessError(f"{where}: a document without a text.")
    return text


def _tokens(text: str, pointer: Pointer, tokenizer: Tokenizer) -> list[int]:
    """The example's tokens, by one of the two ways that pointers point."""
    where = f"example {pointer.example} (file {pointer.file:02d}, byte {pointer.line_offset:,})"
    try:
        raw = text.encode("utf-8")
    except UnicodeEncodeError:
        raise HarnessError(f"{where}: its document is not Unicode text.") from None
    if pointer.start_token >= 0:
        whole: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        ids = whole[pointer.start_token : pointer.end_token]
    else:
        ids = _tokens_at_bytes(raw, pointer, tokenizer)
    if len(ids) != SEQUENCE_LENGTH:
        raise HarnessError(
            f"{where}: {len(ids)} tokens where {SEQUENCE_LENGTH} are wanted; its document is another one."
        )
    return ids


def _tokens_at_bytes(text: bytes, pointer: Pointer, tokenizer: Tokenizer) -> list[int]:
    end = pointer.end + pointer.take_after
    # A start before the first byte counts from the end, as the authors' slice did: nearly always nothing is left.
    around = text[pointer.start - pointer.take_before : end].decode("utf-8", "ignore")
    ids: list[int] = tokenizer.encode(around, add_special_tokens=False).ids
    ids = ids[pointer.internal_offset : pointer.internal_offset + pointer.size]
    if ids:
        return ids
    # Where that leaves nothing the authors put a letter in front and dropped its token again.
    alone = "z" + text[pointer.start : end].decode("utf-8", "ignore")
    fallback: list[int] = tokenizer.encode(alone, add_special_tokens=False).ids
    return fallback[1 : pointer.size + 1]
