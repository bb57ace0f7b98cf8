"""The score so far: the current submission made again and again while guesses arrive, at a bounded cost."""

from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Ints, Tokens
from harness.core.guesses import Guesses, concatenate_guesses
from harness.core.scoring import correct_rows, recall_at_errors
from harness.core.submission import current_rows, submission_order

_SHARE_OF_A_CORE = 0.01
_SHORTEST_PAUSE = 0.5


@dataclass(frozen=True)
class CurvePoint:
    """The current submission: rows that it holds, examples solved and wrong rows read up to the cap (None: blind)."""

    rows: int
    solved: int | None
    wrong: int | None
    recall: float | None


class RunningCurve:
    """The guesses that count, by batch, and the submission that the run's end would make of them."""

    def __init__(
        self, answers: Tokens | None, *, examples: int, error_cap: int, row_cap: int, per_example: int
    ) -> None:
        self._answers = answers
        self._examples = examples
        self._error_cap = error_cap
        self._row_cap = row_cap
        self._per_example = per_example
        self._guesses: list[Guesses] = []
        self._batches: list[Ints] = []
        self._is_changed = False
        self._due = 0.0

    def add(self, batch: int | Ints, guesses: Guesses) -> None:
        """Take guesses of a batch, or of a batch each, in the order of their arrival."""
        if len(guesses):
            self._guesses.append(guesses)
            self._batches.append(np.array(np.broadcast_to(batch, len(guesses)), np.int64))
            self._is_changed = True

    def void(self, batch: int) -> None:
        """Forget the rows of a batch that is run again."""
        if not self._guesses:
            return
        guesses, batches = self._merged()
        rows = np.flatnonzero(batches != batch)
        self._guesses, self._batches = [guesses.part(rows)], [batches[rows]]
        self._is_changed = True

    def is_due(self, at: float) -> bool:
        """Something has changed and the share of a core allows another look."""
        return self._is_changed and at >= self._due

    def standing(self) -> CurvePoint:
        """The submission as it stands."""
        self._is_changed = False
        if not self._guesses:
            return CurvePoint(0, None, None, None) if self._answers is None else CurvePoint(0, 0, 0, 0.0)
        guesses, _ = self._merged()
        order = submission_order(
            guesses.ids, guesses.suffixes, guesses.score, per_example=self._per_example, row_cap=self._row_cap
        )
        if self._answers is None:
            return CurvePoint(len(order), None, None, None)
        ids = guesses.ids[order]
        is_correct = correct_rows(ids, guesses.suffixes[order], self._answers)
        recall = recall_at_errors(is_correct, ids, cap=self._error_cap, examples=self._examples)
        wrong = min(self._error_cap, int(len(order) - is_correct.sum()))
        return CurvePoint(len(order), round(recall * self._examples), wrong, recall)

    def postpone(self, at: float, cost: float) -> None:
        """Let the next look wait until looks of this `cost`, in seconds, take 1 % of a core."""
        self._due = at + max(_SHORTEST_PAUSE, cost / _SHARE_OF_A_CORE)

    def _merged(self) -> tuple[Guesses, Ints]:
        """All rows in one piece; of an (example, suffix) that a batch gave repeatedly, the last.

        Not the last of all batches: should that one's be void, an earlier one's counts again.
        """
        guesses = concatenate_guesses(self._guesses, suffix_length=0)
        batches = np.concatenate(self._batches)
        if len(self._guesses) > 1:
            rows = current_rows(batches * self._examples + guesses.ids, guesses.suffixes)
            guesses, batches = guesses.part(rows), batches[rows]
        self._guesses, self._batches = [guesses], [batches]
        return guesses, batches
