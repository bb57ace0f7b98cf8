"""The order of a submission: which guesses, in which order, and the CSV they make; nothing of where they came from."""

from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from harness.core import files
from harness.core.arrays import Bools, Floats, Ints, Tokens, place_among_equals

HEADER = b"Example ID,Suffix Guess\n"
_BLOCK_ROWS = 1 << 13
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # odd, bits well spread: 2^64 over the golden ratio (Knuth, TAOCP 6.4)


def current_rows(ids: Ints, suffixes: Tokens) -> Ints:
    """The last row of each distinct (example, suffix), [distinct] int64 row indices, ascending.

    `ids` [rows] and `suffixes` [rows, suffix length] stand in the order of their arrival.
    """
    fingerprints = _fingerprints(ids, suffixes)
    order = np.argsort(fingerprints, kind="stable")
    alike = fingerprints[order[1:]] == fingerprints[order[:-1]]
    earlier, later = order[:-1][alike], order[1:][alike]
    if not ((ids[earlier] == ids[later]).all() and (suffixes[earlier] == suffixes[later]).all()):
        # Two different guesses share a fingerprint: sort by the guesses themselves.
        order = np.lexsort((*_columns_last_first(suffixes), ids))
        alike = (ids[order[1:]] == ids[order[:-1]]) & (suffixes[order[1:]] == suffixes[order[:-1]]).all(axis=1)
    is_last = np.ones(len(ids), np.bool_)
    is_last[order[:-1][alike]] = False
    return np.flatnonzero(is_last)


def submission_order(
    ids: Ints, suffixes: Tokens, scores: Floats, *, per_example: int = 1, row_cap: int | None = None
) -> Ints:
    """Row indices of a submission, first submitted first, [submitted] int64.

    `ids` [rows], `suffixes` [rows, suffix length] and `scores` [rows] stand in the order of their arrival; scores may
    be infinite and are never NaN. Of equal (example, suffix) the last row counts. Order: score descending, example id
    ascending, suffix ascending token by token; the arrival decides nothing. At most `per_example` suffixes of an
    example, its first by that order (0: any number), and at most `row_cap` rows in all (None: any number).
    """
    rows = current_rows(ids, suffixes)
    rows = rows[_ordered(ids[rows], suffixes, scores[rows], rows)]
    if per_example:
        rows = rows[place_among_equals(ids[rows]) < per_example]
    return rows if row_cap is None else rows[:row_cap]


def write_submission(destination: Path | IO[bytes], ids: Ints, suffixes: Tokens) -> None:
    """Write the official CSV: `Example ID,Suffix Guess`, then rows such as `616,"[1,2,3]"`, each ended by LF.

    `ids` [rows] and `suffixes` [rows, suffix length >= 1], none negative, in submission order. A path is replaced
    atomically; an open binary file is written to.
    """
    if isinstance(destination, Path):
        with files.atomic_file(destination) as file:
            write_submission(file, ids, suffixes)
        return
    destination.write(HEADER)
    for start in range(0, len(ids), _BLOCK_ROWS):
        destination.write(_csv_rows(ids[start : start + _BLOCK_ROWS], suffixes[start : start + _BLOCK_ROWS]))


def _fingerprints(ids: Ints, suffixes: Tokens) -> NDArray[np.uint64]:
    """A 64-bit number for each row, equal for equal (example, suffix), [rows]."""
    fingerprints = ids.astype(np.uint64)
    for start in range(0, len(ids), _BLOCK_ROWS):
        block = fingerprints[start : start + _BLOCK_ROWS]
        for tokens in np.ascontiguousarray(suffixes[start : start + _BLOCK_ROWS].T):
            block *= _MULTIPLIER
            block ^= block >> np.uint64(29)
            block += tokens.astype(np.uint64)
    return fingerprints


def _ordered(ids: Ints, suffixes: Tokens, scores: Floats, rows: Ints) -> Ints:
    """Positions into `rows`, in submission order, where `ids` and `scores` belong to `rows` and `suffixes` to all."""
    order = np.lexsort((ids, -scores))
    tied = (scores[order[1:]] == scores[order[:-1]]) & (ids[order[1:]] == ids[order[:-1]])
    if not tied.any():
        return order
    in_tie = np.zeros(len(order), np.bool_)
    in_tie[:-1] = tied
    in_tie[1:] |= tied
    places = np.flatnonzero(in_tie)
    # A tie's number grows where a row does not tie with the one before it.
    tie = np.cumsum(np.concatenate(([False], ~tied)))[places]
    by_suffix = np.lexsort((*_columns_last_first(suffixes[rows[order[places]]]), tie))
    order[places] = order[places][by_suffix]
    return order


def _columns_last_first(suffixes: Tokens) -> list[Tokens]:
    """The columns as `np.lexsort` wants them: the most significant last."""
    return list(np.ascontiguousarray(suffixes.T)[::-1])


def _csv_rows(ids: Ints, suffixes: Tokens) -> bytes:
    rows = len(ids)
    example, example_used = _decimal(ids)
    token, token_used = _decimal(suffixes)
    parts = [
        (example, example_used),
        _constant(b',"[', rows),
        _joined_by_commas(token, token_used),
        _constant(b']"\n', rows),
    ]
    characters = np.concatenate([part for part, _ in parts], axis=1)
    used = np.concatenate([part for _, part in parts], axis=1)
    return bytes(characters[used])


Characters = tuple[NDArray[np.uint8], Bools]
"""ASCII codes and which of them are written, both [..., characters]."""


def _decimal(numbers: Tokens) -> Characters:
    """The digits of non-negative integers, right-aligned in one more axis; leading zeros are not used."""
    greatest = int(numbers.max(initial=0))
    width = len(str(greatest))
    left = numbers.astype(np.uint32 if greatest < 1 << 32 else np.uint64)
    digits = np.empty((*numbers.shape, width), np.uint8)
    used = np.ones(digits.shape, np.bool_)
    for place in reversed(range(width)):
        # The last digit is always used: it writes the number 0.
        if place < width - 1:
            np.not_equal(left, 0, out=used[..., place])
        tenth = left // 10
        np.subtract(left, tenth * 10, out=digits[..., place], casting="unsafe")
        left = tenth
    digits += ord("0")
    return digits, used


def _constant(text: bytes, rows: int) -> Characters:
    codes = np.frombuffer(text, np.uint8)
    return np.broadcast_to(codes, (rows, len(text))), np.ones((rows, len(text)), np.bool_)


def _joined_by_commas(characters: NDArray[np.uint8], used: Bools) -> Characters:
    """[rows, numbers, digits] as one axis of text, with a comma after each number but the last."""
    rows, numbers, digits = characters.shape
    text = np.full((rows, numbers, digits + 1), ord(","), np.uint8)
    text[..., :digits] = characters
    is_used = np.ones(text.shape, np.bool_)
    is_used[..., :digits] = used
    flat = (rows, numbers * (digits + 1))
    return text.reshape(flat)[:, :-1], is_used.reshape(flat)[:, :-1]
