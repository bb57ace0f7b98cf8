"""Read pointers into The Pile: which document holds an example, and at which position."""

import warnings
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from harness.core.errors import HarnessError
from harness.core.text import shorten


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

    Raises HarnessError if the file is absent, is not such a table, or contains an example twice. The positions are not
    checked: wrong ones give rows with a wrong md5.
    """
    try:
        # NumPy warns of a file without lines.
        with warnings.catch_warnings(action="ignore"):
            table = np.loadtxt(path, np.int64, delimiter=",", comments=None, ndmin=2)
    except FileNotFoundError:
        raise HarnessError(f"{path} does not exist. `harness data fetch satml` fetches it.") from None
    except OSError as error:
        raise HarnessError(f"cannot read {path}: {error.strerror}.") from None
    except ValueError as error:
        reason = str(error).partition(";")[0].rstrip(".")
        raise HarnessError(f"{path}: not a table of integers ({shorten(reason, 120)}).") from None
    if not len(table) or table.shape[1] != len(Pointer._fields):
        found = f"{len(table)} lines of {table.shape[1]}"
        raise HarnessError(f"{path}: expected lines of {len(Pointer._fields)} integers, found {found}.")
    if (negative := (table[:, :3] < 0).any(axis=1)).any():
        raise HarnessError(f"{path}: line {negative.argmax() + 1}: an example, a file or an offset is negative.")
    pointers = [Pointer(*row) for row in table.tolist()]
    examples, counts = np.unique(table[:, 0], return_counts=True)
    if (counts > 1).any():
        raise HarnessError(f"{path}: contains example {examples[counts.argmax()]} more than once.")
    return sorted(pointers, key=attrgetter("file", "line_offset"))
