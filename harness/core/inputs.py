"""Files that a user names: small files with a limit on their size, and directories, such as a model, with their hash.

Errors of invalid files and of damaged records become sentences for the user.

Symbolic links are followed inside the directory and, for a model in the cache of the Hugging Face hub, to the files of
the same model. A link that leads elsewhere is refused: a downloaded directory must not make other files readable.
"""

import contextlib
import hashlib
import json
import os
import sqlite3
import stat
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from harness.core.errors import HarnessError, missing_path
from harness.core.faults import first_fault
from harness.core.files import NOT_REGULAR, file_errors, file_sha256, read_start
from harness.core.text import shorten

_MAX_FILES = 100_000
_DAMAGE = (OSError, sqlite3.Error, ValueError, TypeError, LookupError, ArithmeticError, RecursionError)
_CACHED = ("models--", "datasets--")
Model = TypeVar("Model", bound=BaseModel)


def files_in(path: Path) -> list[Path]:
    """Return the file `path`, or all files below the directory `path`, sorted.

    Raises HarnessError if there are more than 100,000, if a symbolic link leaves the directory, or if something in it
    is neither a file nor a directory: opening a named pipe would wait forever.
    """
    if not path.is_dir():
        _require_file(path, path)
        return [path]
    files: list[Path] = []
    for entry in _entries(path):
        place = Path(entry.path)
        if entry.is_symlink():
            target = require_inside(place, path)
            if target.is_dir() or not target.exists():
                continue  # a directory is searched where it is
        _require_file(place, path)
        files.append(place)
        if len(files) > _MAX_FILES:
            raise HarnessError(f"{path}: contains more than {_MAX_FILES:,} files. Name a smaller directory.")
    return sorted(files)


def require_file(path: Path, *, or_folder: bool = False) -> None:
    """Raise HarnessError unless `path` is a regular file or, if `or_folder`, a directory."""
    if not path.exists():
        raise missing_path(path, "file or directory" if or_folder else "file")
    if not (or_folder and path.is_dir()):
        _require_file(path, path)


def require_inside(link: Path, folder: Path) -> Path:
    """Return the target of a symbolic link below `folder`. Raises HarnessError if it leaves the directory."""
    try:
        target, real = link.resolve(), folder.resolve()
    except (OSError, RuntimeError):  # RuntimeError before Python 3.13
        raise HarnessError(f"{link} is a link that leads to itself. Remove it.") from None
    blobs = _blobs_of(real)
    if not target.is_relative_to(real) and (blobs is None or target.parent != blobs):
        raise HarnessError(
            f"{link} is a link that leaves its directory, to {target}. Replace the link by a copy of the file."
        )
    return target


def _blobs_of(folder: Path) -> Path | None:
    """Return the directory that the links of a snapshot in the hub's cache lead to, None for other directories.

    The cache of a model is `models--OWNER--NAME/`, with `snapshots/COMMIT/FILE` as links to `blobs/HASH`.
    """
    cache = folder.parent.parent
    blobs = cache / "blobs"
    is_snapshot = folder.parent.name == "snapshots" and cache.name.startswith(_CACHED)
    # A link in place of the directory could lead anywhere.
    return blobs if is_snapshot and blobs.is_dir() and not blobs.is_symlink() else None


def cached_files(folder: Path) -> list[Path]:
    """Return the real paths of the files that the links of a snapshot in the hub's cache lead to."""
    folder = folder.resolve()
    blobs = _blobs_of(folder)
    if blobs is None:
        return []
    targets = [Path(entry.path).resolve() for entry in _entries(folder) if entry.is_symlink()]
    return [target for target in targets if target.parent == blobs and target.is_file()]


