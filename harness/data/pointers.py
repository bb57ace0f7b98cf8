"""Read pointers into The Pile: which document holds an example, and at which position."""

import re
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from harness.core.errors import HarnessError
from harness.core.text import shorten

PILE_FILES = 30
_MAX_BYTES = 64 << 20
_MAX_LINE_BYTES = 256
_INTEGER = re.compile(r"-?[0-9]{1,15}")


class Pointer(NamedTuple):
    """The position of one example. The fields are the columns of the file, in their order.

    `line_offset`, `start`, `end`, `take_before` and `take_after` count bytes, the others tokens. If `start_token` is 0
    or more, the example is tokens start_token:end_token of the document. Otherwise the document's UTF-8 bytes
    start - take_before : end + take_after are tokenized, and the example is `size` tokens from `internal_offset` on.
    `occurrences` in The Pile is -1 throughout the published files.
    """

    example: int
    file: int
    line_offset: int
    start: int
    end: int
    take_before: int
    take_after: int
    internal_offset: int
    size: int
    start_token: int
    end_token: int
    occurrences: int


def read_pointers(path: Path) -> list[Pointer]:
    """Return the pointers of a CSV file with twelve integers per line and no header, in the order of their positions.

    Raises HarnessError, naming file and line, if the file is absent, malformed or contains an example twice.
    """
    try:
        size = path.stat().st_size
        if size > _MAX_BYTES:
            raise HarnessError(f"{path} has {size:,} bytes. A list of pointers has at most {_MAX_BYTES:,}.")
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        raise HarnessError(f"{path} does not exist. `harness data fetch satml` fetches it.") from None
    except OSError as error:
        raise HarnessError(f"cannot read {path}: {error.strerror}.") from None
    pointers = [_pointer(path, number, line) for number, line in enumerate(lines, start=1)]
    if not pointers:
        raise HarnessError(f"{path} contains no pointers.")
    first_line: dict[int, int] = {}
    for number, pointer in enumerate(pointers, start=1):
        if (earlier := first_line.setdefault(pointer.example, number)) != number:
            raise HarnessError(f"{path}: line {number}: example {pointer.example} is already on line {earlier}.")
    return sorted(pointers, key=attrgetter("file", "line_offset"))


def _pointer(path: Path, number: int, line: bytes) -> Pointer:
    text = line[:_MAX_LINE_BYTES].decode("ascii", "replace")
    cells = text.split(",")
    if len(line) > _MAX_LINE_BYTES or len(cells) != len(Pointer._fields):
        raise HarnessError(f"{path}: line {number}: expected {len(Pointer._fields)} integers, found {shorten(text)!r}.")
    for column, cell in zip(Pointer._fields, cells, strict=True):
        if not _INTEGER.fullmatch(cell):
            raise HarnessError(f"{path}: line {number}: {column} is {shorten(cell)!r}, not an integer.")
    pointer = Pointer(*map(int, cells))
    if (fault := _fault_in(pointer)) is not None:
        raise HarnessError(f"{path}: line {number}: {fault}.")
    return pointer


def _fault_in(pointer: Pointer) -> str | None:
    if not 0 <= pointer.file < PILE_FILES:
        return f"file is {pointer.file}, not 0..{PILE_FILES - 1}"
    if pointer.example < 0 or pointer.line_offset < 0:
        return "example and line_offset cannot be negative"
    if not 1 <= pointer.size <= 4096:
        return f"size is {pointer.size}, not 1..4096"
    if pointer.start_token >= 0:
        return (
            None if pointer.end_token - pointer.start_token == pointer.size else "end_token is not start_token + size"
        )
    if min(pointer.start, pointer.take_before, pointer.take_after, pointer.internal_offset) < 0:
        return "a position in the document is negative"
    return None if pointer.end >= pointer.start else "end is before start"
