"""The score of a run while its guesses arrive, in memory that does not grow with them.

Kept are the rows of the current submission and a few numbers per example. The supervisor, the TUI and comparisons
use the same class, so they agree with the result. It knows nothing about stores and screens.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from harness.core.arrays import Floats, Ints, Tokens
from harness.core.guesses import Guesses, concatenate_guesses
from harness.core.intervals import JudgedRows
from harness.core.scoring import DRAWN_POINTS, correct_rows, exact_at_1, log_spaced, recall_at_errors, solved_curve
from harness.core.submission import current_rows, submission_order

_MAX_PENDING = 50_000


class CurvePoint(NamedTuple):
    """The current submission: its rows, and up to the error cap the solved examples, wrong rows and recall.

    The last three are None in a blind round.
    """

    rows: int
    solved: int | None
    wrong: int | None
    recall: float | None


@dataclass(frozen=True)
class Figures:
    """The submission at one moment. The first five are None in a blind round.

    errors: [points] int64, error caps from 1 to all wrong rows + 1, evenly spaced on a log scale.
    recall: [points], at each of them.
    recall_at_cap: at the round's cap.
    exact_at_1: share of examples whose first row is correct.
    any_guess_correct: share of examples with any correct guess.
    guessed: examples with a guess.
    rows: rows of the submission.
    """

    errors: Ints | None
    recall: Floats | None
    recall_at_cap: float | None
    exact_at_1: float | None
    any_guess_correct: float | None
    guessed: int
    rows: int


class LiveScore:
    """Takes guesses in arrival order and scores the submission that they make."""

    def __init__(
        self, answers: Tokens | None, *, examples: int, error_cap: int, row_cap: int, per_example: int
    ) -> None:
        """`answers` has shape [examples, suffix length], None in a blind round; `per_example` is the attack's limit."""
        self._answers = answers
        self._examples = examples
        self._error_cap = error_cap
        self._row_cap = row_cap
        self._per_example = per_example
        self._pending: list[Guesses] = []
        self._rows: Guesses | None = None
        self._final: Guesses | None = None
        self._is_solved = np.zeros(examples, np.bool_)
        self._is_stale = False

    @property
    def is_stale(self) -> bool:
        """True if a dropped guess may belong to the submission again; `replace` with all valid guesses then.

        That happens when a guess of the submission came again with a lower score, or after `void`.
        """
        self._merge()
        return self._is_stale

    def add(self, guesses: Guesses) -> None:
        """Add guesses in arrival order."""
        if len(guesses):
            self._pending.append(guesses)
            if sum(map(len, self._pending)) > _MAX_PENDING:
                self._merge()

    def void(self) -> None:
        """Note that guesses that were added before became void, so that what they solved is unknown."""
        self._is_stale = True
        self._is_solved[:] = False

    def replace(self, valid: Guesses) -> None:
        """Take the submission of `valid`, which are all valid guesses in arrival order."""
        self._pending.clear()
        self._is_solved[:] = False
        for part in (valid, self._final):
            if part is not None:
                self._note_solved(part)
        self._rows = self._best_of(valid)
        self._is_stale = False

    def set_final(self, submission: Guesses) -> None:
        """Take these rows, in this order and whatever their scores, as the submission from now on."""
        self._final = submission
        self._note_solved(submission)

    def walk(self) -> JudgedRows:
        """Return the submission for scoring. The round has answers."""
        assert self._answers is not None
        rows = self._submission()
        if rows is None:
            return JudgedRows(np.empty(0, np.bool_), np.empty(0, np.int64))
        return JudgedRows(correct_rows(rows.ids, rows.suffixes, self._answers), rows.ids)

    def point(self) -> CurvePoint:
        """Return the current point of the running curve."""
        rows = self._submission()
        count = 0 if rows is None else len(rows)
        if self._answers is None:
            return CurvePoint(count, None, None, None)
        is_correct, ids = self.walk()
        recall = recall_at_errors(is_correct, ids, cap=self._error_cap, examples=self._examples)
        wrong = min(self._error_cap, int((~is_correct).sum()))
        return CurvePoint(count, round(recall * self._examples), wrong, recall)

    def figures(self) -> Figures:
        """Return the figures of the current submission."""
        rows = self._submission()
        count, guessed = (0, 0) if rows is None else (len(rows), len(np.unique(rows.ids)))
        if self._answers is None:
            return Figures(None, None, None, None, None, guessed, count)
        if rows is None or not count:
            return Figures(np.empty(0, np.int64), np.empty(0), 0.0, 0.0, 0.0, 0, 0)
        curve = solved_curve(*self.walk()) / self._examples  # [wrong rows + 1]
        errors = log_spaced(len(curve), max_points=DRAWN_POINTS)
        return Figures(
            errors=errors,
            recall=curve[errors - 1],
            recall_at_cap=float(curve[min(self._error_cap, len(curve)) - 1]),
            exact_at_1=exact_at_1(rows.ids, rows.suffixes, self._answers),
            any_guess_correct=float(self._is_solved.mean()),
            guessed=guessed,
            rows=count,
        )

    def _submission(self) -> Guesses | None:
        self._merge()
        return self._rows if self._final is None else self._final

    def _merge(self) -> None:
        """Move the pending guesses into the submission."""
        if not self._pending:
            return
        new = concatenate_guesses(self._pending, suffix_length=0)
        self._pending.clear()
        self._note_solved(new)
        every = new if self._rows is None else concatenate_guesses([self._rows, new], suffix_length=0)
        if self._rows is not None and not self._is_stale:
            self._is_stale = _has_lowered(every, len(self._rows))
        self._rows = self._best_of(every)

    def _best_of(self, guesses: Guesses) -> Guesses:
        rows = submission_order(
            guesses.ids, guesses.suffixes, guesses.score, per_example=self._per_example, row_cap=self._row_cap
        )
        return guesses.part(rows)

    def _note_solved(self, guesses: Guesses) -> None:
        if self._answers is not None:
            is_correct = correct_rows(guesses.ids, guesses.suffixes, self._answers)
            self._is_solved[guesses.ids[is_correct]] = True


def _has_lowered(guesses: Guesses, kept: int) -> bool:
    """Return True if the last score of one of the first `kept` (example, suffix) is below its score there."""
    is_last = np.zeros(len(guesses), np.bool_)
    is_last[current_rows(guesses.ids, guesses.suffixes)] = True
    repeated = np.flatnonzero(~is_last[:kept])
    if not len(repeated):
        return False
    # Few rows are repeated, so a dictionary of them finds their last scores.
    before = {guesses.ids[row].tobytes() + guesses.suffixes[row].tobytes(): guesses.score[row] for row in repeated}
    for row in np.flatnonzero(is_last[kept:]) + kept:
        score = before.get(guesses.ids[row].tobytes() + guesses.suffixes[row].tobytes())
        if score is not None and guesses.score[row] < score:
            return True
    return False
