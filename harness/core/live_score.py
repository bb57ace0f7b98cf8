"""What a run's guesses come to, kept up while they arrive, in memory that does not grow with them.

Held are the rows of the submission as it stands and a few numbers an example; a guess that no submission would take is
counted and forgotten. Knows nothing of stores and screens.
"""

from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Floats, Ints, Tokens
from harness.core.guesses import Guesses, concatenate_guesses
from harness.core.intervals import Walk
from harness.core.scoring import DRAWN_POINTS, correct_rows, exact_at_1, log_spaced, solved_curve
from harness.core.submission import current_rows, submission_order

_BINS = 24


@dataclass(frozen=True)
class Figures:
    """The submission at one moment.

    errors: [points] int64, wrong rows at which the walk would end, 1 .. all + 1, thinned evenly on a log scale; recall:
    [points] at each; recall_at_cap; exact_at_1: the share of examples whose first row is right; any_of_n: the share
    with a right candidate anywhere, which is the recall of a perfect order; all five None in a blind round. guessed:
    examples with a guess; rows: of the submission; score_edges [bins + 1] and score_counts [bins]: each guessed
    example's best score.
    """

    errors: Ints | None
    recall: Floats | None
    recall_at_cap: float | None
    exact_at_1: float | None
    any_of_n: float | None
    guessed: int
    rows: int
    score_edges: Floats
    score_counts: Ints


class LiveScore:
    """Takes guesses in the order of their arrival and tells what the submission of all of them scores."""

    def __init__(
        self, answers: Tokens | None, *, examples: int, error_cap: int, row_cap: int, per_example: int
    ) -> None:
        """`answers` [examples, suffix length], None for a blind round; `per_example` as an attack declares it."""
        self._answers = answers
        self._examples = examples
        self._error_cap = error_cap
        self._row_cap = row_cap
        self._per_example = per_example
        self._held: Guesses | None = None
        self._final: Guesses | None = None
        self._has_right = np.zeros(examples, np.bool_)
        self.is_stale = False
        """A held guess came again with a lower score: one that was forgotten may now stand before it."""

    def add(self, guesses: Guesses) -> None:
        """Take guesses."""
        if self._answers is not None:
            is_correct = correct_rows(guesses.ids, guesses.suffixes, self._answers)
            self._has_right[guesses.ids[is_correct]] = True
        if len(guesses):
            self._final = None
            self._hold(guesses)

    def hold_exactly(self, submission: Guesses) -> None:
        """Let these rows with their scores be the submission: what reading all guesses anew has given."""
        self._held = submission
        self.is_stale = False

    def hold_final(self, submission: Guesses) -> None:
        """Let these rows, in this order and whatever their scores, be the submission until a guess comes."""
        self._final = submission
        if self._answers is not None:
            is_correct = correct_rows(submission.ids, submission.suffixes, self._answers)
            self._has_right[submission.ids[is_correct]] = True

    def walk(self) -> Walk:
        """The submission as scoring walks it now; the round has answers."""
        assert self._answers is not None
        held = self._submission
        if held is None:
            return Walk(np.empty(0, np.bool_), np.empty(0, np.int64))
        return Walk(correct_rows(held.ids, held.suffixes, self._answers), held.ids)

    def figures(self) -> Figures:
        """What the submission comes to now."""
        held = self._submission
        if held is None or not len(held):
            nothing = np.empty(0, np.int64)
            known = None if self._answers is None else 0.0
            empty = None if self._answers is None else nothing
            recall = None if self._answers is None else np.empty(0)
            return Figures(empty, recall, known, known, known, 0, 0, np.array([0.0, 1.0]), np.zeros(1, np.int64))
        guessed, first = np.unique(held.ids, return_index=True)
        best = held.score[first] if self._held is None else _best_scores(self._held)
        counts, edges = _histogram(best)
        if self._answers is None:
            return Figures(None, None, None, None, None, len(guessed), len(held), edges, counts)
        curve = solved_curve(*self.walk()) / self._examples  # [wrong rows + 1]
        errors = log_spaced(len(curve), most=DRAWN_POINTS)
        return Figures(
            errors=errors,
            recall=curve[errors - 1],
            recall_at_cap=float(curve[min(self._error_cap, len(curve)) - 1]),
            exact_at_1=exact_at_1(held.ids, held.suffixes, self._answers),
            any_of_n=float(self._has_right.mean()),
            guessed=len(guessed),
            rows=len(held),
            score_edges=edges,
            score_counts=counts,
        )

    @property
    def _submission(self) -> Guesses | None:
        return self._held if self._final is None else self._final

    def _hold(self, guesses: Guesses) -> None:
        everything = guesses if self._held is None else concatenate_guesses([self._held, guesses], suffix_length=0)
        if self._held is not None and not self.is_stale:
            self.is_stale = _has_fallen(everything, len(self._held))
        rows = submission_order(
            everything.ids,
            everything.suffixes,
            everything.score,
            per_example=self._per_example,
            row_cap=self._row_cap,
        )
        self._held = everything.part(rows)


def _has_fallen(guesses: Guesses, held: int) -> bool:
    """Whether the last score of a (example, suffix) among the first `held` rows is below the one it has there."""
    is_last = np.zeros(len(guesses), np.bool_)
    is_last[current_rows(guesses.ids, guesses.suffixes)] = True
    again = np.flatnonzero(~is_last[:held])
    if not len(again):
        return False
    # Rows that came again are few: a dictionary of them finds their last scores.
    last = {guesses.ids[row].tobytes() + guesses.suffixes[row].tobytes(): guesses.score[row] for row in again}
    for row in np.flatnonzero(is_last[held:]) + held:
        before = last.get(guesses.ids[row].tobytes() + guesses.suffixes[row].tobytes())
        if before is not None and guesses.score[row] < before:
            return True
    return False


def _best_scores(guesses: Guesses) -> Floats:
    return guesses.score[np.unique(guesses.ids, return_index=True)[1]]


def _histogram(scores: Floats) -> tuple[Ints, Floats]:
    finite = scores[np.isfinite(scores)]
    if not len(finite):
        return np.zeros(1, np.int64), np.array([0.0, 1.0])
    low, high = float(finite.min()), float(finite.max())
    edges = np.linspace(low, high, _BINS + 1) if np.isfinite(high - low) else np.array([low, high])
    if not (edges[1:] > edges[:-1]).all():
        # Too near to each other for bins between them.
        return np.array([len(finite)], np.int64), np.array([low, high])
    return np.histogram(finite, edges)[0].astype(np.int64), edges
