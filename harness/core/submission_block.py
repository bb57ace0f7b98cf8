"""Many lines of a submission CSV at once, by array operations: their numbers, or None for anything unusual.

It knows the shape of a row and no limits; what it does not take is for the line-by-line reading to accept or to name.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.core.arrays import Bools, Ints, Tokens
from harness.core.submission_line import longest_line

Codes = NDArray[np.uint8]
_MOST_DIGITS = 9  # what uint32 holds whatever the digits are
_AFTER_ID, _AFTER_SUFFIX = b',"[', b']"'


class Rows(NamedTuple):
    """Rows of a submission. ids: [rows] int64; suffixes: [rows, suffix length], an unsigned type."""

    ids: Ints
    suffixes: Tokens


def parsed_block(block: bytes, suffix_length: int, line_end: bytes) -> Rows | None:
    """The rows of a block of whole lines, suffixes as uint32; None unless each is a row of plain numbers, so ended."""
    codes = np.frombuffer(block, np.uint8)
    digit = (codes - np.uint8(ord("0"))) < 10  # uint8 wraps: whatever is below '0' is large
    if not digit[0] or digit[-1] or len(codes) < 2:
        return None
    edges = np.flatnonzero(digit[1:] != digit[:-1]).astype(np.int32)
    lasts = edges[0::2]  # where a number has its last digit
    starts = np.concatenate((np.zeros(1, np.int32), edges[1::2] + 1))
    if len(lasts) % (suffix_length + 1) or _has_leading_zero(codes, digit):
        return None
    shape = (-1, suffix_length + 1)
    if not _are_rows(codes, starts.reshape(shape), lasts.reshape(shape), _AFTER_SUFFIX + line_end):
        return None
    values = _values(codes, starts, lasts)
    if values is None:
        return None
    table = values.reshape(shape)
    return Rows(table[:, 0].astype(np.int64), table[:, 1:])


def _has_leading_zero(codes: Codes, digit: Bools) -> bool:
    zero_before_digit = (codes[:-1] == ord("0")) & digit[1:]
    starts_number = np.concatenate(([True], ~digit[:-2])) if len(codes) > 2 else np.ones(1, np.bool_)
    return bool((zero_before_digit & starts_number[: len(zero_before_digit)]).any())


def _are_rows(codes: Codes, starts: NDArray[np.int32], lasts: NDArray[np.int32], row_end: bytes) -> bool:
    """Whether what stands between the numbers, [rows, 1 + suffix length] of them, is what makes them rows."""
    rows, numbers = starts.shape
    first_of_next = np.append(starts[1:, 0], len(codes))
    if not (
        np.array_equal(lasts[:, -1] + len(row_end) + 1, first_of_next)
        and np.array_equal(lasts[:, 0] + len(_AFTER_ID) + 1, starts[:, 1])
        and (first_of_next - starts[:, 0]).max() <= longest_line(numbers - 1)
        and _stand_after(codes, lasts[:, 0], _AFTER_ID)
        and _stand_after(codes, lasts[:, -1], row_end)
    ):
        return False
    gaps = starts[:, 2:] - lasts[:, 1:-1] - 1
    separators = rows * (numbers - 2)
    blanks = int(gaps.sum(dtype=np.int64)) - separators
    if blanks == 0:
        # Each gap inside a list is one byte: all are commas when the commas are that many, and one after each id.
        return bool(np.count_nonzero(codes == ord(",")) == separators + rows)
    # The gaps start with commas, and the file has a space for each byte that is left: those bytes are spaces.
    return bool((codes[lasts[:, 1:-1] + 1] == ord(",")).all() and np.count_nonzero(codes == ord(" ")) == blanks)


def _stand_after(codes: Codes, places: NDArray[np.int32], text: bytes) -> bool:
    return all(bool((codes[places + 1 + offset] == code).all()) for offset, code in enumerate(text))


def _values(codes: Codes, starts: NDArray[np.int32], lasts: NDArray[np.int32]) -> NDArray[np.uint32] | None:
    """The numbers whose first and last digits stand at `starts` and `lasts`, [numbers]; None when one is too long."""
    further_digits = lasts - starts
    most = int(further_digits.max())
    if most >= _MOST_DIGITS:
        return None
    values = (codes[lasts] - np.uint8(ord("0"))).astype(np.uint32)
    for place in range(1, most + 1):
        # Where the number is shorter, the byte is another's, and counts nothing.
        figure = (codes[np.maximum(lasts - place, 0)] - np.uint8(ord("0"))) * (further_digits >= place)
        values += figure * np.uint32(10**place)
    return values
