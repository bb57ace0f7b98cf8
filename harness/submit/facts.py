"""All that the documents say about one run, read from its record and its round's files; nothing is drawn or worded."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from harness.analysis.contrast import Part
from harness.analysis.replay import recall_after_guesses
from harness.core.arrays import Bools, Ints, Tokens
from harness.core.errors import HarnessError
from harness.core.examples import load_answers, load_clusters, load_training
from harness.core.overlap import Overlap, overlap
from harness.core.scoring import Score, correct_rows, exact_at_1
from harness.core.walk import JudgedRows
from harness.jobs.attack.reader import GuessReader
from harness.jobs.attack.results import Submission, any_of_n, emitted, submission_of
from harness.jobs.attack.spec import AttackSpec
from harness.plugins.declarations import declaration_in
from harness.runs.errors import as_harness_error
from harness.runs.folder import RunFolder
from harness.runs.reader import Point, RunReader, StageWork
from harness.runs.summary import RunSummary, nondeterminism_reasons, run_summary

_MOST_MOMENTS = 200
_MOST_REPLAYED = 40


class Moment(NamedTuple):
    """The submission when `spent` seconds of the budget were spent: its rows, and its recall at the cap where known."""

    spent: float
    rows: int
    recall: float | None


@dataclass(frozen=True)
class OverlapCounts:
    """How many of the attacked examples the training rows touch (`harness.core.overlap.Overlap` defines each).

    The counts that need answers are None in a blind round; those about clusters where the round has none.
    """

    known_prefix: int
    known_prefix_is_right: int | None
    stitched: int
    reachable: int | None
    clusters: int | None
    clustered: int | None


@dataclass(frozen=True)
class TrainingUse:
    """Training rows: how many the round offers, whether the record says that the attack read them, their overlap.

    rows, overlap: None where the round's files do not tell, for the reason that `unknown_because` gives.
    """

    rows: int | None
    was_read: bool
    overlap: OverlapCounts | None
    unknown_because: str | None


@dataclass(frozen=True)
class Queries:
    """What the record holds of the attack's work.

    engine_calls: calls of the target's engine inside batches, void ones included; rows_at_once: the fewest and the most
    rows that went through the model together in one of them, None where there was none; repeated_batches: begun more
    than once; executions: how often the run was started or resumed.
    """

    stages: tuple[StageWork, ...]
    engine_calls: int
    rows_at_once: tuple[int, int] | None
    repeated_batches: int
    executions: int


@dataclass(frozen=True)
class RunFacts:
    """One run at one moment. All that needs answers is None in a blind round.

    method: the first line of the attack's own documentation; walk: the submission as scoring walks it; whole: the
    attacked examples; unreachable: those that training rows do not give away, None where those are all or none;
    course: the submission in time, ascending; target_as_loaded: what the worker told; answers: [examples, length].
    """

    folder: RunFolder
    spec: AttackSpec
    summary: RunSummary
    method: str
    submission: Submission
    answers: Tokens | None
    walk: JudgedRows | None
    whole: Part
    unreachable: Part | None
    score: Score | None
    unreachable_score: Score | None
    exact_at_1: float | None
    any_of_n: float | None
    course: tuple[Moment, ...]
    queries: Queries
    training: TrainingUse
    target_as_loaded: dict[str, Any] | None
    not_reproducible_because: tuple[str, ...]

    @property
    def is_right(self) -> Bools | None:
        """Which rows of the submission are right, [rows]."""
        return None if self.walk is None else self.walk.is_correct


def run_facts(folder: RunFolder) -> RunFacts:
    """The facts of a run now. Raises HarnessError when its record or its round's prefixes or answers cannot be read."""
    spec = folder.spec()
    # Before the record is read: of what is over now, the last guess is there.
    summary = run_summary(folder)
    answers = load_answers(spec.round)
    with as_harness_error(f"round {spec.round.name}"):
        training, clusters, is_reachable = _training(spec)
    with as_harness_error(folder.path), GuessReader.of_run(folder, spec) as reader:
        found = emitted(spec, reader)
        submission = submission_of(spec, reader)
        queries = _queries(reader)
        was_read = reader.last_event("worker_read_train") is not None
        target = reader.last_event("worker_target")
        whole = Part.whole(spec.examples, cap=spec.error_cap, clusters=clusters)
        walk = score = unreachable = unreachable_score = first = None
        if answers is not None:
            answers = answers[: spec.examples]
            walk = JudgedRows(correct_rows(submission.ids, submission.suffixes, answers), submission.ids)
            score, first = whole.score(walk), exact_at_1(submission.ids, submission.suffixes, answers)
            if is_reachable is not None and is_reachable.any() and not is_reachable.all():
                unreachable = whole.where(~is_reachable)
                unreachable_score = unreachable.score(walk)
        course = _course(spec, summary, reader, whole, answers, score)
    return RunFacts(
        folder=folder,
        spec=spec,
        summary=summary,
        method=_method(folder, spec),
        submission=submission,
        answers=answers,
        walk=walk,
        whole=whole,
        unreachable=unreachable,
        score=score,
        unreachable_score=unreachable_score,
        exact_at_1=first,
        any_of_n=None if answers is None else any_of_n(spec, found),
        course=course,
        queries=queries,
        training=TrainingUse(training.rows, was_read, training.overlap, training.unknown_because),
        target_as_loaded=target,
        not_reproducible_because=tuple(nondeterminism_reasons(folder)),
    )


