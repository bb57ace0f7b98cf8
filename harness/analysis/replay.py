"""The score of a run as it was at earlier times, and the reference curve of the official baseline."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from harness.analysis.parts import Part
from harness.core.arrays import Floats, Ints, Tokens
from harness.core.attack import GUESS_STAGE
from harness.core.errors import HarnessError
from harness.core.examples import load_answers
from harness.core.guesses import Guesses, concatenate_guesses
from harness.core.inputs import as_harness_error
from harness.core.intervals import JudgedRows
from harness.core.scoring import DRAWN_POINTS, Score, correct_rows, log_spaced, recall_at_errors, solved_curve
from harness.core.text import format_score, pluralize
from harness.core.times import format_seconds
from harness.runs.attack_record import Submission, empty_score, submission_from, submission_of
from harness.runs.folder import RunFolder, attack_runs
from harness.runs.guess_reader import GuessReader
from harness.runs.reader import Point as RecordedPoint
from harness.runs.specs import AttackSpec
from harness.runs.summary import RunSummary, run_summary

BUDGET_SHARES = (0.01, 0.1, 1.0)
_ROWS_AT_ONCE = 50_000
_REPLAYED_POINTS = 40
Point = TypeVar("Point")
_NO_TRIALS = "The guesses of this attack have no trials."
_OWN_ORDER = "The attack orders its submission itself, so no trials are shown."
_FEWER_TRIALS = "The work is not complete: some examples have fewer trials."


class TimedRecall(NamedTuple):
    """Recall at the cap after `spent` seconds of the budget."""

    spent: float
    """Seconds of the budget."""
    recall: float
    """Recall at the error cap, in [0, 1]."""


def evenly_spaced(points: Sequence[Point], max_points: int) -> list[Point]:
    """Return at most `max_points` of the points, evenly spaced, with the first and the last among them."""
    places = np.linspace(0, len(points) - 1, min(len(points), max_points)).round().astype(int)
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
    live_score, repeated = empty_score(spec, answers), reader.repeated_batches()
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


@dataclass(frozen=True)
class PastGuesses:
    """The valid guesses of a run in arrival order, of which the first ones make the submissions of the past."""

    spec: AttackSpec
    guesses: Guesses
    seq: Ints
    """[guesses], ascending: the number of each among all guesses that ever arrived, from 1."""
    trials: tuple[int, ...]
    """1, 10, 100, … and the number of all trials; none if a guess has no trial, or the attack set the order."""
    note: str
    """A sentence about trials that are absent or not complete, else empty."""

    def first(self, count: int) -> Submission:
        """Return the submission of the first `count` guesses, void ones included in the count."""
        return submission_from(self.spec, self.guesses.part(slice(0, int(self.seq.searchsorted(count, "right")))))

    def of_trials(self, trials: int) -> Submission:
        """Return the submission of the first `trials` trials of each example."""
        return submission_from(self.spec, self.guesses.part(np.flatnonzero(self.guesses.trial <= trials)))


def past_guesses(spec: AttackSpec, reader: GuessReader) -> PastGuesses:
    """Return the guesses of a run. Raises HarnessError if its store cannot be read."""
    parts, numbers, after = [], [np.empty(0, np.int64)], 0
    repeated = reader.repeated_batches()
    while len((arrived := reader.arrivals(after=after, limit=_ROWS_AT_ONCE)).seq):
        after, rows = int(arrived.seq[-1]), arrived.valid_rows(repeated)
        parts.append(arrived.guesses.part(rows))
        numbers.append(arrived.seq[rows])
    guesses = concatenate_guesses(parts, suffix_length=spec.round.suffix_length)
    trials, note = _trials(guesses.trial, spec, reader)
    return PastGuesses(spec, guesses, np.concatenate(numbers), trials, note)


def _trials(trial: Ints, spec: AttackSpec, reader: GuessReader) -> tuple[tuple[int, ...], str]:
    """Return the numbers of trials after which a run of these `trial`s is scored, and a note on them."""
    if not len(trial) or not trial.all():
        return (), _NO_TRIALS if len(trial) else ""
    if reader.last_event("final_order") is not None:
        return (), _OWN_ORDER
    stages = [stage for stage in reader.stages() if stage.stage == GUESS_STAGE]
    # The last trials may have drawn no new suffix.
    complete = [round(stage.announced / spec.examples) for stage in stages if not stage.left]
    last = max([int(trial.max()), *complete])
    powers = (10**power for power in range(len(str(last))))
    return (*(power for power in powers if power < last), last), "" if complete or not stages else _FEWER_TRIALS


class Moment(NamedTuple):
    """The score of the submission that the guesses of a run's first seconds or first trials make."""

    score: Score
    spent: float | None = None
    """Seconds of the budget. Null for trials."""
    trials: int | None = None
    """Trials of each example. Null for a time."""

    @property
    def name(self) -> str:
        return f"after {format_seconds(self.spent or 0.0)}" if self.trials is None else pluralize(self.trials, "trial")

    @property
    def labelled(self) -> tuple[str, Score]:
        """The score with a label for a legend, such as `10 trials: 0.305`."""
        return f"{self.name}: {format_score(self.score.recall_at_cap)}", self.score

    def as_json(self, points: int) -> dict[str, Any]:
        """Return time and trials, recall at the cap, and the curve with at most `points` points.

        Keys:
            spent, trials
            recall_at_cap (number): Recall at the error cap, in [0, 1].
            curve (ScoreCurve): Recall and precision vs. errors, with at most 200 points.
        """
        curve = self.score.recall_curve(points).as_json()
        return {"spent": self.spent, "trials": self.trials, "recall_at_cap": self.score.recall_at_cap, "curve": curve}


