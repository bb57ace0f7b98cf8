"""An attack that searches everything a worker can read for a byte pattern, and prints where it is found."""

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from harness import Attack, Context, Field, Guesses, Params


class SearchingParams(Params):
    complement: str = Field(
        description="Pattern with each byte inverted, in hex, so that the parameter itself does not contain it."
    )
    paths: list[str] = Field([], description="Paths that must not be readable.")


class Searching(Attack[SearchingParams]):
    name = "searching"
    uses_target = False

    def run(self, context: Context) -> Iterator[Guesses]:
        yield Guesses([0], context.prefixes[:1, : context.suffix_length], [0.0])
        inverted = bytes.fromhex(self.params.complement)
        print("searched", len(inverted), "bytes")
        for place, content in self._places():
            if _contains(content, inverted):
                print("FOUND in", place)
        for path in self.params.paths:
            print("READ" if _can_be_read(Path(path)) else "hidden", path)
        print("socket", _try_to_connect())
        print("descriptors", *(f"{number}={link}" for number, link in _descriptors().items()))
        print("environment", *sorted(os.environ))
        print("parent", Path(f"/proc/{os.getppid()}/cmdline").read_bytes()[:60])

    def _places(self) -> Iterator[tuple[str, bytes]]:
        yield "arguments", "\0".join(sys.argv).encode() + Path("/proc/self/cmdline").read_bytes()
        yield "environment", Path("/proc/self/environ").read_bytes()
        for number, link in _descriptors().items():
            if link.startswith("/"):
                yield f"descriptor {number}", Path(f"/proc/self/fd/{number}").read_bytes()
        for folder in {Path.cwd(), Path(sys.argv[3]), Path(os.environ["TMPDIR"])}:
            for file in folder.rglob("*"):
                if file.is_file():
                    yield str(file), file.read_bytes()
        for archive in Path(sys.argv[3]).glob("*.npz"):
            with np.load(archive) as arrays:
                for name in arrays.files:
                    yield f"{archive}:{name}", arrays[name].tobytes()
        with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
            for line in maps.read().splitlines():
                span, rights = line.split()[:2]
                first, last = (int(end, 16) for end in span.split("-"))
                if rights.startswith("r") and "[v" not in line:
                    try:
                        memory.seek(first)
                        yield f"memory {line}", memory.read(last - first)
                    except OSError:
                        continue


def _contains(content: bytes, inverted: bytes) -> bool:
    """Return whether `content` contains the complement of `inverted`, without computing the complement."""
    start = content.find(bytes([inverted[0] ^ 255]))
    if start < 0:
        return False
    bits = np.frombuffer(content, np.uint8)
    candidates = np.flatnonzero(bits[: len(bits) - len(inverted) + 1] == (inverted[0] ^ 255))
    for offset in range(1, len(inverted)):
        candidates = candidates[bits[candidates + offset] == (inverted[offset] ^ 255)]
        if len(candidates) == 0:
            return False
    return True


def _descriptors() -> dict[int, str]:
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = str(Path(f"/proc/self/fd/{name}").readlink())
        except OSError:
            continue
    return found


def _can_be_read(path: Path) -> bool:
    try:
        return any(path.iterdir()) if path.is_dir() else bool(path.read_bytes())
    except OSError:
        return False


def _try_to_connect() -> str:
    try:
        with socket.create_connection(("127.0.0.1", int(os.environ.get("TEST_PORT", "9"))), timeout=2):
            return "CONNECTED"
    except OSError as error:
        return f"refused ({error})"
