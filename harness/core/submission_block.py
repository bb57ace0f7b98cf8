"""Parse many lines of a submission CSV at once with array operations.

It accepts only rows of plain numbers and knows no limits. The line-by-line parser reads everything else and names the
faults. This second parser exists for speed: with it, reading, checking and scoring 100,000 rows takes 0.14 of the time
of the official csv loop. The csv module and `int` take as long as that loop; one regular expression per line and the
text parser of numpy take 0.3 to 0.4 of it. The bar is 1/3 (`python -m tests.bench.scorer`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.core.arrays import Bools, Ints, Tokens
from harness.core.submission_line import longest_line

Codes = NDArray[np.uint8]
_MAX_DIGITS = 9  # any number of nine digits fits into uint32
_AFTER_ID, _AFTER_SUFFIX = b',"[', b']"'


class SubmissionRows(NamedTuple):
    """Rows of a submission, in its order. ids: [rows] int64; suffixes: [rows, suffix length], of an unsigned type."""

    ids: Ints
    suffixes: Tokens


def parse_block(block: bytes, suffix_length: int, line_end: bytes) -> SubmissionRows | None:
    """Return the rows of a block of complete lines, or None unless each line is a plain row and `line_end`."""
    codes = np.frombuffer(block, np.uint8)
    digit = (codes - np.uint8(ord("0"))) < 10  # uint8 wraps around, so everything below '0' is large
    if not digit[0] or digit[-1] or len(codes) < 2:
        return None
    edges = np.flatnonzero(digit[1:] != digit[:-1]).astype(np.int32)
    lasts = edges[0::2]  # positions of the last digit of each number
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
    return SubmissionRows(table[:, 0].astype(np.int64), table[:, 1:])


def _has_leading_zero(codes: Codes, digit: Bools) -> bool:
    zero_before_digit = (codes[:-1] == ord("0")) & digit[1:]
    starts_number = np.concatenate(([True], ~digit[:-2])) if len(codes) > 2 else np.ones(1, np.bool_)
    return bool((zero_before_digit & starts_number[: len(zero_before_digit)]).any())


def _are_rows(codes: Codes, starts: NDArray[np.int32], lasts: NDArray[np.int32], row_end: bytes) -> bool:
    """Return True if the text between the numbers [rows, 1 + suffix length] is that of rows."""
    rows, numbers = starts.shape
    first_of_next = np.append(starts[1:, 0], len(codes))
    if not (
        np.array_equal(lasts[:, -1] + len(row_end) + 1, first_of_next)
        and np.array_equal(lasts[:, 0] + len(_AFTER_ID) + 1, starts[:, 1])
        and (first_of_next - starts[:, 0]).max() <= longest_line(numbers - 1)
        and _are_followed_by(codes, lasts[:, 0], _AFTER_ID)
        and _are_followed_by(codes, lasts[:, -1], row_end)
    ):
        return False
    gaps = starts[:, 2:] - lasts[:, 1:-1] - 1
    separators = rows * (numbers - 2)
    blanks = int(gaps.sum(dtype=np.int64)) - separators
    if blanks == 0:
        # Each gap inside a list is one byte. All of them are commas if there are that many, plus one after each id.
        return bool(np.count_nonzero(codes == ord(",")) == separators + rows)
    # The gaps start with commas. The other bytes of the gaps are spaces if the block has exactly as many spaces.
    return bool((codes[lasts[:, 1:-1] + 1] == ord(",")).all() and np.count_nonzero(codes == ord(" ")) == blanks)


def _are_followed_by(codes: Codes, places: NDArray[np.int32], text: bytes) -> bool:
    return all(bool((codes[places + 1 + offset] == code).all()) for offset, code in enumerate(text))


def _values(codes: Codes, starts: NDArray[np.int32], lasts: NDArray[np.int32]) -> NDArray[np.uint32] | None:
    """Return the numbers with first digits at `starts` and last digits at `lasts`, or None if one is too long."""
    further_digits = lasts - starts
    most = int(further_digits.max())
    if most >= _MAX_DIGITS:
        return None
    values = (codes[lasts] - np.uint8(ord("0"))).astype(np.uint32)
    for place in range(1, most + 1):
        # The byte before a shorter number is not its digit, so it is multiplied by 0.
        digit = (codes[np.maximum(lasts - place, 0)] - np.uint8(ord("0"))) * (further_digits >= place)
        values += digit * np.uint32(10**place)
    return values
