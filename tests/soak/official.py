"""Read a submission as the organizers' two scripts do. Reimplements their behaviour and shares no code with ours.

Their scorer and validator use `csv.DictReader` on a text file. Lines may end in any way, blank lines are skipped,
further columns and the order of columns do not matter, and a quoted field may contain line breaks. An id is anything
that `int` accepts. The first and the last character of a suffix are removed, the rest is split at commas, and each part
is anything that `int` accepts: with spaces around it, a sign, underscores, leading zeros or digits of any script. Ids,
lengths, tokens and rows outside the limits of the round are refused. (Their validator accepts a token equal to the
vocabulary size, which is treated as a bug here.)
"""

import csv
from pathlib import Path
from typing import NamedTuple

from harness.core.submission_reader import SubmissionRules

ERRORS = 100


class Row(NamedTuple):
    """One row of a submission."""

    example: int
    suffix: tuple[int, ...]


class Refused(Exception):
    """The scripts would fail, or the submission exceeds the limits of the round."""


def rows_of(path: Path, rules: SubmissionRules) -> list[Row]:
    """Return the rows that the scripts read. Raises Refused."""
    try:
        with path.open(encoding="utf-8") as file:
            rows = [
                Row(int(row["Example ID"]), tuple(int(cell) for cell in row["Suffix Guess"][1:-1].split(",")))
                for row in csv.DictReader(file)
            ]
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        raise Refused(repr(error)) from None
    for row in rows:
        if not 0 <= row.example < rules.examples:
            raise Refused(f"example {row.example}")
        if len(row.suffix) != rules.suffix_length:
            raise Refused(f"{len(row.suffix)} tokens")
        if not all(0 <= token < rules.vocabulary for token in row.suffix):
            raise Refused("a token outside the vocabulary")
    if len(rows) > rules.row_cap:
        raise Refused(f"{len(rows)} rows")
    return rows


def recall_at_100_errors(rows: list[Row], answers: list[tuple[int, ...]]) -> float:
    """Return the fraction of examples with a correct row before the 100th error."""
    solved, wrong, recall = set[int](), 0, 0.0
    for row in rows:
        if row.suffix != answers[row.example]:
            wrong += 1
        elif wrong < ERRORS:
            solved.add(row.example)
            recall = len(solved) / len(answers)
    return recall
