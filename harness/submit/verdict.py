"""The verdict of a verification: how submissions differ, the finding of each check, and one outcome for the bundle."""

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Never

import numpy as np
from pydantic import TypeAdapter, ValidationError

from harness.core.arrays import Floats, Ints
from harness.core.errors import HarnessError
from harness.core.submission_reader import SubmissionRows
from harness.core.text import shorten
from harness.submit.frozen_code import PatchSize


class Likeness(StrEnum):
    """The similarity of two submissions."""

    IDENTICAL = "identical"
    TIES = "same up to ties"
    DIFFERENT = "different"


@dataclass(frozen=True)
class Agreement:
    """The differences between a submission and the one that its code produced."""

    likeness: Likeness
    """Similarity of the submissions."""
    rows_submitted: int
    """Rows of the submission in the bundle."""
    rows_produced: int
    """Rows of the submission that the code produced."""
    only_submitted: int
    """Submitted rows that were not produced. A repeated row counts each time."""
    only_produced: int
    """Produced rows that were not submitted. A repeated row counts each time."""
    elsewhere: int
    """Rows that are in both at different places."""
    first_difference: int | None
    """First place, from 1, at which the submissions differ. Null if they do not differ."""

    @property
    def summary(self) -> str:
        """The agreement in one clause."""
        if self.likeness is Likeness.IDENTICAL:
            return f"all {self.rows_submitted:,} rows are equal and in the same order"
        if self.likeness is Likeness.TIES:
            return f"all {self.rows_submitted:,} rows are equal, {self.elsewhere:,} moved among rows with equal scores"
        return (
            f"the submissions differ from row {self.first_difference:,} on: {self.only_submitted:,} of "
            f"{self.rows_submitted:,} submitted rows were not produced, {self.only_produced:,} of "
            f"{self.rows_produced:,} produced rows were not submitted, {self.elsewhere:,} common rows moved"
        )


def compare_submissions(submitted: SubmissionRows, produced: SubmissionRows, scores: Floats | None) -> Agreement:
    """Compare a submission with the one that its code produced.

    `scores` [rows] are the scores of the produced rows, or None if they are unknown. They decide whether rows that
    moved had equal scores.
    """
    rows, produced_rows = _row_numbers(submitted, produced)
    shared = min(len(rows), len(produced_rows))
    is_equal = rows[:shared] == produced_rows[:shared]
    differing = np.flatnonzero(np.append(~is_equal, len(rows) != len(produced_rows)))
    first = int(differing[0]) + 1 if len(differing) else None
    in_both = (Counter(rows.tolist()) & Counter(produced_rows.tolist())).total()
    only_submitted, only_produced = len(rows) - in_both, len(produced_rows) - in_both
    likeness = Likeness.DIFFERENT
    if first is None:
        likeness = Likeness.IDENTICAL
    elif not only_submitted and not only_produced and _is_ordered_by(scores, rows, produced_rows):
        likeness = Likeness.TIES
    elsewhere = in_both - int(is_equal.sum())
    return Agreement(likeness, len(rows), len(produced_rows), only_submitted, only_produced, elsewhere, first)


def _is_ordered_by(scores: Floats | None, rows: Ints, produced_rows: Ints) -> bool:
    """Return True if the submitted `rows` descend by the `scores` of the equal rows in `produced_rows`."""
    if scores is None or np.isnan(scores).any():
        return False
    score_of_row = np.full(int(produced_rows.max(initial=-1)) + 1, -np.inf)
    np.maximum.at(score_of_row, produced_rows, scores)
    in_submitted_order = score_of_row[rows]
    return bool((in_submitted_order[1:] <= in_submitted_order[:-1]).all())


def _row_numbers(*submissions: SubmissionRows) -> Iterator[Ints]:
    """Yield a number from 0 on for each row of a submission, [rows]. Equal rows have equal numbers in all of them."""
    numbers: dict[bytes, int] = {}
    for ids, suffixes in submissions:
        rows = np.column_stack([ids, suffixes.astype(np.int64)])
        yield np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in rows], np.int64)


class Outcome(StrEnum):
    """The outcome of a verification.

    REPRODUCED: the code produced the submission byte for byte.
    REPRODUCED_UP_TO_TIES: only rows with equal scores changed places.
    MEASURED: the result differs, which was allowed, and the difference is reported.
    RAN: the bundle contains code only, and the code ran within the budget.
    SAME_CODE, OTHER_CODE: nothing ran; the code is, or is not, the frozen code with the approved patch.
    REFUSED: a check failed.
    """

    REPRODUCED = "reproduced"
    REPRODUCED_UP_TO_TIES = "reproduced_up_to_ties"
    MEASURED = "measured"
    RAN = "ran"
    SAME_CODE = "same_code"
    OTHER_CODE = "other_code"
    REFUSED = "refused"

    @property
    def words(self) -> str:
        """The outcome with spaces instead of underscores."""
        return self.value.replace("_", " ")

    @property
    def exit_code(self) -> int:
        """The exit code of `harness bundle verify`."""
        return {Outcome.REFUSED: 1, Outcome.MEASURED: 3, Outcome.OTHER_CODE: 3}.get(self, 0)


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    name: str
    """Name of the check."""
    holds: bool | None
    """True if the check holds. Null for information that does not affect the verdict."""
    sentence: str
    """Result in words."""

    @property
    def sign(self) -> str:
        """✓ for a check that holds, · for information, ✗ for a check that fails."""
        return {True: "✓", None: "·", False: "✗"}[self.holds]


