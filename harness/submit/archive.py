"""Zip archives: reproducible when written, checked for hostile content when unpacked."""

import io
import re
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from harness.core.errors import HarnessError
from harness.core.files import open_regular
from harness.core.text import shorten

_MAX_READ_BYTES = 16 << 20
_PLAIN_NAME = re.compile(r"[^\x00-\x1f\x7f\\:*?\"<>|]{1,255}")
_MAX_FILES = 5_000
_MAX_BYTES = 4 << 30  # of all files together
_MAX_RATIO = 200  # of the size of all files to that of the archive
_UTF8_FLAG, _UNICODE_NAME = 0x800, 0x7075
_KNOWN_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def archive_bytes(files: Mapping[str, bytes]) -> bytes:
    """Return a zip of `files` (name to content). With sorted names and fixed times, equal files give equal bytes."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name)  # its default time is 1980-01-01
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, files[name], zipfile.ZIP_DEFLATED, compresslevel=9)
    return content.getvalue()


def unpack(archive: Path, folder: Path) -> list[str]:
    """Unpack the zip at `archive` into the empty directory `folder`, and return the sorted file names.

    Before anything is written, an archive is refused if it has a name outside the folder, two entries for one file, a
    link or device, an encrypted entry, or too much content. While writing, it is refused if a file is
    shorter than declared or its checksum is wrong. Raises HarnessError.
    """
    try:
        with (
            open_regular(archive) as regular,
            _BoundedFile(regular.fileno(), closefd=False) as file,
            zipfile.ZipFile(file) as opened,
        ):
            entries = [entry for entry in opened.infolist() if not entry.is_dir()]
            fault = _archive_fault(archive.stat().st_size, opened)
            if fault is not None:
                raise HarnessError(f"{archive}: {fault}. Nothing was unpacked.")
            for entry in entries:
                _write_entry(opened, entry, folder)
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or "truncated"
        raise HarnessError(f"{archive}: cannot be unpacked ({reason}).") from None
    except (zipfile.BadZipFile, zlib.error, struct.error, ValueError, RuntimeError, IndexError) as error:
        reason = shorten(str(error), 120)
        raise HarnessError(f"{archive}: not a valid zip file ({reason}). Copy the file again.") from None
    return sorted(entry.filename for entry in entries)


def _archive_fault(size: int, archive: zipfile.ZipFile) -> str | None:
    """Return why an archive of `size` bytes is refused, or None."""
    entries = archive.infolist()
    # Another program could find another list of files in such a comment, or read what precedes the first file.
    if archive.comment or (entries and min(entry.header_offset for entry in entries) > 0):
        return "it contains data that belongs to no file"
    if len(entries) > _MAX_FILES:
        return f"{len(entries):,} entries, at most {_MAX_FILES:,} are allowed"
    seen: set[str] = set()
    for entry in entries:
        if (fault := _entry_fault(entry)) is not None:
            return f"{shorten(entry.filename)!r} {fault}"
        # Some file systems ignore case.
        name = entry.filename.rstrip("/").casefold()
        if name in seen:
            return f"{shorten(entry.filename)!r} occurs twice"
        seen.add(name)
    files = {entry.filename.casefold() for entry in entries if not entry.is_dir()}
    for name in seen:
        if any(str(parent) in files for parent in PurePosixPath(name).parents):
            return f"{shorten(name)!r} lies below a file"
    total = sum(entry.file_size for entry in entries)
    if total > _MAX_BYTES:
        return f"{total:,} uncompressed bytes, at most {_MAX_BYTES:,} are allowed"
    if total > _MAX_RATIO * max(size, 1):
        return f"compressed {total // max(size, 1):,} times, as in a zip bomb"
    return None


def _entry_fault(entry: zipfile.ZipInfo) -> str | None:
    path = PurePosixPath(entry.filename)
    # ZipInfo cuts a name at its first NUL; orig_filename holds the whole name.
    if entry.orig_filename != entry.filename or not _PLAIN_NAME.fullmatch(entry.filename):
        return "is not a plain file name"
    # Without the flag, or with a second name in a field, programs differ in how they read a name.
    is_unicode = entry.filename.isascii() or entry.flag_bits & _UTF8_FLAG
    if not is_unicode or _UNICODE_NAME in _extra_fields(entry.extra):
        return "is not a name that every program reads alike"
    if path.is_absolute() or ".." in path.parts or str(path) != entry.filename.rstrip("/"):
        return "leads out of the target folder"
    mode = entry.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR) or (stat.S_ISDIR(mode) and not entry.is_dir()):
        return "is a link or a device"
    if entry.flag_bits & 0x1:
        return "is encrypted"
    if entry.compress_type not in _KNOWN_METHODS:
        return "uses an unsupported compression method"
    return None


def _extra_fields(extra: bytes) -> set[int]:
    """Return the numbers of an entry's extra fields."""
    field_numbers = set()
    while len(extra) >= 4:
        number, length = struct.unpack_from("<HH", extra)
        field_numbers.add(number)
        extra = extra[4 + length :]
    return field_numbers


def _write_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, folder: Path) -> None:
    path = folder / entry.filename
    path.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(entry) as source, path.open("xb") as destination:
        shutil.copyfileobj(source, destination)
    # An entry is never longer than declared: zipfile stops reading there and compares the checksum.
    if path.stat().st_size < entry.file_size:
        raise zipfile.BadZipFile(f"{shorten(entry.filename)!r} is shorter than declared")


class _BoundedFile(io.FileIO):
    """A file that refuses very large reads, because zipfile reads the central directory in one piece."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _MAX_READ_BYTES:
            raise zipfile.BadZipFile("its central directory is too large")
        return super().read(_MAX_READ_BYTES if size is None or size < 0 else size) or b""
