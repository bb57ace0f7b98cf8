"""Bringing public files into a folder, from their authors, another address or another folder: all or nothing a file.

Every file is checked against the catalogue's size and SHA-256 before it gets its name, wherever it comes from.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import httpx

from harness.core import paths
from harness.core.errors import HarnessError
from harness.core.files import CHUNK_BYTES, atomic_file, file_sha256, sync_folder
from harness.data.catalog import PublicFile
from harness.data.download import BACK_OFF, NotThere, Unreachable, client, downloaded

Progress = Callable[[PublicFile, int], None]
"""Told a file and its bytes in hand, from time to time."""


class Arrival(StrEnum):
    """What became of a listed file."""

    FETCHED = "fetched"
    ALREADY_THERE = "already there"
    LACKING = "lacking"
    FAILED = "failed"


@dataclass(frozen=True)
class Outcome:
    """What became of one listed file, and for a failure the sentence that says why."""

    file: PublicFile
    arrival: Arrival
    fault: str = ""


def fetched(
    files: Sequence[PublicFile],
    folder: Path,
    source: str | None,
    progress: Progress,
    back_off: Sequence[float] = BACK_OFF,
) -> Iterator[Outcome]:
    """Bring `files` into `folder`, one outcome each, as they come.

    `source` is a folder or a base address with the files right below it; None asks each file's authors. A file whose
    own fault it is does not keep the others back; a source that is out of reach ends the fetch with its outcome.
    Raises HarnessError when `folder` cannot be made or `source` is no folder.
    """
    source_folder = None if source is None or is_address(source) else _existing_folder(source)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HarnessError(f"{folder}: cannot be made ({error.strerror}).") from None
    with client() as web:
        for file in files:
            place = folder / file.name
            try:
                if _is_the_listed_file(place, file):
                    arrival = Arrival.ALREADY_THERE
                elif source_folder is not None:
                    arrival = _copied(file, source_folder / file.name, place, progress)
                else:
                    address = file.address if source is None else f"{source.rstrip('/')}/{file.name}"
                    arrival = _downloaded(file, address, place, web, progress, back_off)
                yield Outcome(file, arrival)
            except NotThere:
                yield Outcome(file, Arrival.LACKING)
            except Unreachable as error:
                yield Outcome(file, Arrival.FAILED, str(error))
                return
            except HarnessError as error:
                yield Outcome(file, Arrival.FAILED, str(error))
            except OSError as error:
                yield Outcome(file, Arrival.FAILED, f"{error.filename or place}: {error.strerror or error}.")


def is_address(source: str) -> bool:
    """Whether `source` names a server rather than a folder."""
    return source.startswith(("http://", "https://"))


def _existing_folder(source: str) -> Path:
    folder = paths.expand_home(source)
    if not folder.is_dir():
        raise HarnessError(f"{source}: neither a folder nor an http(s) address to fetch from.")
    return folder


def _is_the_listed_file(path: Path, file: PublicFile) -> bool:
    return path.is_file() and path.stat().st_size == file.size and file_sha256(path) == file.sha256


def _copied(file: PublicFile, origin: Path, place: Path, progress: Progress) -> Arrival:
    """Copy a listed file out of a folder, checking the very bytes that are written."""
    if not origin.is_file():
        return Arrival.LACKING
    if (size := origin.stat().st_size) != file.size:
        raise HarnessError(f"{origin}: {size:,} bytes where the published file has {file.size:,}.")
    digest, done = hashlib.sha256(), 0
    with origin.open("rb") as read, atomic_file(place) as written:
        while chunk := read.read(CHUNK_BYTES):
            digest.update(chunk)
            written.write(chunk)
            progress(file, done := done + len(chunk))
        if digest.hexdigest() != file.sha256:
            raise _wrong_checksum(str(origin), file, digest.hexdigest())
    return Arrival.FETCHED


def _downloaded(
    file: PublicFile, address: str, place: Path, web: httpx.Client, progress: Progress, back_off: Sequence[float]
) -> Arrival:
    part = place.with_name(f"{place.name}.part")
    continued = part.exists() and part.stat().st_size > 0
    with downloaded(file, address, part, web, lambda done: progress(file, done), back_off):
        found = file_sha256(part)
        if found == file.sha256:
            descriptor = os.open(part, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            part.replace(place)
            sync_folder(place.parent)
            return Arrival.FETCHED
        part.unlink()
    if continued:
        # The kept beginning may have been of another version: once more, from the first byte.
        return _downloaded(file, address, place, web, progress, back_off)
    raise _wrong_checksum(address, file, found)


def _wrong_checksum(where: str, file: PublicFile, found: str) -> HarnessError:
    return HarnessError(
        f"{file.name}: wrong SHA-256 from {where}: expected {file.sha256}, found {found}; nothing is kept."
    )
