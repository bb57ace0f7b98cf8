"""Write unusual zips, with any names, attributes and sizes."""

import io
import zipfile
from pathlib import Path


def zip_of(path: Path, *entries: tuple[str | zipfile.ZipInfo, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    """Write a zip of (name or entry, content) pairs to `path`, in that order, unchecked."""
    with zipfile.ZipFile(path, "w", compression=method) as archive:
        for entry, content in entries:
            named = raw_entry(entry) if isinstance(entry, str) else entry
            named.compress_type = method if isinstance(entry, str) else named.compress_type
            archive.writestr(named, content)
    return path


def raw_entry(name: str, *, mode: int = 0o100644, method: int = zipfile.ZIP_DEFLATED) -> zipfile.ZipInfo:
    """Return an entry with exactly this name and Unix mode."""
    entry = zipfile.ZipInfo("x")
    entry.filename = entry.orig_filename = name
    entry.external_attr = mode << 16
    entry.create_system = 3
    entry.compress_type = method
    return entry


def replaced(path: Path, old: bytes, new: bytes) -> Path:
    """Replace every `old` in a file with `new`, which has the same length."""
    assert len(old) == len(new)
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))
    return path


def with_field(path: Path, name: str, *, offset: int, value: bytes) -> Path:
    """Overwrite bytes of the central directory's header of `name` with `value`, from `offset` on."""
    content = bytearray(path.read_bytes())
    at = content.rindex(b"PK\x01\x02", 0, content.rindex(name.encode()))
    content[at + offset : at + offset + len(value)] = value
    path.write_bytes(content)
    return path


def overlapping(path: Path, count: int, content: bytes) -> Path:
    """Write a zip whose `count` entries all share one file's bytes."""
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", compression=zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(raw_entry("a000"), content)
    whole = memory.getvalue()
    start = whole.index(b"PK\x01\x02")
    end = whole.index(b"PK\x05\x06")
    header = whole[start:end]
    listed = b"".join(header.replace(b"a000", f"a{number:03d}".encode()) for number in range(count))
    tail = bytearray(whole[end:])
    tail[8:10] = tail[10:12] = count.to_bytes(2, "little")
    tail[12:16] = len(listed).to_bytes(4, "little")
    path.write_bytes(whole[:start] + listed + bytes(tail))
    return path
