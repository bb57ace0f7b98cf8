"""An attack that finishes, and leaves something in its scratch directory that is hard to measure or to delete."""

import ctypes
import mmap
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from harness import Attack, Context, Field, Guesses, Params


class LitteringParams(Params):
    depth: int = Field(0, description="Directories inside each other, whose path is too long to be named.")
    deleted_bytes: int = Field(0, description="Bytes of deleted files that are held.")
    held_by: Literal["descriptor", "mapping", "message"] = Field(
        "descriptor", description="What holds them: a message is sent over a pair of sockets, and not received."
    )
    seconds: float = Field(60, description="Time for which they are held.")


class Littering(Attack[LitteringParams]):
    name = "littering"
    uses_target = False

    def run(self, context: Context) -> Iterator[Guesses]:
        for batch in context.batches():
            yield Guesses(batch.ids, batch.prefixes[:, : context.suffix_length], [0.0] * len(batch.ids))
        home = Path.cwd()
        for _ in range(self.params.depth):
            Path("directory").mkdir()
            os.chdir("directory")
        os.chdir(home)
        left = self.params.deleted_bytes
        sender, receiver = socket.socketpair()
        held: list[object] = [receiver]
        while left > 0:
            file = os.open("deleted", os.O_CREAT | os.O_RDWR)
            Path("deleted").unlink()
            os.posix_fallocate(file, 0, size := min(left, 1 << 30))
            left -= size
            if self.params.held_by == "mapping":
                held.append(_mapping(file, size))
            elif self.params.held_by == "message":
                socket.send_fds(sender, [b"x"], [file])
            if self.params.held_by != "descriptor":
                os.close(file)
        if self.params.deleted_bytes:
            time.sleep(self.params.seconds)  # the supervisor measures every two seconds


def _mapping(file: int, size: int) -> int:
    """Map a file, and return the address. mmap.mmap keeps a descriptor."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    read_write, shared = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED
    address = libc.mmap(None, ctypes.c_size_t(size), read_write, shared, file, ctypes.c_long(0))
    return int(address)
