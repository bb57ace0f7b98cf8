"""The running curve is the score of the submission that the same guesses make."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from harness.core.guesses import Guesses
from harness.core.scoring import correct_rows, score_rows
from harness.core.submission import submission_order
from harness.runs.reader import RunReader
from harness.runs.store import RunStore
from harness.supervisor.running_curve import RunningCurve

EXAMPLES, LENGTH = 6, 2


class Step(NamedTuple):
    """One guess of one batch, after which the batch may be begun anew and the curve looked at."""

    batch: int
    example: int
    suffix: tuple[int, int]
    score: float
    is_begun_anew: bool
    is_looked_at: bool


steps = st.lists(
    st.builds(
        Step,
        st.integers(0, 2),
        st.integers(0, EXAMPLES - 1),
        st.tuples(st.integers(0, 2), st.integers(0, 1)),
        st.sampled_from([0.0, 0.5, 1.0, float("inf"), float("-inf")]),
        st.integers(0, 5).map(lambda number: number == 0),
        st.booleans(),
    ),
    max_size=40,
)


@given(steps, st.integers(0, 2), st.integers(1, 5), st.integers(1, 12))
def test_its_recall_is_that_of_the_submission(steps: list[Step], per_example: int, cap: int, row_cap: int) -> None:
    answers = np.tile(np.array([[1, 0]]), (EXAMPLES, 1))
    curve = RunningCurve(answers, examples=EXAMPLES, error_cap=cap, row_cap=row_cap, per_example=per_example)
    counting: list[Step] = []
    for step in steps:
        if step.is_begun_anew:
            curve.void(step.batch)
            counting = [other for other in counting if other.batch != step.batch]
        curve.add(step.batch, Guesses([step.example], [step.suffix], [step.score]))
        counting.append(step)
        if step.is_looked_at:
            curve.standing()
    standing = curve.standing()
    ids = np.array([step.example for step in counting], np.int64)
    suffixes = np.array([step.suffix for step in counting], np.int64).reshape(-1, LENGTH)
    scores = np.array([step.score for step in counting], np.float64)
    order = submission_order(ids, suffixes, scores, per_example=per_example, row_cap=row_cap)
    is_correct = correct_rows(ids[order], suffixes[order], answers)
    score = score_rows(is_correct, ids[order], cap=cap, examples=EXAMPLES)
    assert standing.rows == len(order)
    assert (standing.recall, standing.solved) == (score.recall_at_cap, score.solved)
    assert standing.wrong == score.wrong_rows_read


def test_a_blind_curve_counts_rows(tmp_path: Path) -> None:
    curve = RunningCurve(None, examples=EXAMPLES, error_cap=1, row_cap=9, per_example=1)
    assert curve.standing().rows == 0
    curve.void(0)
    curve.add(0, Guesses([1, 1, 2], [[0, 0], [0, 1], [0, 0]], [1, 2, 3]))
    standing = curve.standing()
    assert (standing.rows, standing.solved, standing.wrong, standing.recall) == (2, None, None, None)


def test_it_is_due_when_something_came_and_its_share_allows(tmp_path: Path) -> None:
    curve = RunningCurve(None, examples=EXAMPLES, error_cap=1, row_cap=9, per_example=1)
    assert not curve.is_due(0.0)
    curve.add(0, Guesses([1], [[0, 0]], [1]))
    assert curve.is_due(0.0)
    curve.standing()
    curve.postpone(0.0, cost=0.02)
    curve.add(0, Guesses([2], [[0, 0]], [1]))
    assert not curve.is_due(1.9) and curve.is_due(2.1)


def test_it_goes_on_from_what_the_store_holds(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "run.db")
    with store.transaction():
        for key in ("a", "b"):
            batch, attempt = store.begin_batch(key, 1.0)
            store.add_guesses(batch, attempt, np.array([batch]), np.zeros((1, 2), np.uint16), np.ones(1))
    with RunReader(tmp_path / "run.db") as reader:
        committed = reader.committed()
    curve = RunningCurve(np.zeros((EXAMPLES, 2)), examples=EXAMPLES, error_cap=1, row_cap=9, per_example=1)
    curve.add(committed.batches, committed.guesses)
    assert curve.standing().solved == 2
    curve.void(1)
    assert curve.standing().solved == 1
