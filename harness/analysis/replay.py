"""The score of a run as it was at earlier times, and the reference curve of the official baseline."""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from harness.analysis.parts import Part
from harness.core.arrays import Floats, Ints, Tokens
from harness.core.errors import HarnessError
from harness.core.examples import load_answers
from harness.core.inputs import as_harness_error
from harness.core.live_score import LiveScore
from harness.core.scoring import DRAWN_POINTS, correct_rows, log_spaced, recall_at_errors, solved_curve
from harness.runs.attack_record import submission_of
from harness.runs.folder import RunFolder, all_run_folders
from harness.runs.guess_reader import GuessReader
from harness.runs.reader import Point as RecordedPoint
from harness.runs.specs import AttackSpec
from harness.runs.summary import RunSummary, run_summary

BUDGET_SHARES = (0.01, 0.1, 1.0)
_ROWS_AT_ONCE = 50_000
_REPLAYED_POINTS = 40
Point = TypeVar("Point")


class TimedRecall(NamedTuple):
    """Recall at the cap after `spent` seconds of the budget."""

    spent: float
    recall: float


def evenly_spaced(points: Sequence[Point], most: int) -> list[Point]:
    """Return at most `most` of the points, evenly spaced, with the first and the last among them."""
    places = np.linspace(0, len(points) - 1, min(len(points), most)).round().astype(int)
    return [points[place] for place in places]


def recall_history(part: Part, *, spec: AttackSpec, reader: GuessReader, answers: Tokens) -> list[TimedRecall]:
    """Return the recall on `part` over time, ascending from 0 s.

    The recorded curve is used if it has the recall of `part`. Otherwise guesses are replayed at about 40 points of it,
    with the last one before each of BUDGET_SHARES among them.
    """
    points = reader.points()
    recorded = [TimedRecall(point.spent, point.recall) for point in points if point.recall is not None]
    if len(part) < spec.examples or len(recorded) < len(points):
        points = _chosen_points(points, spec.budget)
        counts = [point.guesses for point in points]
        recalls = recall_after_guesses(counts, part, spec=spec, reader=reader, answers=answers)
        recorded = [TimedRecall(point.spent, recall) for point, recall in zip(points, recalls, strict=True)]
    return [TimedRecall(0.0, 0.0), *recorded]


def _chosen_points(points: Sequence[RecordedPoint], budget: float) -> list[RecordedPoint]:
    places = set(evenly_spaced(range(len(points)), _REPLAYED_POINTS))
    for share in BUDGET_SHARES:
        before = [place for place, point in enumerate(points) if point.spent <= share * budget]
        places |= set(before[-1:])
    return [points[place] for place in sorted(places)]


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
            arrived = reader.arrivals(after=after, limit=min(_ROWS_AT_ONCE, count - after))
            if not len(arrived.seq):
                break
            after = int(arrived.seq[-1])
            live_score.add(arrived.guesses.part(arrived.valid_rows(repeated)))
        is_correct, ids = part.rows_of(live_score.walk())
        recalls.append(recall_at_errors(is_correct, ids, cap=part.cap, examples=len(part)))
    return recalls


class ReferenceCurve(NamedTuple):
    """Recall vs. errors of run `id`: recall [points] at each of `errors` [points], and at the cap."""

    id: str
    errors: Ints
    recall: Floats
    recall_at_cap: float


def best_other_curve(attack: str, spec: AttackSpec) -> ReferenceCurve | None:
    """Return the curve of the best complete run of `attack` on the same data, other than the run of `spec`.

    The curve has at most DRAWN_POINTS points. Returns None if there is no such run, the round is blind, or the run of
    `spec` is partial, whose recall is about fewer examples and errors. Raises HarnessError if the record of the best
    run cannot be read.
    """
    if spec.is_partial:
        return None
    answers = load_answers(spec.round)
    best = _best_other_run(attack, spec)
    if best is None or answers is None:
        return None
    folder, summary = best
    with as_harness_error(folder.path):
        with GuessReader.of_run(folder, spec) as reader:
            submission = submission_of(folder.attack_spec(), reader)
        is_correct = correct_rows(submission.ids, submission.suffixes, answers)
        curve = solved_curve(is_correct, submission.ids) / spec.round_examples
    errors = log_spaced(len(curve), most=DRAWN_POINTS)
    return ReferenceCurve(folder.id, errors, curve[errors - 1], summary.recall_at_cap or 0.0)


def _best_other_run(attack: str, spec: AttackSpec) -> tuple[RunFolder, RunSummary] | None:
    comparable = []
    for folder in all_run_folders():
        try:
            candidate = folder.attack_spec()
            if (
                candidate.attack.name == attack
                and candidate.id != spec.id
                and candidate.round.name == spec.round.name
                and candidate.data_sha256 == spec.data_sha256
                and not candidate.is_partial
                and (summary := run_summary(folder)).known_recall is not None
            ):
                comparable.append((folder, summary))
        except HarnessError:
            continue  # a run that cannot be read is no reference
    return max(comparable, key=lambda run: run[1].recall_at_cap or 0.0, default=None)