def error_in_bundle(error: HarnessError, folder: Path) -> str:
    """Return the error as a clause, with paths relative to the unpacked bundle."""
    return str(error).replace(f"{folder}/", "").rstrip(".")


def unexpected_clause(error: Exception) -> str:
    """Return a clause about an error that nobody foresaw. It must not end the work on other bundles."""
    return f"internal error ({type(error).__name__}: {shorten(str(error), 120)})"


class CheckFailed(HarnessError):
    """A check failed, which ends the verification. The last finding gives the reason."""


class FindingLog:
    """The findings of a verification, in the order of the checks."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def check(self, name: str, holds: bool, sentence: str, otherwise: str) -> None:
        """Record `sentence` if the check holds. Otherwise record `otherwise` and raise CheckFailed."""
        if not holds:
            self.fail(name, otherwise)
        self.record(name, sentence)

    def record(self, name: str, sentence: str) -> None:
        """Record a check that holds."""
        self.findings.append(Finding(name, True, sentence))

    def fail(self, name: str, sentence: str) -> Never:
        """Record a check that fails, and raise CheckFailed."""
        self.findings.append(Finding(name, False, sentence))
        raise CheckFailed(f"{sentence}.")

    @contextlib.contextmanager
    def fail_on_error(self, name: str, folder: Path, words: str = "") -> Iterator[None]:
        """Fail with `words` and the error if the block raises HarnessError. Its paths become relative to `folder`."""
        try:
            yield
        except HarnessError as error:
            self.fail(name, f"{words}{error_in_bundle(error, folder)}")

    def note(self, name: str, sentence: str) -> None:
        """Record information that does not affect the verdict."""
        self.findings.append(Finding(name, None, sentence))


@dataclass(frozen=True)
class Verdict:
    """The result of a verification."""

    bundle: str
    """File name of the bundle."""
    bundle_sha256: str
    """SHA-256 of the bundle."""
    kind: str
    """`submission` or `code`."""
    attack: str
    """Name of the attack."""
    round: str
    """Name of the round."""
    outcome: Outcome
    """Outcome of the verification."""
    sentence: str
    """Outcome in words."""
    findings: tuple[Finding, ...]
    """Result of each check, in order."""
    agreement: Agreement | None = None
    """Differences between the submissions."""
    scores: dict[str, dict[str, Any]] = field(default_factory=dict)
    """`submitted` and `produced`, each as `harness score` prints it, without `curve`."""
    produced_sha256: str | None = None
    """SHA-256 of the submission that the code produced."""
    elapsed_s: float | None = None
    """Wall clock. Null if the code did not run."""
    budget_s: float | None = None
    """Time budget. Null if the code did not run."""
    sandbox: str | None = None
    """Name of the sandbox backend. Null if the code did not run."""
    code_changes: dict[str, str] = field(default_factory=dict)
    """Differences from the frozen code, by file."""
    patch: PatchSize | None = None
    """The approved patch that explains all `code_changes`."""
    hardware: dict[str, Any] = field(default_factory=dict)
    """Hardware of the verifying machine."""
    versions: dict[str, str] = field(default_factory=dict)
    """Versions on the verifying machine."""


def verdict_path(bundle: Path) -> Path:
    """Return the default path of the verdict on a bundle."""
    return bundle.with_name(f"{bundle.stem}.verdict.json")


def produced_path(bundle: Path) -> Path:
    """Return the default path of the submission that a bundle's code produced."""
    return bundle.with_name(f"{bundle.stem}.produced.csv")


def load_verdict(bundle: Path, sha256: str) -> Verdict | None:
    """Return the verdict stored next to a bundle, or None if there is none for a bundle with this SHA-256.

    Raises HarnessError if the file cannot be read.
    """
    path = verdict_path(bundle)
    if not path.is_file():
        return None
    try:
        stored = TypeAdapter(Verdict).validate_json(path.read_bytes())
    except (OSError, ValidationError):
        raise HarnessError(f"{path}: not a verdict. Delete the file and verify the bundle again.") from None
    return stored if stored.bundle_sha256 == sha256 else None
