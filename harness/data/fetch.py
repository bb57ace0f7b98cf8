"""Fetch public files into a directory, from their authors, another address or another directory.

A file gets its name only after its size and SHA-256 have matched the catalogue, wherever it comes from.
"""

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path

import httpx

from harness.core import paths
from harness.core.errors import HarnessError
from harness.core.files import CHUNK_BYTES, atomic_file, file_errors, file_sha256, require_content
from harness.core.text import shorten
from harness.core.times import format_duration
from harness.data.files import PublicFile

Progress = Callable[[PublicFile, int], None]
"""Called with a file and the number of its bytes that have arrived, first with 0."""

RETRY_SECONDS = (0.5, 2.0, 4.0)
"""Seconds to wait before each further attempt to download a file."""

_TEMPORARY = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
_NOT_THERE = {HTTPStatus.NOT_FOUND, HTTPStatus.GONE}


class Arrival(StrEnum):
    """The result of fetching one file."""

    FETCHED = "fetched"
    ALREADY_THERE = "already there"
    LACKING = "lacking"
    FAILED = "failed"


@dataclass(frozen=True)
class Outcome:
    """The result of fetching one file, with the reason if it failed."""

    file: PublicFile
    arrival: Arrival
    fault: str = ""


class FetchProgress:
    """The progress of fetching several files, one after the other, as a line of text."""

    def __init__(self, name: str, files: Sequence[PublicFile]) -> None:
        self._name = name
        self._total = sum(file.size for file in files)
        sizes = [file.size for file in files]
        self._before = {file: sum(sizes[:number]) for number, file in enumerate(files)}
        self._arrived: dict[PublicFile, int] = {}
        self._began_at = time.monotonic()

    def line(self, file: PublicFile, done: int) -> str:
        """Return, for example, `satml: 3.2 of 7.6 MB (42%), ETA 0:07 · val_prefix.npy`.

        Files before `file` count as done. The pace is that of the bytes that have arrived, without files that existed.
        """
        self._arrived[file] = done
        position, arrived = self._before[file] + done, sum(self._arrived.values())
        share = f"{position / 1e6:.1f} of {self._total / 1e6:.1f} MB ({position / self._total:.0%})"
        seconds = time.monotonic() - self._began_at
        eta = f", ETA {format_duration(seconds / arrived * (self._total - position))}" if arrived else ""
        return f"{self._name}: {share}{eta} · {file.name}"


class _MissingFileError(HarnessError):
    """The source does not have the file."""


class _UnreachableError(HarnessError):
    """The server cannot be reached, so the other files cannot be fetched either."""


class _TemporaryError(Exception):
    """An attempt that failed in a way that another attempt may not."""


def fetch_files(files: Sequence[PublicFile], folder: Path, source: str | None, progress: Progress) -> Iterator[Outcome]:
    """Fetch `files` into `folder` and yield the outcome of each.

    `source` is a directory or a base address with the files directly below it; None fetches each file from its
    authors. A faulty file does not stop the others. An unreachable server ends the fetch with the outcome of that file.
    Raises HarnessError if `folder` cannot be created or `source` is not a directory.
    """
    source_folder = None
    if source is not None and not source.startswith(("http://", "https://")):
        source_folder = paths.expand_home(source)
        if not source_folder.is_dir():
            raise HarnessError(f"{source} is neither a directory nor an http(s) address. Correct --from.")
    with file_errors(folder, "created"):
        folder.mkdir(parents=True, exist_ok=True)
    # A slow server may take its time, but 30 s without a byte end an attempt.
    timeout = httpx.Timeout(30.0, connect=15.0)
    with httpx.Client(headers={"User-Agent": "extraction-harness"}, timeout=timeout, follow_redirects=True) as client:
        for file in files:
            place = folder / file.name
            try:
                if place.is_file() and place.stat().st_size == file.size and file_sha256(place) == file.sha256:
                    yield Outcome(file, Arrival.ALREADY_THERE)
                    continue
                progress(file, 0)
                if source_folder is not None:
                    _copy(file, source_folder / file.name, place, progress)
                else:
                    address = file.address if source is None else f"{source.rstrip('/')}/{file.name}"
                    _download(file, address, place, client, progress)
                yield Outcome(file, Arrival.FETCHED)
            except _MissingFileError:
                yield Outcome(file, Arrival.LACKING)
            except _UnreachableError as error:
                yield Outcome(file, Arrival.FAILED, str(error))
                return
            except HarnessError as error:
                yield Outcome(file, Arrival.FAILED, str(error))
            except OSError as error:
                yield Outcome(file, Arrival.FAILED, f"{error.filename or place}: {error.strerror or error}.")


def _copy(file: PublicFile, origin: Path, place: Path, progress: Progress) -> None:
    if not origin.is_file():
        raise _MissingFileError
    require_content(origin)
    with origin.open("rb") as content:
        _store(file, str(origin), iter(lambda: content.read(CHUNK_BYTES), b""), place, progress)


def _download(file: PublicFile, address: str, place: Path, client: httpx.Client, progress: Progress) -> None:
    """Download a file, from its first byte on each attempt.

    Raises _MissingFileError or _UnreachableError, or HarnessError if the answer cannot be the file.
    """
    for seconds in (*RETRY_SECONDS, None):
        try:
            with client.stream("GET", address) as response:
                _check_status(file, address, response.status_code)
                _store(file, address, response.iter_bytes(), place, progress)
            return
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.TooManyRedirects) as error:
            raise HarnessError(f"cannot download from {shorten(address, 200)}: {error}. Check the address.") from None
        except (httpx.HTTPError, httpx.StreamError, _TemporaryError) as error:
            if seconds is None:
                reason = shorten(str(error) or type(error).__name__, 120)
                raise _UnreachableError(f"{file.name}: cannot download {address} ({reason}). Try again.") from None
            time.sleep(seconds)


def _check_status(file: PublicFile, address: str, status: int) -> None:
    if status in _NOT_THERE:
        raise _MissingFileError
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _TEMPORARY:
        raise _TemporaryError(f"the server answered {status}")
    if status != HTTPStatus.OK:
        raise HarnessError(f"{file.name}: cannot be downloaded ({address} answered {status}). Try again later.")


def _store(file: PublicFile, origin: str, chunks: Iterable[bytes], place: Path, progress: Progress) -> None:
    """Write `chunks` to `place` if they are the file, and otherwise raise HarnessError and leave nothing behind."""
    digest, size = hashlib.sha256(), 0
    with atomic_file(place) as written:
        for chunk in chunks:
            size += len(chunk)
            if size > file.size:
                break
            digest.update(chunk)
            written.write(chunk)
            progress(file, size)
        if size != file.size:
            amount = f"more than {file.size:,}" if size > file.size else f"{size:,}"
            raise HarnessError(f"{file.name}: {origin} has {amount} bytes. The published file has {file.size:,}.")
        if digest.hexdigest() != file.sha256:
            raise HarnessError(
                f"{file.name}: wrong SHA-256 from {origin}: expected {file.sha256}, found {digest.hexdigest()}. "
                "Nothing is kept."
            )