class _Training(NamedTuple):
    rows: int | None
    overlap: OverlapCounts | None
    unknown_because: str | None


def _training(spec: AttackSpec) -> tuple[_Training, Ints | None, Bools | None]:
    """The training rows' facts, each attacked example's cluster, and whether training rows give its answer away."""
    part = slice(0, spec.examples)
    try:
        offered = load_training(spec.round)
        if offered is not None and len(offered):
            found = overlap(spec.round)
            clusters = None if found.clusters is None else found.clusters[part]
            is_reachable = None if found.is_reachable is None else found.is_reachable[part]
            return _Training(len(offered), _counts(found, part), None), clusters, is_reachable
        training = _Training(0, None, None)
    except HarnessError as error:
        training = _Training(None, None, str(error))
    clusters = load_clusters(spec.round) if training.unknown_because is None else None
    return training, None if clusters is None else clusters[part], None


def _counts(found: Overlap, part: slice) -> OverlapCounts:
    return OverlapCounts(
        known_prefix=int(found.has_known_prefix[part].sum()),
        known_prefix_is_right=_count(found.known_prefix_is_right, part),
        stitched=int(found.is_stitched[part].sum()),
        reachable=_count(found.is_reachable, part),
        clusters=None if found.clusters is None else int(np.unique(found.clusters[part]).size),
        clustered=_count(found.is_clustered, part),
    )


def _count(flags: Bools | None, part: slice) -> int | None:
    return None if flags is None else int(flags[part].sum())


def _queries(reader: RunReader) -> Queries:
    calls = [rows for by_batch in reader.engine_calls().values() for rows in by_batch]
    return Queries(
        stages=tuple(reader.stages()),
        engine_calls=len(calls),
        rows_at_once=(min(calls), max(calls)) if calls else None,
        repeated_batches=len(reader.repeated_batches()),
        executions=sum(name == "execution" for _, _, name, _ in reader.events()),
    )


def _course(
    spec: AttackSpec,
    summary: RunSummary,
    reader: GuessReader,
    whole: Part,
    answers: Tokens | None,
    score: Score | None,
) -> tuple[Moment, ...]:
    """The running curve from 0 s on, and of a run that is over its end; replayed where the round was blind once."""
    points = reader.points()
    if answers is None:
        moments = [Moment(point.spent, point.rows, None) for point in _thinned(points, _MOST_MOMENTS)]
        return (Moment(0.0, 0, None), *moments)
    if any(point.recall is None for point in points):
        points = _thinned(points, _MOST_REPLAYED)
        counts = [point.guesses for point in points]
        recalls = recall_after_guesses(counts, whole, spec=spec, reader=reader, answers=answers)
        moments = [Moment(point.spent, point.rows, recall) for point, recall in zip(points, recalls, strict=True)]
    else:
        moments = [Moment(point.spent, point.rows, point.recall) for point in _thinned(points, _MOST_MOMENTS)]
    if summary.status.is_over and score is not None:
        moments.append(Moment(min(summary.elapsed_s, summary.budget_s), score.rows, score.recall_at_cap))
    return (Moment(0.0, 0, 0.0), *moments)


def _thinned(points: Sequence[Point], most: int) -> list[Point]:
    """At most `most` of the points, the first and the last among them."""
    places = np.linspace(0, len(points) - 1, min(len(points), most)).round().astype(int)
    return [points[place] for place in places]


def _method(folder: RunFolder, spec: AttackSpec) -> str:
    try:
        return declaration_in((folder.code / spec.attack.file).read_bytes()).summary
    except (OSError, HarnessError):
        return ""  # a run without its code is described by its record
