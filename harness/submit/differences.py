"""Two submissions that should be one: the one that was handed in and the one that its code produced."""

import difflib
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.arrays import Floats, Ints, Tokens
from harness.core.files import sha256_of
from harness.core.submission_reader import Submission
from harness.submit.code_folder import README


class Likeness(StrEnum):
    """How alike two submissions are."""

    IDENTICAL = "identical"
    TIES = "same up to ties"
    DIFFERENT = "different"


@dataclass(frozen=True)
class Agreement:
    """Rows that both hold, and where they stand.

    only_submitted, only_produced: rows that the other has not, counted with their repetitions; elsewhere: rows in both
    that do not stand at the same place; first_difference: the first place, from 1, where the lists part, None where
    they do not.
    """

    likeness: Likeness
    rows_submitted: int
    rows_produced: int
    only_submitted: int
    only_produced: int
    elsewhere: int
    first_difference: int | None

    @property
    def in_words(self) -> str:
        """The agreement as a clause."""
        if self.likeness is Likeness.IDENTICAL:
            return f"all {self.rows_submitted:,} rows are the same, in the same order"
        if self.likeness is Likeness.TIES:
            return (
                f"all {self.rows_submitted:,} rows are the same; {self.elsewhere:,} stand elsewhere among equal scores"
            )
        return (
            f"from row {self.first_difference:,} on the lists differ: {self.only_submitted:,} of "
            f"{self.rows_submitted:,} submitted rows were not produced, {self.only_produced:,} of "
            f"{self.rows_produced:,} produced ones not submitted, {self.elsewhere:,} in both stand elsewhere"
        )

    def as_json(self) -> dict[str, Any]:
        """The fields as JSON has them."""
        return asdict(self)


def agreement(submitted: Submission, produced: Submission, scores: Floats | None) -> Agreement:
    """How `produced`, whose rows have `scores` [rows] (None: not known), agrees with `submitted`."""
    rows, other = _numbered(submitted, produced)
    shared = min(len(rows), len(other))
    parts = np.flatnonzero(rows[:shared] != other[:shared])
    first = int(parts[0]) + 1 if len(parts) else shared + 1 if len(rows) != len(other) else None
    distinct = int(max(rows.max(initial=-1), other.max(initial=-1))) + 1
    times, other_times = (np.bincount(numbers, minlength=distinct) for numbers in (rows, other))
    in_both = int(np.minimum(times, other_times).sum())
    only_submitted, only_produced = len(rows) - in_both, len(other) - in_both
    at_its_place = int((rows[:shared] == other[:shared]).sum())
    if first is None:
        likeness = Likeness.IDENTICAL
    elif not only_submitted and not only_produced and _is_an_order_by(scores, rows, other):
        likeness = Likeness.TIES
    else:
        likeness = Likeness.DIFFERENT
    return Agreement(likeness, len(rows), len(other), only_submitted, only_produced, in_both - at_its_place, first)


def _is_an_order_by(scores: Floats | None, rows: Ints, other: Ints) -> bool:
    """The submitted `rows` descend by the scores that the `other` rows were produced with."""
    if scores is None or np.isnan(scores).any():
        return False
    score_of_row = np.full(int(other.max(initial=-1)) + 1, -np.inf)
    np.maximum.at(score_of_row, other, scores)
    in_submitted_order = score_of_row[rows]
    return bool((in_submitted_order[1:] <= in_submitted_order[:-1]).all())


def _numbered(submitted: Submission, produced: Submission) -> tuple[Ints, Ints]:
    """Equal rows of either as equal numbers from 0 on, [rows] each."""
    both = np.concatenate([_columns(submitted.ids, submitted.suffixes), _columns(produced.ids, produced.suffixes)])
    as_bytes = np.ascontiguousarray(both).view(np.dtype((np.void, both.dtype.itemsize * both.shape[1]))).ravel()
    _, numbers = np.unique(as_bytes, return_inverse=True)
    return numbers[: len(submitted.ids)], numbers[len(submitted.ids) :]


def _columns(ids: Ints, suffixes: Tokens) -> Ints:
    return np.concatenate([ids[:, None], suffixes.astype(np.int64)], axis=1)


_MOST_TEXT_BYTES = 1 << 20
_MOST_LINES = 200


@dataclass(frozen=True)
class CodeDifference:
    """Files of code/ that are not the same, README.md apart, which tells hardware and time once there are any.

    names_frozen: the bundle's manifest names the frozen zip's very hash; changes: by file, a unified diff, or a
    sentence where it is no text.
    """

    names_frozen: bool
    changes: dict[str, str]

    @property
    def is_same(self) -> bool:
        return not self.changes

    @property
    def in_words(self) -> str:
        """The difference as a clause."""
        if self.is_same:
            named = "and the manifest names its hash" if self.names_frozen else "though the manifest names another hash"
            return f"the code is the frozen code, {named}"
        return f"{len(self.changes):,} files differ from the frozen code: {', '.join(sorted(self.changes))}"


def compare_code(bundle: Path, frozen: Path, *, names_frozen: bool) -> CodeDifference:
    """What differs between the folders code/ below `bundle` and `frozen`, both unpacked."""
    now, before = _files(bundle / "code"), _files(frozen / "code")
    changes = {
        name: _change(name, before.get(name), now.get(name))
        for name in sorted(now.keys() | before.keys())
        if name != README and _hash(now.get(name)) != _hash(before.get(name))
    }
    return CodeDifference(names_frozen, changes)


def _files(folder: Path) -> dict[str, Path]:
    return {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}


def _hash(path: Path | None) -> str | None:
    return None if path is None else sha256_of(path)


def _change(name: str, before: Path | None, now: Path | None) -> str:
    if now is None:
        return "is gone"
    if before is None:
        return "is new"
    texts = [_lines(path) for path in (before, now)]
    if texts[0] is None or texts[1] is None:
        return f"was {before.stat().st_size:,} bytes, is {now.stat().st_size:,}, and is no text to compare"
    lines = list(difflib.unified_diff(texts[0], texts[1], f"frozen/{name}", f"bundle/{name}", lineterm=""))
    if not lines:
        return "has the same lines, which end otherwise"
    rest = [f"… {len(lines) - _MOST_LINES:,} further lines"] if len(lines) > _MOST_LINES else []
    return "\n".join([*lines[:_MOST_LINES], *rest])


def _lines(path: Path) -> list[str] | None:
    """The file's lines, None where it is no text of a size to be read."""
    if path.stat().st_size > _MOST_TEXT_BYTES:
        return None
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        return None
