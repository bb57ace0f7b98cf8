"""An infini-gram index as a `CorpusIndex`. The engine runs in a process of its own (index_server.py).

A request is the number of tokens and the tokens. The reply is, for each shard, the first rank and the end of those
suffixes in its table that begin with the tokens. All integers are little-endian.
"""

import signal
import struct
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from typing import IO

import numpy as np

from harness.core.arrays import Tokens
from harness.core.errors import HarnessError
from harness.core.extras import require_extra
from harness.core.text import sanitize, shorten
from harness.corpora.index_files import KINDS, IndexFiles
from harness.corpora.occurrences import Place

REQUEST = struct.Struct("<I")
REPLY = struct.Struct("<QQ")
READY = b"+"
"""Sent once when the index is open."""
_SECONDS_TO_END = 5.0


def require_infini_gram() -> None:
    """Raise HarnessError if infini-gram is not installed."""
    require_extra("infini-gram", "--index")


class InfiniGramIndex(ExitStack):
    """Counts and finds tokens in an infini-gram index. Closing it ends the engine's process."""

    def __init__(self, files: IndexFiles) -> None:
        """Start the engine. Raises HarnessError if it is not installed or cannot open the index."""
        super().__init__()
        require_infini_gram()
        self._files = files
        with ExitStack() as stack:
            self._errors: IO[bytes] = stack.enter_context(tempfile.TemporaryFile())
            paths = [getattr(shard, kind).absolute() for shard in files.shards for kind in KINDS]
            self._process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-P", "-m", "harness.corpora.index_server", str(files.width), *paths],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._errors,
                )
            )
            stack.callback(self._end)
            assert self._process.stdin is not None and self._process.stdout is not None
            self._requests, self._replies = self._process.stdin, self._process.stdout
            self._read(len(READY))
            self.push(stack.pop_all())

    def count(self, tokens: Tokens) -> int:
        """Return how often the index contains the `tokens` [n].

        Raises HarnessError if a token is too large for the index, or if the engine fails.
        """
        return sum(end - first for first, end in self._ranks(tokens))

    def find(self, tokens: Tokens, most: int) -> list[Place]:
        """Return at most `most` places of the `tokens` [n], with the errors of `count`."""
        places: list[Place] = []
        for shard, (first, end) in zip(self._files.shards, self._ranks(tokens), strict=True):
            places += shard.places(np.arange(first, min(end, first + most - len(places)), dtype=np.int64))
        return places

    def _ranks(self, tokens: Tokens) -> list[tuple[int, int]]:
        largest = int(tokens.max(initial=0))
        if largest >= self._files.separator:
            raise HarnessError(
                f"token {largest:,} is too large for the index, which stores ids below {self._files.separator:,}: "
                f"{self._files.folder}. Use the tokenizer of the index."
            )
        request = REQUEST.pack(len(tokens)) + np.ascontiguousarray(tokens, "<u4").tobytes()
        try:
            self._requests.write(request)
            self._requests.flush()
        except BrokenPipeError:
            raise self._failure() from None
        return [REPLY.unpack(self._read(REPLY.size)) for _ in self._files.shards]

    def _read(self, size: int) -> bytes:
        data = self._replies.read(size)
        if len(data) != size:
            raise self._failure()
        return data

    def _failure(self) -> HarnessError:
        """Return the error for an engine that has ended: its signal, or the last line that it printed."""
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").split("\n")
        said = next((line for line in reversed(lines) if line.strip()), "")
        reason = signal.Signals(-code).name if code < 0 else sanitize(shorten(said, 160)) or f"exit code {code}"
        return HarnessError(
            f"the infini-gram engine failed ({reason}): {self._files.folder}. If its files are damaged, build it again."
        )

    def _end(self) -> None:
        """End the process: it ends by itself when its stdin does."""
        try:
            self._process.communicate(timeout=_SECONDS_TO_END)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            self._process.kill()
