"""Collect the facts about one run that documents show, from the run's record and its round's files."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from harness.analysis.contrast import Part
from harness.analysis.replay import recall_after_guesses, thinned
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
from harness.runs.reader import RunReader, StageWork
from harness.runs.summary import RunSummary, nondeterminism_reasons, run_summary

_MAX_POINTS = 200
_MAX_REPLAYED_POINTS = 40


class CurvePoint(NamedTuple):
    """The submission after `spent` seconds: its number of rows, and its recall at the cap if known."""

    spent: float
    rows: int
    recall: float | None


@dataclass(frozen=True)
class TrainingUse:
    """The round's training rows, whether the attack read them, and their overlap with the round's examples.

    `rows` and `overlap` are None if the round's files cannot be read, for the reason in `unknown_because`.
    """

    rows: int | None
    was_read: bool
    overlap: Overlap | None
    unknown_because: str | None


@dataclass(frozen=True)
class Queries:
    """The recorded work of the attack.

    `engine_calls` counts calls of the engine inside batches, including discarded ones. `rows_at_once` is the smallest
    and largest number of rows in one call, or None without calls. `repeated_batches` counts batches that started more
    than once, `executions` how often the run was started or resumed.
    """

    stages: tuple[StageWork, ...]
    engine_calls: int
    rows_at_once: tuple[int, int] | None
    repeated_batches: int
    executions: int


@dataclass(frozen=True)
class RunFacts:
    """The state of one run. Everything that needs answers is None in a blind round.

    `method` is the first line of the attack's documentation. `whole` are the attacked examples. `unreachable` are the
    examples whose answers the training rows do not contain; it is None if these are all or none. `curve` is the
    submission over time, ascending. `target_as_loaded` is the worker's report. `answers` has shape [examples, length].
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
    any_guess_correct: float | None
    curve: tuple[CurvePoint, ...]
    queries: Queries
    training: TrainingUse
    target_as_loaded: dict[str, Any] | None
    not_reproducible_because: tuple[str, ...]

    @property
    def is_correct(self) -> Bools | None:
        """The correct rows of the submission, [rows]."""
        return None if self.walk is None else self.walk.is_correct


def run_facts(folder: RunFolder) -> RunFacts:
    """Return the facts of a run. Raises HarnessError if its record or its round's files cannot be read."""
    spec = folder.spec()
    # Read before the guesses, so that the record of a run that is over includes its last guess.
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
        curve = _curve(spec, summary, reader, whole, answers, score)
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
        any_guess_correct=None if answers is None else any_of_n(spec, found),
        curve=curve,
        queries=queries,
        training=replace(training, was_read=was_read),
        target_as_loaded=target,
        not_reproducible_because=tuple(nondeterminism_reasons(folder)),
    )


def _training(spec: AttackSpec) -> tuple[TrainingUse, Ints | None, Bools | None]:
    """Return the training rows, each attacked example's cluster, and which answers the training rows contain."""
    part = slice(0, spec.examples)
    try:
        offered = load_training(spec.round)
        if offered is not None and len(offered):
            found = overlap(spec.round)
            clusters = None if found.clusters is None else found.clusters[part]
            is_reachable = None if found.is_reachable is None else found.is_reachable[part]
            return TrainingUse(len(offered), False, found, None), clusters, is_reachable
        training = TrainingUse(0, False, None, None)
    except HarnessError as error:
        training = TrainingUse(None, False, None, str(error))
    clusters = load_clusters(spec.round) if training.unknown_because is None else None
    return training, None if clusters is None else clusters[part], None


def _queries(reader: RunReader) -> Queries:
    calls = [rows for by_batch in reader.engine_calls().values() for rows in by_batch]
    return Queries(
        stages=tuple(reader.stages()),
        engine_calls=len(calls),
        rows_at_once=(min(calls), max(calls)) if calls else None,
        repeated_batches=len(reader.repeated_batches()),
        executions=sum(name == "execution" for _, _, name, _ in reader.events()),
    )


def _curve(
    spec: AttackSpec,
    summary: RunSummary,
    reader: GuessReader,
    whole: Part,
    answers: Tokens | None,
    score: Score | None,
) -> tuple[CurvePoint, ...]:
    """Return the recorded curve from 0 s, with the end of a run that is over. A curve recorded blind is replayed."""
    points = reader.points()
    if answers is None:
        moments = [CurvePoint(point.spent, point.rows, None) for point in thinned(points, _MAX_POINTS)]
        return (CurvePoint(0.0, 0, None), *moments)
    if any(point.recall is None for point in points):
        points = thinned(points, _MAX_REPLAYED_POINTS)
        counts = [point.guesses for point in points]
        recalls = recall_after_guesses(counts, whole, spec=spec, reader=reader, answers=answers)
        moments = [CurvePoint(point.spent, point.rows, recall) for point, recall in zip(points, recalls, strict=True)]
    else:
        moments = [CurvePoint(point.spent, point.rows, point.recall) for point in thinned(points, _MAX_POINTS)]
    if summary.status.is_over and score is not None:
        moments.append(CurvePoint(min(summary.elapsed_s, summary.budget_s), score.rows, score.recall_at_cap))
    return (CurvePoint(0.0, 0, 0.0), *moments)


def _method(folder: RunFolder, spec: AttackSpec) -> str:
    try:
        return declaration_in((folder.code / spec.attack.file).read_bytes()).summary
    except (OSError, HarnessError):
        return ""  # A run without its code is described without it.
