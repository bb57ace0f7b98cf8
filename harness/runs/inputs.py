"""The content of the files and directories that a run was given, as hashes."""

import hashlib
from pathlib import Path

from harness.core.errors import HarnessError
from harness.core.files import file_sha256

_MAX_FILES = 100_000


def files_in(path: Path) -> list[Path]:
    """Return the file `path`, or all files below the directory `path`, sorted.

    Raises HarnessError if there are more than 100,000.
    """
    if path.is_file():
        return [path]
    files = sorted(file for file in path.rglob("*") if file.is_file())
    if len(files) > _MAX_FILES:
        raise HarnessError(f"{path}: contains more than {_MAX_FILES:,} files. Name a smaller directory.")
    return files


def content_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, or of the relative names and hashes of the files in a directory."""
    if path.is_file():
        return file_sha256(path)
    lines = (f"{file_sha256(file)}  {file.relative_to(path)}\n" for file in files_in(path))
    return hashlib.sha256("".join(lines).encode()).hexdigest()
