"""Read text from Parquet files, and from data sets that `datasets` saved to disk as Arrow files.

Both layouts of data sets are supported: one (`state.json`), and a directory of splits (`dataset_dict.json`).
"""

import contextlib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from harness.core.errors import HarnessError
from harness.core.files import require_content
from harness.core.inputs import read_bounded
from harness.core.text import sanitize, shorten
from harness.corpora.text_files import Notes, parse_json

_STATE, _SPLITS = "state.json", "dataset_dict.json"
_SHOWN_NAMES = 6
_MAX_JSON_BYTES = 64 << 20
_ROWS_AT_ONCE, _BUFFERED = 256, 1 << 20


def is_arrow_set(folder: Path) -> bool:
    """Return whether `folder` was written by `save_to_disk`."""
    return (folder / _STATE).is_file() or (folder / _SPLITS).is_file()


def values_in_arrow_set(folder: Path, *, field: str, split: str | None, notes: Notes) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each row.

    Raises HarnessError if the split or the column does not exist, or the data set names no Arrow files.
    """
    name = sanitize(folder.name if split is None else split)
    texts = chain.from_iterable(_column(file, field, notes) for file in _arrow_files(_split_folder(folder, split)))
    yield from ((f"{name}:{row}", text) for row, text in enumerate(texts, start=1) if text is not None)


def texts_in_parquet(file: Path, name: str, *, field: str, notes: Notes) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each row of a Parquet file. Raises HarnessError if it has no such text column."""
    from pyarrow import ArrowException, parquet  # slow to import

    row = 0
    require_content(file)
    try:
        with parquet.ParquetFile(file, buffer_size=_BUFFERED) as opened:
            _require_text(opened.schema_arrow, field, file)
            for batch in opened.iter_batches(_ROWS_AT_ONCE, columns=[field]):
                for text in batch.column(field).to_pylist():
                    row += 1
                    if text is not None:
                        yield f"{name}:{row}", text
    except (ArrowException, UnicodeError):
        notes.add("damaged Parquet files", f"Skipped the rest of {name} after row {row}: not a valid Parquet file.")
    except OSError as error:
        reason = error.strerror or "not a valid Parquet file"
        notes.add("files that cannot be read", f"Skipped the rest of {name} after row {row}: {reason}.")


def _arrow_files(part: Path) -> list[Path]:
    state = _read_object(part / _STATE)
    if state.get("_indices_data_files") or state.get("_indices_files"):
        raise HarnessError(
            f"{part} stores a selection of rows as indices. Call flatten_indices() and save the data set again."
        )
    with contextlib.suppress(KeyError, TypeError):
        names = [file["filename"] for file in state["_data_files"]]
        if names and all(map(_is_file_name, names)):
            return [part / name for name in names]
    raise HarnessError(f"{part / _STATE} lists no Arrow file of its directory. Save the set again with save_to_disk().")


def _split_folder(folder: Path, split: str | None) -> Path:
    """Return the directory of the selected split, or `folder` if there are no splits."""
    if not (folder / _SPLITS).is_file():
        if split is not None:
            raise HarnessError(f"{folder} is a data set without splits. Remove --split {shorten(split)}.")
        return folder
    splits = _read_object(folder / _SPLITS).get("splits")
    names: list[str] = [name for name in splits if _is_file_name(name)] if isinstance(splits, list) else []
    if not names:
        raise HarnessError(f"{folder / _SPLITS} names no splits. Save the data set again with save_to_disk().")
    name = names[0] if split is None and len(names) == 1 else split
    if name in names:
        return folder / name
    fault = "has several splits" if split is None else f"has no split {shorten(split)!r}"
    raise HarnessError(f"{folder} {fault}. Choose one with --split: {_join_names(names)}.")


def _is_file_name(name: object) -> bool:
    return isinstance(name, str) and Path(name).name == name and name not in ("", "..")


def _column(file: Path, field: str, notes: Notes) -> Iterator[str | None]:
    """Yield the text of each row, or None, batch by batch: the file may be larger than memory."""
    import pyarrow  # slow to import, and only needed for Arrow files

    require_content(file)
    try:
        with pyarrow.memory_map(str(file)) as source, pyarrow.ipc.open_stream(source) as reader:
            _require_text(reader.schema, field, file)
            for batch in reader:
                # Offsets in a damaged file may point anywhere.
                batch.validate(full=True)
                yield from batch.column(field).to_pylist()
    except (pyarrow.ArrowException, UnicodeError):
        notes.add("damaged Arrow files", f"Skipped the rest of {file.name}: not a valid Arrow file.")
    except OSError as error:
        reason = error.strerror or "damaged"
        notes.add("files that cannot be read", f"Skipped {file.name}: cannot be read ({reason}).")


def _require_text(schema: Any, field: str, file: Path) -> None:
    """Raise HarnessError unless the schema has a text column `field`."""
    from pyarrow import types

    if field not in schema.names:
        raise HarnessError(f"no column {field!r} in {file}. Choose one with --field: {_join_names(schema.names)}.")
    if len(schema.get_all_field_indices(field)) > 1:
        raise HarnessError(f"{file} has several columns {field!r}. Rename all but one.")
    kind = schema.field(field).type
    stored = kind.value_type if types.is_dictionary(kind) else kind
    if not (types.is_string(stored) or types.is_large_string(stored) or types.is_string_view(stored)):
        raise HarnessError(f"the column {field!r} of {file} has type {kind}. Choose a text column with --field.")


def _join_names(names: list[str]) -> str:
    return ", ".join(sanitize(shorten(name, 30)) for name in names[:_SHOWN_NAMES]) or "(none)"


def _read_object(path: Path) -> dict[str, Any]:
    try:
        content = parse_json(read_bounded(path, limit=_MAX_JSON_BYTES))
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise HarnessError(f"not a JSON object: {path}. Save the data set again with save_to_disk().")
    return content
