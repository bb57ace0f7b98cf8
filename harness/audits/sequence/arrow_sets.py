"""Text in a data set that Hugging Face's `datasets` saved to disk: Arrow files, read without that library.

Both layouts: one set (`state.json`), and several splits, each a folder with one (`dataset_dict.json`).
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.audits.sequence.complaints import Complaints
from harness.core.errors import HarnessError
from harness.core.text import sanitize, shorten

_STATE, _SPLITS = "state.json", "dataset_dict.json"
_SHOWN_NAMES = 6


def is_arrow_set(folder: Path) -> bool:
    """`folder` is what `save_to_disk` writes."""
    return (folder / _STATE).is_file() or (folder / _SPLITS).is_file()


def values_in_arrow_set(
    folder: Path, *, field: str, split: str | None, complaints: Complaints
) -> Iterator[tuple[str, str]]:
    """The name and the text of each row. Raises HarnessError when it has no such split or column, or no Arrow file."""
    part = _part_of(folder, split)
    state = _json(part / _STATE)
    if state.get("_indices_data_files") or state.get("_indices_files"):
        raise HarnessError(f"{part}: its rows were chosen and never written out; flatten_indices() and save it again.")
    files = state.get("_data_files")
    names = [file.get("filename") for file in files if isinstance(file, dict)] if isinstance(files, list) else []
    if not names:
        raise HarnessError(f"{part / _STATE}: names no Arrow files, so it is no data set that was saved to disk.")
    row = 0
    for name in names:
        if not isinstance(name, str) or Path(name).name != name:
            raise HarnessError(f"{part / _STATE}: names a file outside its folder; a data set's files lie beside it.")
        for text in _column(part / name, field, complaints):
            row += 1
            if text is not None:
                yield f"{sanitize(folder.name if split is None else split)}:{row}", text


def _part_of(folder: Path, split: str | None) -> Path:
    """The folder of the one set that is read."""
    if not (folder / _SPLITS).is_file():
        if split is not None:
            raise HarnessError(f"{folder}: a data set without splits, and {shorten(split)!r} is asked for.")
        return folder
    splits = _json(folder / _SPLITS).get("splits")
    if not isinstance(splits, list) or not splits:
        raise HarnessError(f"{folder / _SPLITS}: names no splits.")
    known = [name for name in splits if isinstance(name, str) and Path(name).name == name]
    if split is None and len(known) == 1:
        return folder / known[0]
    if split not in known:
        asked = "one has to be chosen" if split is None else f"{shorten(split)!r} is not among them"
        shown = ", ".join(sanitize(shorten(name, 30)) for name in known[:_SHOWN_NAMES])
        raise HarnessError(f"{folder}: a data set with the splits {shown}; {asked} (--split).")
    return folder / split


def _column(file: Path, field: str, complaints: Complaints) -> Iterator[str | None]:
    """A text a row, None where it holds none; batch by batch, from a file that may be larger than memory."""
    # Here: pyarrow is slow to import, and other corpora do without.
    import pyarrow

    try:
        with pyarrow.memory_map(str(file)) as source, _opened(source) as reader:
            names = reader.schema.names
            if field not in names:
                shown = ", ".join(sanitize(shorten(name, 30)) for name in names[:_SHOWN_NAMES])
                raise HarnessError(f"{file}: no column {field!r}; it has {shown or 'none'} (--field).")
            kind = reader.schema.field(field).type
            if not (pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)):
                raise HarnessError(f"{file}: the column {field!r} holds {kind} and no text (--field).")
            for batch in reader:
                # Offsets in a damaged file may point anywhere.
                batch.validate(full=True)
                yield from batch.column(field).to_pylist()
    except (pyarrow.ArrowException, UnicodeError):
        complaints.add("Arrow files that break off", f"{file.name}: damaged, or no Arrow file; left out from there on.")
    except OSError as error:
        reason = error.strerror or "damaged"
        complaints.add("files that cannot be read", f"{file.name}: cannot be read ({reason}); left out.")


def _opened(source: Any) -> Any:
    """A reader of the stream format, which `save_to_disk` writes."""
    import pyarrow

    return pyarrow.ipc.open_stream(source)


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise HarnessError(f"{path}: cannot be read ({error.strerror}).") from None
    except (ValueError, RecursionError):
        raise HarnessError(f"{path}: no JSON, so the folder is no data set that was saved to disk.") from None
    if not isinstance(content, dict):
        raise HarnessError(f"{path}: no JSON object, so the folder is no data set that was saved to disk.")
    return content
