"""Files of pairs and corpora on disk: token arrays, JSON Lines, tab-separated text, plain text."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.audits.leakage.cutting import as_arrays, cut_at
from harness.core.arrays import Ints, Tokens, mapped_array
from harness.core.errors import HarnessError
from harness.core.text import pluralize, sanitize, shorten

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_MOST_BYTES = 1 << 30
_SHORTEST = 1
_SNIFFED = 1 << 12
"""Characters of a file among which a zero says that it is no text."""


def array_pairs(path: Path, *, prefix_length: int | None) -> tuple[Tokens, Tokens]:
    """Prefixes and suffixes of token ids: `prefixes` and `suffixes` of an .npz, or the rows of an .npy cut in two.

    Raises HarnessError, naming what does not fit.
    """
    if path.suffix.lower() == ".npz":
        arrays = _archive(path)
        if absent := {"prefixes", "suffixes"} - set(arrays):
            raise HarnessError(f"{path}: no array called {sorted(absent)[0]!r}; an .npz has `prefixes` and `suffixes`.")
        prefixes, suffixes = (_tokens(arrays[name], f"{path}: {name}") for name in ("prefixes", "suffixes"))
        if len(prefixes) != len(suffixes):
            raise HarnessError(f"{path}: {len(prefixes):,} prefixes beside {len(suffixes):,} suffixes.")
        return prefixes, suffixes
    rows = _tokens(np.asarray(mapped_array(path)), str(path))
    cut = prefix_length or 50
    if rows.shape[1] <= cut:
        raise HarnessError(
            f"{path}: rows of {rows.shape[1]} tokens leave no suffix behind a prefix of {cut}; --prefix-tokens says "
            "where they are cut."
        )
    return rows[:, :cut], rows[:, cut:]


def text_pairs(
    path: Path, tokenizer: "Tokenizer", *, prefix_length: int, suffix_length: int
) -> tuple[tuple[Ints, Ints], list[str]]:
    """Pairs of text, cut to tokens where the suffix begins, and sentences about those that were left out.

    .jsonl has `prefix` and `suffix` in each object, .tsv in its header. Both parts are encoded as one text. Raises
    HarnessError when the file cannot be read, or no pair is long enough.
    """
    cuts, unread, short = [], 0, 0
    for prefix, suffix in _text_records(path):
        if prefix is None or suffix is None:
            unread += 1
            continue
        encoding = tokenizer.encode(prefix + suffix, add_special_tokens=False)
        cut = cut_at(encoding, prefix + suffix, len(prefix), before=prefix_length, after=suffix_length)
        if cut is None:
            short += 1
        else:
            cuts.append(cut)
    wanted = f"{prefix_length} tokens before the cut and {suffix_length} behind it"
    if not cuts:
        what = (
            f"none of {pluralize(unread + short, 'record')} has text with {wanted}" if unread + short else "it is empty"
        )
        raise HarnessError(f"{path}: {what}; --prefix-tokens and --suffix-tokens say how many are wanted.")
    notes = []
    if unread:
        notes.append(f"{path.name}: {pluralize(unread, 'record')} without a prefix and a suffix as text left out.")
    if short:
        notes.append(f"{path.name}: {pluralize(short, 'pair')} without {wanted}, or cut within a token, left out.")
    return as_arrays(cuts), notes


def documents_of(path: Path, field: str) -> tuple[list[str], list[str]]:
    """The texts of a corpus, and sentences about what was left out: a text file, a folder of them, or JSON Lines.

    Of a folder, files are read that are not hidden, .jsonl and .ndjson by `field`, any other as a whole; one that
    cannot be read, or that holds no text, is left out. Raises HarnessError when there is no text at all, or when
    `path` is itself a file that cannot be read.
    """
    if not path.exists():
        raise HarnessError(f"{path}: no such file or folder, and the corpus is read from there.")
    documents, faults, unread = [], 0, []
    for file in _files_in(path) if path.is_dir() else [path]:
        try:
            content = _read(file)
            if "\0" in content[:_SNIFFED]:
                raise HarnessError(f"{file}: holds no text but zero bytes.")
        except HarnessError as error:
            if file == path:
                raise
            unread.append(sanitize(str(file.relative_to(path))) + str(error).removeprefix(str(file)))
            continue
        if file.suffix.lower() in (".jsonl", ".ndjson"):
            for line in content.split("\n"):
                text = _object(line).get(field)
                if isinstance(text, str) and text.strip():
                    documents.append(text.encode("utf-8", "replace").decode())
                elif line.strip():
                    faults += 1
        elif text := content.strip():
            documents.append(text)
    if not documents:
        why = f" ({unread[0].rstrip('.')})" if unread else ""
        raise HarnessError(f"{path}: no text in it; a corpus is text files, or JSON Lines with a field {field!r}{why}.")
    notes = [f"{pluralize(faults, 'line')} without text in a field {field!r} left out."] if faults else []
    if unread:
        notes.append(f"{pluralize(len(unread), 'file')} of the corpus left out, the first of which is {unread[0]}")
    return documents, notes


def _files_in(folder: Path) -> list[Path]:
    """Every regular file below `folder` that is not hidden, nor in a hidden folder, by path."""
    return sorted(
        file
        for file in folder.rglob("*")
        if file.is_file() and not any(part.startswith(".") for part in file.relative_to(folder).parts)
    )


def _archive(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise HarnessError(f"{path}: no such file.") from None
    except Exception as error:  # zipfile, zlib and numpy each have their own
        raise HarnessError(f"{path}: no archive of plain arrays ({shorten(str(error), 100)}).") from None


def _tokens(array: NDArray[Any], where: str) -> Tokens:
    if array.ndim != 2 or not np.issubdtype(array.dtype, np.integer) or array.shape[1] < _SHORTEST:
        raise HarnessError(
            f"{where}: wanted integers of shape [rows, tokens], found {array.dtype} {list(array.shape)}."
        )
    if array.size and int(array.min()) < 0:
        raise HarnessError(f"{where}: holds a token below 0.")
    return array


def _text_records(path: Path) -> Iterator[tuple[str | None, str | None]]:
    """(prefix, suffix) of each record, None for what is no text."""
    content = _read(path)
    if path.suffix.lower() == ".jsonl":
        for line in content.split("\n"):
            if line.strip():
                record = _object(line)
                yield _text(record.get("prefix")), _text(record.get("suffix"))
        return
    if path.suffix.lower() != ".tsv":
        raise HarnessError(f"{path}: pairs are .npz or .npy (tokens), .jsonl or .tsv (text).")
    # Without quotes a row is its line; a field may be as long as the file.
    rows = (line.removesuffix("\r").split("\t") for line in content.split("\n"))
    header = next(rows, [])
    if "prefix" not in header or "suffix" not in header:
        raise HarnessError(f"{path}: its first line names no columns `prefix` and `suffix`.")
    places = header.index("prefix"), header.index("suffix")
    for row in rows:
        first, second = (row[place] if place < len(row) else None for place in places)
        yield _text(first), _text(second)


def _object(line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def _text(value: object) -> str | None:
    # JSON may name half a surrogate pair, which no tokenizer takes.
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) and value else None


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise HarnessError(f"{path}: larger than {_MOST_BYTES >> 30} GiB; split it.")
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise HarnessError(f"{path}: no such file.") from None
    except UnicodeError:
        raise HarnessError(f"{path}: holds bytes that are not UTF-8.") from None
    except OSError as error:
        raise HarnessError(f"{path}: cannot be read ({error.strerror}).") from None
