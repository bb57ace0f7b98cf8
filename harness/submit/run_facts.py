"""Collect the facts about one run that documents show, from the run's record and its round's files."""

from dataclasses import dataclass
from typing import Any

from harness.analysis.common_clock import CommonClock, common_clock, counts_until
from harness.analysis.comparison import recall_after
from harness.analysis.parts import AttackedParts, attacked_parts
from harness.analysis.replay import BUDGET_SHARES, evenly_spaced, recall_history
from harness.core.arrays import Bools, Tokens
from harness.core.errors import HarnessError
from harness.core.examples import load_answers
from harness.core.scoring import Score, correct_rows, exact_at_1
from harness.core.walk import JudgedRows
from harness.jobs.attack.reader import GuessReader
from harness.jobs.attack.results import Submission, any_of_n, submission_of
from harness.jobs.attack.spec import AttackSpec
from harness.plugins.declarations import declaration_in
from harness.plugins.parameters import Parameter, parameters_in
from harness.plugins.schema import fetch_schema
from harness.runs.calibration import time_scale
from harness.runs.errors import as_harness_error
from harness.runs.folder import RunFolder
from harness.runs.reader import RunReader, StageWork
from harness.runs.summary import RunSummary, nondeterminism_reasons, run_summary

_MAX_POINTS = 200


@dataclass(frozen=True)
class Queries:
    """The recorded work of the attack.

    `repeated_batches` counts batches that started more than once, `executions` how often the run was started or
    resumed.
    """

    stages: tuple[StageWork, ...]
    repeated_batches: int
    executions: int


@dataclass(frozen=True)
class RunFacts:
    """The state of one run. Everything that needs answers is None in a blind round.

    `method` is the first line of the attack's documentation, `parameters` its parameters with their
    defaults; both are empty if the run's copy of the code cannot be read. `answers` has shape [examples, length].
    `clock` is the standard time of a machine, or wall clock if this one was not calibrated; `time_on_clock` is the time
    of the run on it, and `recall_at_shares` the recall after each of BUDGET_SHARES of its budget.
    `curve` has pairs of seconds spent and recall at the cap, or number of rows in a blind round, ascending.
    `read_training` is True if the attack read the training rows. `target_as_loaded` and `reference_as_loaded` are
    reports of the worker.
    """

    folder: RunFolder
    spec: AttackSpec
    summary: RunSummary
    method: str
    parameters: tuple[Parameter, ...]
    submission: Submission
    answers: Tokens | None
    walk: JudgedRows | None
    parts: AttackedParts
    score: Score | None
    unreachable_score: Score | None
    exact_at_1: float | None
    any_guess_correct: float | None
    curve: tuple[tuple[float, float], ...]
    clock: CommonClock
    time_on_clock: float
    recall_at_shares: tuple[float | None, ...] | None
    queries: Queries
    read_training: bool
    target_as_loaded: dict[str, Any] | None
    reference_as_loaded: dict[str, Any] | None
    not_reproducible_because: tuple[str, ...]

    @property
    def is_correct(self) -> Bools | None:
        """The correct rows of the submission, [rows]."""
        return None if self.walk is None else self.walk.is_correct


def run_facts(folder: RunFolder) -> RunFacts:
    """Return the facts of a run. Raises HarnessError if its record or its round's files cannot be read."""
    spec = folder.attack_spec()
    # Read before the guesses, so that the record of a run that is over includes its last guess.
    summary = run_summary(folder)
    answers = load_answers(spec.round)
    with as_harness_error(f"round {spec.round.name}"):
        parts = attacked_parts(spec)
    with as_harness_error(folder.path), GuessReader.of_run(folder, spec) as reader:
        guesses, final = reader.guesses(), reader.final_order()
        submission = submission_of(spec, reader)
        queries, scale = _queries(reader), time_scale(reader, spec.budget_machine)
        read_training = reader.last_event("worker_read_train") is not None
        target, reference = reader.last_event("worker_target"), reader.last_event("worker_reference")
        walk = score = unreachable_score = first = None
        if answers is None:
            curve = [(0.0, 0.0), *((point.spent, float(point.rows)) for point in reader.points())]
        else:
            answers = answers[: spec.examples]
            walk = JudgedRows(correct_rows(submission.ids, submission.suffixes, answers), submission.ids)
            score, first = parts.whole.score(walk), exact_at_1(submission.ids, submission.suffixes, answers)
            unreachable_score = None if parts.unreachable is None else parts.unreachable.score(walk)
            curve = [*recall_history(parts.whole, spec=spec, reader=reader, answers=answers)]
            if summary.status.is_over:
                curve.append((min(summary.elapsed_s, summary.budget_s), score.recall_at_cap))
    clock, at_shares = common_clock([spec], [scale]), None
    if score is not None:
        counts = counts_until(summary.status, elapsed=summary.elapsed_s, budget=spec.budget)
        history = [(clock.time(scale, spent), recall) for spent, recall in curve]
        reached = clock.time(scale, counts)
        at_shares = tuple(recall_after(share * clock.budget, history, reached) for share in BUDGET_SHARES)
    return RunFacts(
        folder=folder,
        spec=spec,
        summary=summary,
        method=_method(folder, spec),
        parameters=_parameters(folder, spec),
        submission=submission,
        answers=answers,
        walk=walk,
        parts=parts,
        score=score,
        unreachable_score=unreachable_score,
        exact_at_1=first,
        any_guess_correct=None if answers is None else any_of_n(spec, guesses, final),
        curve=tuple(evenly_spaced(curve, _MAX_POINTS)),
        clock=clock,
        time_on_clock=clock.time(scale, summary.elapsed_s),
        recall_at_shares=at_shares,
        queries=queries,
        read_training=read_training,
        target_as_loaded=target,
        reference_as_loaded=reference,
        not_reproducible_because=tuple(nondeterminism_reasons(folder)),
    )


def _queries(reader: RunReader) -> Queries:
    return Queries(
        stages=tuple(reader.stages()),
        repeated_batches=len(reader.repeated_batches()),
        executions=sum(name == "execution" for _, _, name, _ in reader.events()),
    )


def _parameters(folder: RunFolder, spec: AttackSpec) -> tuple[Parameter, ...]:
    if not spec.params:
        return ()
    try:
        schema = fetch_schema(folder.code / spec.attack.file, digest=spec.attack.sha256)
        return parameters_in(schema.schema)
    except (OSError, HarnessError):
        return ()  # A run whose code is gone or cannot be imported here is described without defaults.


def _method(folder: RunFolder, spec: AttackSpec) -> str:
    try:
        return declaration_in((folder.code / spec.attack.file).read_bytes()).summary
    except (OSError, HarnessError):
        return ""  # A run without its code is described without it.
