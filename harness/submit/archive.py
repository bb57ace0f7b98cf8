"""Zips: written so that equal content gives equal bytes, and unpacked as what they are, a stranger's bytes.

Nothing here knows what a bundle is made of.
"""

import contextlib
import io
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from repro_zipfile import ReproducibleZipFile

from harness.core.errors import HarnessError
from harness.core.text import shorten

_CHUNK_BYTES = 1 << 20
_LOCAL_HEADER_BYTES = 30
_MOST_BYTES_AT_ONCE = 16 << 20
_PLAIN_NAME = re.compile(r"[^\x00-\x1f\x7f\\:*?\"<>|]{1,255}")
_SETTINGS_OF_REPRO_ZIPFILE = ("SOURCE_DATE_EPOCH", "REPRO_ZIPFILE_FILE_MODE", "REPRO_ZIPFILE_DIR_MODE")
_KNOWN_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@dataclass(frozen=True)
class Limits:
    """How much an archive may unfold to. `ratio` is of unfolded to folded bytes, for the archive and for each file."""

    files: int = 5_000
    bytes: int = 4 << 30
    ratio: int = 200


def archive_bytes(files: Mapping[str, bytes]) -> bytes:
    """A zip of `files`, name to content: names sorted, times and modes fixed, whatever the environment says of them."""
    content = io.BytesIO()
    with (
        _unset(_SETTINGS_OF_REPRO_ZIPFILE),
        ReproducibleZipFile(content, "w", compression=zipfile.ZIP_DEFLATED, compresslevel=9) as archive,
    ):
        for name in sorted(files):
            archive.writestr(name, files[name])
    return content.getvalue()


@contextlib.contextmanager
def _unset(names: tuple[str, ...]) -> Iterator[None]:
    """Without the environment variables `names` for a while."""
    saved = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(saved)


def unpack(archive: Path, folder: Path, limits: Limits = Limits()) -> list[str]:
    """Write every file of the zip at `archive` below `folder`, which exists and is empty; their names, sorted.

    Refused whole, before anything is written, is an archive with a name that leads elsewhere, two names for one file, a
    link or a device, an encrypted file, files that share bytes, more than `limits` allow by its own word; and while it
    is written, one whose files are shorter than they say or do not match their checksums. Raises HarnessError.
    """
    try:
        with _BoundedFile(archive) as file, zipfile.ZipFile(file) as opened:
            entries = [entry for entry in opened.infolist() if not entry.is_dir()]
            fault = _fault(archive.stat().st_size, opened.infolist(), limits)
            if fault is not None:
                raise HarnessError(f"{archive}: {fault}; nothing of it was unpacked.")
            for entry in entries:
                _write_one(opened, entry, folder)
    except (OSError, EOFError) as error:
        words = getattr(error, "strerror", None) or "cut short"
        raise HarnessError(f"{archive}: cannot be unpacked ({words}).") from None
    except (zipfile.BadZipFile, zlib.error, struct.error, ValueError, NotImplementedError, RuntimeError) as error:
        raise HarnessError(f"{archive}: no zip that can be trusted ({shorten(str(error), 120)}).") from None
    return sorted(entry.filename for entry in entries)


def _fault(size: int, entries: list[zipfile.ZipInfo], limits: Limits) -> str | None:
    """Why an archive of `size` bytes that lists `entries` is not unpacked."""
    if len(entries) > limits.files:
        return f"{len(entries):,} entries where at most {limits.files:,} are unpacked"
    seen: set[str] = set()
    for entry in entries:
        if (fault := _fault_of_entry(entry, limits)) is not None:
            return f"{shorten(entry.filename)!r} {fault}"
        # Some file systems know no case.
        name = entry.filename.rstrip("/").casefold()
        if name in seen:
            return f"{shorten(entry.filename)!r} is there twice"
        seen.add(name)
    files = {entry.filename.casefold() for entry in entries if not entry.is_dir()}
    for name in seen:
        if any(str(parent) in files for parent in PurePosixPath(name).parents):
            return f"{shorten(name)!r} lies below what is a file"
    total = sum(entry.file_size for entry in entries)
    if total > limits.bytes:
        return f"unfolds to {total:,} bytes where at most {limits.bytes:,} are unpacked"
    if total > limits.ratio * max(size, 1):
        return f"unfolds to {total // max(size, 1):,} times its size, as a bomb would"
    return _overlap(entries)


def _fault_of_entry(entry: zipfile.ZipInfo, limits: Limits) -> str | None:
    path = PurePosixPath(entry.filename)
    # ZipInfo cuts a name at its first NUL; what was written stands in orig_filename.
    if entry.orig_filename != entry.filename or not _PLAIN_NAME.fullmatch(entry.filename):
        return "is no plain name"
    if path.is_absolute() or ".." in path.parts or str(path) != entry.filename.rstrip("/"):
        return "leads out of the folder that it is unpacked to"
    mode = entry.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR) or (stat.S_ISDIR(mode) and not entry.is_dir()):
        return "is a link or a device"
    if entry.flag_bits & 0x1:
        return "is encrypted"
    if entry.compress_type not in _KNOWN_METHODS:
        return "is compressed in an unusual way"
    if entry.file_size > limits.ratio * max(entry.compress_size, 1) and entry.file_size > _CHUNK_BYTES:
        return f"unfolds to {entry.file_size // max(entry.compress_size, 1):,} times its size, as a bomb would"
    return None


def _overlap(entries: list[zipfile.ZipInfo]) -> str | None:
    """Files that share compressed bytes unfold to more than any ratio tells (Fifield, WOOT 2019)."""
    end = 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        if entry.header_offset < end:
            return f"{shorten(entry.filename)!r} shares bytes with another file"
        end = entry.header_offset + _LOCAL_HEADER_BYTES + entry.compress_size
    return None


def _write_one(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, folder: Path) -> None:
    path = folder / entry.filename
    path.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with archive.open(entry) as source, path.open("xb") as destination:
        while chunk := source.read(_CHUNK_BYTES):
            written += len(chunk)
            destination.write(chunk)
    # It is never longer: zipfile reads no further, and the checksum is of what was read.
    if written < entry.file_size:
        raise zipfile.BadZipFile(f"{shorten(entry.filename)!r} is shorter than it says")


class _BoundedFile(io.FileIO):
    """A file of which nobody holds much at once: zipfile reads the list of an archive's files whole."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _MOST_BYTES_AT_ONCE:
            raise zipfile.BadZipFile("its list of files is longer than any that is unpacked")
        return super().read(_MOST_BYTES_AT_ONCE if size is None or size < 0 else size) or b""
