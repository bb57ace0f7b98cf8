"""One file over HTTP into a `.part` file: resumed where it was cut, bounded by its listed size, never trusted.

The `.part` stays when a connection dies or the user stops, and goes when what the server sends cannot be the file.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import IO

import httpx

from harness.core.errors import HarnessError
from harness.core.text import shorten
from harness.data.catalog import PublicFile

Progress = Callable[[int], None]
"""Told the bytes of a file in hand, from time to time."""

BACK_OFF = (0.5, 1.0, 2.0, 4.0)
"""Seconds before each further try; progress starts the list again."""

_MAY_PASS = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
# Ranges count the bytes sent, so a compressed body could not be resumed.
_HEADERS = {"Accept-Encoding": "identity", "User-Agent": "extraction-harness"}


class Unreachable(HarnessError):
    """The server cannot be reached or keeps breaking off; asking it for other files is no use either."""


class NotThere(HarnessError):
    """The server answers that it has no such file."""


class _Interrupted(Exception):
    """A try that ended early and may be made again; the text says how it ended."""


def client() -> httpx.Client:
    """Patient with slow servers, not with silent ones: 30 s without a byte end a try."""
    return httpx.Client(headers=_HEADERS, timeout=httpx.Timeout(30.0, connect=15.0), follow_redirects=True)


@contextlib.contextmanager
def downloaded(
    file: PublicFile,
    address: str,
    part: Path,
    web: httpx.Client,
    progress: Progress,
    back_off: Sequence[float] = BACK_OFF,
) -> Iterator[None]:
    """While the block runs, `part` holds as many bytes as the catalogue lists, locked against other fetches.

    What `part` holds already is kept and continued. Raises NotThere, Unreachable (what arrived stays), or HarnessError
    when what is sent cannot be the file (`part` goes).
    """
    with os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT, 0o644), "r+b") as written:
        try:
            fcntl.flock(written, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HarnessError(f"{part}: another fetch is writing it.") from None
        written.seek(0, os.SEEK_END)
        try:
            _Transfer(file, address, written, web, progress).complete(back_off)
        except HarnessError as error:
            if written.tell() == 0 or not isinstance(error, NotThere | Unreachable):
                part.unlink()
            raise
        yield


@dataclass
class _Transfer:
    """A file on its way: what is in hand (all of `written`), and which version the server said it was."""

    file: PublicFile
    address: str
    written: IO[bytes]
    web: httpx.Client
    progress: Progress
    entity_tag: str = ""

    @property
    def in_hand(self) -> int:
        return self.written.tell()

    def complete(self, back_off: Sequence[float]) -> None:
        """Try until all bytes are in hand, waiting longer after each try that came no further than those before."""
        if self.in_hand > self.file.size:
            self._start_over()
        best, fruitless = self.in_hand, 0
        while self.in_hand < self.file.size:
            try:
                self._try_once()
            except _Interrupted as end:
                self.written.flush()
                best, fruitless = (self.in_hand, 0) if self.in_hand > best else (best, fruitless + 1)
                if fruitless >= len(back_off):
                    raise Unreachable(self._given_up(str(end))) from None
                time.sleep(back_off[fruitless])
        self.written.flush()

    def _try_once(self) -> None:
        headers = {"Range": f"bytes={self.in_hand}-"} if self.in_hand else {}
        if self.in_hand and self.entity_tag:
            headers["If-Range"] = self.entity_tag
        try:
            with self.web.stream("GET", self.address, headers=headers) as response:
                self._prepare_for(response)
                for chunk in response.iter_raw():
                    if self.in_hand + len(chunk) > self.file.size:
                        raise HarnessError(
                            f"{self.file.name}: {self.address} sends more than the {self.file.size:,} bytes listed."
                        )
                    self.written.write(chunk)
                    self.progress(self.in_hand)
                    if self.in_hand == self.file.size:
                        # Whatever length was announced, the listed one is here and the checksum judges it.
                        return
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.TooManyRedirects) as error:
            raise HarnessError(f"{shorten(self.address, 200)} cannot be asked for ({error}).") from None
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise _Interrupted(str(error) or type(error).__name__) from None
        raise _Interrupted("the connection ended early")

    def _prepare_for(self, response: httpx.Response) -> None:
        """Judge the answer's head: go on behind what is in hand, or start over when the whole file is sent."""
        status = response.status_code
        if status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
            raise NotThere(f"{self.file.name}: {self.address} is not there ({status}).")
        if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and self.in_hand:
            self._start_over()
            raise _Interrupted("the server has no bytes to go on with")
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _MAY_PASS:
            raise _Interrupted(f"the server answered {status}")
        if status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
            raise HarnessError(f"{self.file.name}: {self.address} answered {status}.")
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise HarnessError(f"{self.file.name}: {self.address} sends it compressed, which was not asked for.")
        tag = response.headers.get("ETag", "")
        # Only a strong tag may go into If-Range (RFC 9110, 13.1.5); without one the checksum judges alone.
        self.entity_tag = tag if tag.startswith('"') else ""
        if status == HTTPStatus.OK:
            self._start_over()
        elif not response.headers.get("Content-Range", "").startswith(f"bytes {self.in_hand}-"):
            self._start_over()
            raise _Interrupted("the server sent another range than the one asked for")

    def _start_over(self) -> None:
        self.written.seek(0)
        self.written.truncate()

    def _given_up(self, reason: str) -> str:
        kept = "nothing arrived"
        if self.in_hand:
            kept = (
                f"the first {self.in_hand:,} of {self.file.size:,} bytes are kept, and the same command goes on there"
            )
        return f"{self.file.name}: {self.address} breaks off ({shorten(reason, 120)}); {kept}."
