"""The order of a submission: which guesses it contains, in which order, and the CSV file they are written to."""

import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.core import files
from harness.core.arrays import Floats, Ints, Tokens, place_among_equals

HEADER = b"Example ID,Suffix Guess\n"
_BLOCK_ROWS = 1 << 13
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # odd, bits well spread: 2^64 over the golden ratio (Knuth, TAOCP 6.4)


def current_rows(ids: Ints, suffixes: Tokens) -> Ints:
    """Return the last row of each distinct (example, suffix), [distinct] int64 row indices, ascending.

    `ids` [rows] and `suffixes` [rows, suffix length] are in the order of their arrival.
    """
    fingerprints = _fingerprints(ids, suffixes)
    order = np.argsort(fingerprints, kind="stable")
    alike = fingerprints[order[1:]] == fingerprints[order[:-1]]
    earlier, later = order[:-1][alike], order[1:][alike]
    if not ((ids[earlier] == ids[later]).all() and (suffixes[earlier] == suffixes[later]).all()):
        # Two different guesses have the same fingerprint, so sort by the guesses themselves.
        order = np.lexsort((*_columns_last_first(suffixes), ids))
        alike = (ids[order[1:]] == ids[order[:-1]]) & (suffixes[order[1:]] == suffixes[order[:-1]]).all(axis=1)
    is_last = np.ones(len(ids), np.bool_)
    is_last[order[:-1][alike]] = False
    return np.flatnonzero(is_last)


def submission_order(
    ids: Ints, suffixes: Tokens, scores: Floats, *, per_example: int = 1, row_cap: int | None = None
) -> Ints:
    """Return the row indices of a submission in its order, [submitted] int64.

    `ids` [rows], `suffixes` [rows, suffix length] and `scores` [rows] are in the order of their arrival. Scores may be
    infinite but not NaN. The last row of equal (example, suffix) counts. Rows are ordered by score descending, example
    id ascending and suffix ascending token by token, independently of their arrival. A submission has the first
    `per_example` suffixes of each example (0: any number) and at most `row_cap` rows (None: any number).
    """
    rows = current_rows(ids, suffixes)
    rows = rows[_order(ids[rows], suffixes, scores[rows], rows)]
    if per_example:
        rows = rows[place_among_equals(ids[rows]) < per_example]
    return rows if row_cap is None else rows[:row_cap]


def write_submission(path: Path, ids: Ints, suffixes: Tokens) -> None:
    """Write the official CSV, as `submission_bytes` returns it. An existing file is replaced atomically."""
    files.write_atomically(path, submission_bytes(ids, suffixes))


def submission_bytes(ids: Ints, suffixes: Tokens) -> bytes:
    """Return the official CSV: `Example ID,Suffix Guess`, then rows such as `616,"[1,2,3]"`, each ended by LF.

    `ids` [rows] and `suffixes` [rows, suffix length >= 1] are not negative and in submission order.
    """
    content = io.BytesIO()
    content.write(HEADER)
    for example, suffix in zip(ids.tolist(), suffixes, strict=True):
        content.write(f'{example},"[{",".join(map(str, suffix.tolist()))}]"\n'.encode())
    return content.getvalue()


def _fingerprints(ids: Ints, suffixes: Tokens) -> NDArray[np.uint64]:
    """Return a 64-bit number for each row, [rows], which is equal for equal (example, suffix)."""
    fingerprints = ids.astype(np.uint64)
    for start in range(0, len(ids), _BLOCK_ROWS):
        block = fingerprints[start : start + _BLOCK_ROWS]
        for tokens in np.ascontiguousarray(suffixes[start : start + _BLOCK_ROWS].T):
            block *= _MULTIPLIER
            block ^= block >> np.uint64(29)
            block += tokens.astype(np.uint64)
    return fingerprints


def _order(ids: Ints, suffixes: Tokens, scores: Floats, rows: Ints) -> Ints:
    """Return positions into `rows` in submission order. `ids` and `scores` belong to `rows`, `suffixes` to all rows."""
    order = np.lexsort((ids, -scores))
    tied = (scores[order[1:]] == scores[order[:-1]]) & (ids[order[1:]] == ids[order[:-1]])
    if not tied.any():
        return order
    in_tie = np.zeros(len(order), np.bool_)
    in_tie[:-1] = tied
    in_tie[1:] |= tied
    places = np.flatnonzero(in_tie)
    # The number of the tie that each of these rows belongs to.
    tie = np.cumsum(np.concatenate(([False], ~tied)))[places]
    by_suffix = np.lexsort((*_columns_last_first(suffixes[rows[order[places]]]), tie))
    order[places] = order[places][by_suffix]
    return order


def _columns_last_first(suffixes: Tokens) -> list[Tokens]:
    """Return the columns as `np.lexsort` expects them, with the most significant one last."""
    return list(np.ascontiguousarray(suffixes.T)[::-1])
