"""The score so far: the current submission ranked again and again while guesses arrive, at a bounded cost."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.core.arrays import Bools, Floats, Ints, Tokens
from harness.core.scoring import recall_at_errors

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHARE_OF_A_CORE = 0.01
_SHORTEST_PAUSE = 0.5


@dataclass(frozen=True)
class Standing:
    """The current submission: rows that it holds, examples solved and wrong rows read up to the cap (None: blind)."""

    rows: int
    solved: int | None
    wrong: int | None
    recall: float | None


class RunningCurve:
    """Candidates in compact form: example, a 64-bit fingerprint of the suffix, score, and whether it is right.

    Two suffixes of one example that share a fingerprint would count as one here; run.db keeps them apart, and so does
    the submission made from it.
    """

    def __init__(
        self, answers: Tokens | None, *, examples: int, error_cap: int, row_cap: int, per_example: int
    ) -> None:
        self._answers = answers
        self._examples = examples
        self._error_cap = error_cap
        self._row_cap = row_cap
        self._per_example = per_example
        self._batch = np.empty(0, np.int64)
        self._example = np.empty(0, np.int64)
        self._fingerprint = np.empty(0, np.uint64)
        self._score: Floats = np.empty(0)
        self._is_correct: Bools = np.empty(0, np.bool_)
        self._arrived: list[tuple[Ints, Ints, NDArray[np.uint64], Floats, Bools]] = []
        self._due = 0.0

    def add(self, batch: int | Ints, ids: Ints, suffixes: Tokens, score: Floats) -> None:
        """Take guesses of a batch, or of a batch each, in the order of their arrival."""
        if self._answers is None:
            is_correct = np.zeros(len(ids), np.bool_)
        else:
            is_correct = (self._answers[ids] == suffixes).all(axis=1)
        self._arrived.append((np.broadcast_to(batch, len(ids)), ids, _fingerprints(ids, suffixes), score, is_correct))

    def void(self, batch: int) -> None:
        """Forget the rows of a batch that is run again.

        Where such a row had replaced one of an earlier batch, that one does not come back here; in run.db it does.
        """
        self._take_in()
        columns = (self._batch, self._example, self._fingerprint, self._score, self._is_correct)
        self._keep_rows(self._batch != batch, *columns)

    def is_due(self, at: float) -> bool:
        """New guesses have come and the share of a core allows another look."""
        return bool(self._arrived) and at >= self._due

    def standing(self) -> Standing:
        """The submission as it stands."""
        self._take_in()
        order = np.lexsort((self._fingerprint, self._example, -self._score))
        if self._per_example:
            order = order[_place_among_equals(self._example[order]) < self._per_example]
        order = order[: self._row_cap]
        if self._answers is None:
            return Standing(len(order), None, None, None)
        is_correct = self._is_correct[order]
        recall = recall_at_errors(is_correct, self._example[order], cap=self._error_cap, examples=self._examples)
        wrong = min(self._error_cap, int(len(order) - is_correct.sum()))
        return Standing(len(order), round(recall * self._examples), wrong, recall)

    def postpone(self, at: float, cost: float) -> None:
        """Let the next look wait until looks of this `cost`, in seconds, take 1 % of a core."""
        self._due = at + max(_SHORTEST_PAUSE, cost / _SHARE_OF_A_CORE)

    def _take_in(self) -> None:
        """Merge what arrived; of an (example, suffix) the last arrival stays."""
        if not self._arrived:
            return
        columns = zip(*self._arrived, strict=True)
        known = (self._batch, self._example, self._fingerprint, self._score, self._is_correct)
        batch, example, fingerprint, score, is_correct = (
            np.concatenate([old, *new]) for old, new in zip(known, columns, strict=True)
        )
        self._arrived.clear()
        # The first of equals in the reversed order is the last that arrived.
        kept = len(fingerprint) - 1 - np.unique(fingerprint[::-1], return_index=True)[1]
        self._keep_rows(kept, batch, example, fingerprint, score, is_correct)

    def _keep_rows(
        self,
        rows: Ints | Bools,
        batch: Ints,
        example: Ints,
        fingerprint: NDArray[np.uint64],
        score: Floats,
        is_correct: Bools,
    ) -> None:
        self._batch, self._example, self._fingerprint = batch[rows], example[rows], fingerprint[rows]
        self._score, self._is_correct = score[rows], is_correct[rows]


def _fingerprints(ids: Ints, suffixes: Tokens) -> NDArray[np.uint64]:
    fingerprints = ids.astype(np.uint64)
    for position in range(suffixes.shape[1]):
        fingerprints = (fingerprints * _MULTIPLIER) ^ (fingerprints >> np.uint64(29))
        fingerprints += suffixes[:, position].astype(np.uint64)
    return fingerprints * _MULTIPLIER


def _place_among_equals(values: Ints) -> Ints:
    """How many earlier entries equal each entry, [rows]."""
    order = np.argsort(values, kind="stable")
    arranged = values[order]
    starts = np.flatnonzero(np.concatenate(([True], arranged[1:] != arranged[:-1])))
    lengths = np.diff(np.append(starts, len(values)))
    place = np.empty(len(values), np.int64)
    place[order] = np.arange(len(values)) - np.repeat(starts, lengths)
    return place