class Moments(NamedTuple):
    """The scores of one run at several times, and after several trials."""

    in_time: tuple[Moment, ...]
    """After each of BUDGET_SHARES that the run has passed, and after all of the time that it has spent."""
    by_trials: tuple[Moment, ...]
    """After each of the trials of `PastGuesses`."""
    note: str
    """That of `PastGuesses`."""


def moments_of(
    part: Part, *, spec: AttackSpec, reader: GuessReader, answers: Tokens, spent: float, last: JudgedRows
) -> Moments:
    """Return the scores of a run on `part` in the past. `last` is its submission after `spent` seconds."""
    past, points = past_guesses(spec, reader), reader.points()

    def score(rows: Submission) -> Score:
        return part.score(JudgedRows(correct_rows(rows.ids, rows.suffixes, answers), rows.ids))

    in_time = []
    for seconds in (share * spec.budget for share in BUDGET_SHARES if share * spec.budget < spent):
        counts = [point.guesses for point in points if point.spent <= seconds]
        in_time.append(Moment(score(past.first(max(counts, default=0))), spent=seconds))
    by_trials = tuple(Moment(score(past.of_trials(trials)), trials=trials) for trials in past.trials)
    return Moments((*in_time, Moment(part.score(last), spent=spent)), by_trials, past.note)


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
    best = _best_other_run(attack, spec)
    return None if best is None else curve_of(*best)


def curve_of(folder: RunFolder, summary: RunSummary) -> ReferenceCurve | None:
    """Return the curve of a run, with at most DRAWN_POINTS points; None in a blind round.

    Raises HarnessError if the record cannot be read.
    """
    spec = folder.attack_spec()
    answers = load_answers(spec.round)
    if answers is None:
        return None
    with as_harness_error(folder.path):
        with GuessReader.of_run(folder, spec) as reader:
            submission = submission_of(spec, reader)
        is_correct = correct_rows(submission.ids, submission.suffixes, answers)
        curve = solved_curve(is_correct, submission.ids) / spec.examples
    errors = log_spaced(len(curve), max_points=DRAWN_POINTS)
    return ReferenceCurve(folder.id, errors, curve[errors - 1], summary.recall_at_cap or 0.0)


def _best_other_run(attack: str, spec: AttackSpec) -> tuple[RunFolder, RunSummary] | None:
    comparable = []
    for folder, candidate in attack_runs():
        with contextlib.suppress(HarnessError):  # a run that cannot be read is no reference
            if (
                candidate.attack.name == attack
                and candidate.id != spec.id
                and candidate.round.name == spec.round.name
                and not candidate.differing_fields(spec)
                and not candidate.is_partial
                and (summary := run_summary(folder)).known_recall is not None
                and summary.status.is_complete
            ):
                comparable.append((folder, summary))
    return max(comparable, key=lambda run: run[1].recall_at_cap or 0.0, default=None)
