"""Read small files that a person wrote: regular files only, and never more bytes than expected."""

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from harness.core.errors import HarnessError
from harness.core.text import shorten

_WORDS = {"extra_forbidden": "unknown field", "missing": "is missing"}
Model = TypeVar("Model", bound=BaseModel)


def read_bounded(path: Path, *, limit: int) -> bytes:
    """Return the content of a regular file of at most `limit` bytes.

    Raises HarnessError if the file is missing, is not a regular file, is larger, or cannot be read.
    """
    try:
        if not path.exists():
            raise HarnessError(f"{path}: no such file.")
        # Opening a FIFO would block, and a device may have no end.
        if not path.is_file():
            raise HarnessError(f"{path}: not a regular file.")
        if path.stat().st_size > limit:
            raise HarnessError(f"{path}: larger than {limit:,} bytes.")
        return path.read_bytes()
    except OSError as error:
        raise HarnessError(f"{path}: cannot be read ({error.strerror}).") from None


def read_bounded_text(path: Path, *, limit: int) -> str:
    """Return the text of a UTF-8 file of at most `limit` bytes. Raises HarnessError as `read_bounded` does."""
    try:
        return read_bounded(path, limit=limit).decode()
    except UnicodeDecodeError:
        raise HarnessError(f"{path}: not UTF-8 text.") from None


def read_bounded_toml(path: Path, *, limit: int) -> dict[str, Any]:
    """Return the table in a TOML file of at most `limit` bytes. Raises HarnessError as `read_bounded` does."""
    text = read_bounded_text(path, limit=limit)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise HarnessError(f"{path}: not a TOML file ({shorten(str(error), 120)}).") from None


def read_bounded_json(model: type[Model], path: Path, *, limit: int) -> Model:
    """Return the record in a JSON file of at most `limit` bytes. Raises HarnessError, with file and field.

    A file is refused if it repeats a field: programs differ in which of the two values they read.
    """
    text = read_bounded_text(path, limit=limit)
    try:
        record = model.model_validate_json(text)
        json.loads(text, object_pairs_hook=_check_names)
    except ValidationError as error:
        raise HarnessError(f"{path}: {first_fault(error)}.") from None
    except (ValueError, RecursionError) as error:
        raise HarnessError(f"{path}: {shorten(str(error), 120)}.") from None
    return record


def check_plain_files(folder: Path) -> None:
    """Raise HarnessError if a link, a device or the like is below `folder`: it could lead to any file."""
    pending = [folder]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(Path(entry.path))
                    elif not entry.is_file(follow_symlinks=False):
                        raise HarnessError(f"{entry.path}: not a regular file. Unpack the bundle again.")
        except OSError as error:
            raise HarnessError(f"{error.filename}: cannot be read ({error.strerror}).") from None


def _check_names(pairs: Sequence[tuple[str, Any]]) -> None:
    names = set()
    for name, _ in pairs:
        if name in names:
            raise ValueError(f"the field {shorten(name)!r} occurs twice")
        names.add(name)


def first_fault(error: ValidationError, words: Mapping[str, str] | None = None) -> str:
    """Return the first field that failed validation and the reason, as `field: reason`.

    words: the reasons for other types of pydantic's errors than `_WORDS` has.
    """
    fault = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in fault["loc"])
    reason = {**_WORDS, **(words or {})}.get(fault["type"]) or fault["msg"].removeprefix("Value error, ")
    return f"{shorten(field) + ': ' if field else ''}{shorten(reason.rstrip('.'), 200)}"