def content_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, or of the relative names and hashes of the files in a directory.

    Raises HarnessError as `files_in` does.
    """
    if not path.is_dir():
        _require_file(path, path)
        return file_sha256(path)
    # Names of files are bytes, which need not be UTF-8.
    lines = (os.fsencode(f"{file_sha256(file)}  {file.relative_to(path)}\n") for file in files_in(path))
    return hashlib.sha256(b"".join(lines)).hexdigest()


def _entries(folder: Path) -> "Iterator[os.DirEntry[str]]":
    """Yield everything below a directory except directories. Links are not followed, and the depth has no limit."""
    folders = [os.fspath(folder)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    yield entry


def _require_file(place: Path, named: Path) -> None:
    with file_errors(place):
        mode = place.stat().st_mode
    if not stat.S_ISREG(mode):
        where = "" if place == named else f" in {named}"
        raise HarnessError(f"{place} is not a regular file{where}. Remove it, or name another path.")


def read_bounded(path: Path, *, limit: int) -> bytes:
    """Return the content of a regular file of at most `limit` bytes.

    Raises HarnessError if the file is missing, is not a regular file, is larger, or cannot be read.
    """
    try:
        content = read_start(path, limit + 1)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        raise missing_path(path) from None
    except OSError as error:
        is_other = isinstance(error, IsADirectoryError) or error.strerror == NOT_REGULAR
        fault = f"{NOT_REGULAR}. Name a file" if is_other else f"cannot be read ({error.strerror})"
        raise HarnessError(f"{path}: {fault}.") from None
    if len(content) > limit:
        raise HarnessError(f"{path}: larger than {limit:,} bytes. Use a smaller file.")
    return content


def read_bounded_text(path: Path, *, limit: int) -> str:
    """Return the text of a UTF-8 file of at most `limit` bytes. Raises HarnessError as `read_bounded` does."""
    try:
        return read_bounded(path, limit=limit).decode()
    except UnicodeDecodeError:
        raise HarnessError(f"{path}: not UTF-8 text. Convert the file to UTF-8.") from None


def read_bounded_toml(path: Path, *, limit: int) -> dict[str, Any]:
    """Return the table in a TOML file of at most `limit` bytes. Raises HarnessError as `read_bounded` does."""
    text = read_bounded_text(path, limit=limit)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise HarnessError(f"{path}: not a TOML file ({shorten(str(error), 120)}). Correct that line.") from None


def validate_fields(model: type[Model], fields: object, path: Path, words: Mapping[str, str] = {}) -> Model:
    """Return the record with the fields of a file. Raises HarnessError, with file and field.

    words: as in `fault_message`.
    """
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise HarnessError(f"{path}: {first_fault(error, words, model.model_fields)}.") from None


def read_bounded_json(model: type[Model], path: Path, *, limit: int) -> Model:
    """Return the record in a JSON file of at most `limit` bytes. Raises HarnessError, with file and field.

    A file is refused if it repeats a field: programs differ in which of the two values they read.
    """
    text = read_bounded_text(path, limit=limit)
    try:
        record = model.model_validate_json(text)
        json.loads(text, object_pairs_hook=_check_names)
    except ValidationError as error:
        raise HarnessError(f"{path}: {first_fault(error, {}, model.model_fields)}.") from None
    except (ValueError, RecursionError) as error:
        raise HarnessError(f"{path}: {shorten(str(error), 120)}.") from None
    return record


def check_plain_files(folder: Path) -> None:
    """Raise HarnessError if a link, a device or the like is below `folder`: it could lead to any file."""
    with file_errors():
        for entry in _entries(folder):
            if not entry.is_file(follow_symlinks=False):
                raise HarnessError(f"{entry.path}: not a regular file. Unpack the bundle again.")


def _check_names(pairs: Sequence[tuple[str, Any]]) -> None:
    names = set()
    for name, _ in pairs:
        if name in names:
            raise ValueError(f"the field {shorten(name)!r} occurs twice. Keep one")
        names.add(name)


@contextlib.contextmanager
def as_harness_error(record: Path | str, action: str = "read") -> Iterator[None]:
    """Convert errors of an `action`, such as `read`, inside the block to a HarnessError that names `record`.

    A HarnessError that is raised inside keeps its text.
    """
    try:
        yield
    except _DAMAGE as error:
        # The text of a KeyError is the key alone.
        text = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        if isinstance(error, ValidationError):
            text = first_fault(error)
        raise HarnessError(f"{record}: cannot be {action} ({shorten(text, 120)}).") from error
