"""Replay the guesses of a run in the order of their arrival to get its recall at any moment, on any part."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from harness.analysis.contrast import Part
from harness.core.arrays import Tokens
from harness.core.live_score import LiveScore
from harness.core.scoring import recall_at_errors
from harness.jobs.attack.reader import GuessReader
from harness.jobs.attack.spec import AttackSpec

_ROWS_AT_ONCE = 50_000
Point = TypeVar("Point")


def thinned(points: Sequence[Point], most: int) -> list[Point]:
    """Return at most `most` of the points, evenly spaced, with the first and the last among them."""
    places = np.linspace(0, len(points) - 1, min(len(points), most)).round().astype(int)
    return [points[place] for place in places]


def recall_after_guesses(
    counts: Sequence[int], part: Part, *, spec: AttackSpec, reader: GuessReader, answers: Tokens
) -> list[float]:
    """Return the recall on `part` of the submission that the first N guesses make, for each N in `counts`.

    `counts` is ascending and includes void guesses; `answers` has shape [examples, suffix length]. Only the rows of the
    current submission are kept: a guess that was dropped does not return if the score of a better one falls later.
    """
    rules, repeated = spec.round, reader.repeated_batches()
    live_score = LiveScore(
        answers,
        examples=spec.examples,
        error_cap=spec.error_cap,
        row_cap=rules.row_cap,
        per_example=spec.attack.guesses_per_example,
    )
    recalls: list[float] = []
    after = 0
    for count in counts:
        while after < count:
            arrived = reader.arrivals(
                after=after,
                limit=min(_ROWS_AT_ONCE, count - after),
            )
            if not len(arrived.seq):
                break
            after = int(arrived.seq[-1])
            live_score.add(arrived.guesses.part(arrived.valid_rows(repeated)))
        is_correct, ids = part.rows_of(live_score.walk())
        recalls.append(recall_at_errors(is_correct, ids, cap=part.cap, examples=len(part)))
    return recalls
