"""Compare runs of one round: scores, recall over time and settings; two runs also example by example."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from harness.analysis.parts import AttackedParts, Contrast, Part, attacked_parts, contrast
from harness.analysis.replay import BUDGET_SHARES, Moments, TimedRecall, evenly_spaced, moments_of, recall_history
from harness.core.arrays import Ints, Tokens
from harness.core.errors import HarnessError, UsageError
from harness.core.examples import load_answers
from harness.core.inputs import as_harness_error
from harness.core.intervals import JudgedRows
from harness.core.run_request import RESOLVED
from harness.core.scoring import Score, correct_rows
from harness.core.spec import TargetRecord
from harness.core.text import display_name
from harness.runs.attack_record import Submission, submission_of
from harness.runs.folder import RunFolder
from harness.runs.guess_reader import GuessReader
from harness.runs.specs import AttackSpec
from harness.runs.status import Status
from harness.runs.summary import run_status

History = Sequence[tuple[float, float]]
"""Pairs of a time and a recall, ascending."""
_MAX_POINTS = 200
_REPORTED_BY_WORKER = ("device", "device_name", "blocks", "dtype", "threads", "rows_at_once")


def counts_until(status: Status, *, elapsed: float, budget: float) -> float:
    """Return until which spent time the recall of a run is known: for ever if it has finished all of its work.

    A run that its budget ended would have gone on with more, so it does not count after that.
    """
    if status is Status.FINISHED:
        return float("inf")
    return max(elapsed, budget) if status is Status.OUT_OF_TIME else elapsed


class Lead(NamedTuple):
    """A span of time in which one run has the highest recall."""

    start: float
    end: float
    leader: int | None
    """The number of the run, None while several have the highest recall or none is above zero."""
    second: int | None
    """The run with the next recall at the end of the span, None if there is no other."""
    min_margin: float
    """The smallest distance of the leader to the next recall in the span."""
    max_margin: float
    """The largest distance."""


def leads(histories: Sequence[History], counts: Sequence[float], *, until: float) -> list[Lead]:
    """Return who leads from time 0 to `until`, as spans that follow one another.

    Each history begins at time 0, and its recalls are valid until the next one; run i counts until `counts[i]`.
    """
    moments = {0.0, until, *counts, *(time for history in histories for time, _ in history)}
    times = sorted(moment for moment in moments if moment <= until)
    recalls = np.full((len(histories), len(times) - 1), -np.inf)  # of the runs that count
    for of_run, history, counts_until_then in zip(recalls, histories, counts, strict=True):
        times_of_run, recall = np.array(history, np.float64).T
        starts = [time for time in times[:-1] if time < counts_until_then]
        of_run[: len(starts)] = recall[np.searchsorted(times_of_run, starts, side="right") - 1]
    spans: list[Lead] = []
    for (start, end), of_span in zip(pairwise(times), recalls.T.tolist(), strict=True):
        leader, *rest = sorted(range(len(of_span)), key=lambda run: -of_span[run])
        second = rest[0] if rest and of_span[rest[0]] >= 0 else None
        ahead = of_span[leader] - (0.0 if second is None else of_span[second])
        span = Lead(start, end, leader, second, ahead, ahead)
        if of_span[leader] <= 0 or ahead == 0:
            span = Lead(start, end, None, None, 0.0, 0.0)
        if spans and spans[-1].leader == span.leader:
            last = spans.pop()
            span = span._replace(
                start=last.start,
                min_margin=min(last.min_margin, span.min_margin),
                max_margin=max(last.max_margin, span.max_margin),
            )
        spans.append(span)
    return spans


class Trajectory(NamedTuple):
    """The score of a run on some examples, and its recall over time."""

    score: Score
    recall_over_time: tuple[TimedRecall, ...]
    """Ascending from 0 s, with the end of a run that is over."""
    recall_at_shares: tuple[float | None, ...]
    """Recall after each of BUDGET_SHARES of the budget, None if the run has not come so far."""


def _trajectory_as_json(trajectory: Trajectory | None, score: str, prefix: str) -> dict[str, Any]:
    """Return three keys, with curves of at most 200 points; null without a trajectory.

    Keys:
        score (Score): Score of the submission.
            curve (ScoreCurve): Recall and precision vs. errors, with at most 200 points.
        recall_over_time (TimedRecall[]): Recall at the error cap over the time, with at most 200 points.
        recall_at_budget (object[]): Recall after shares of the budget.
            share (number): Share of the budget, in [0, 1].
            recall (number?): Recall at the error cap. Null if the run has not come so far.
        not_in_train_score (Score?): Score on examples that are not in the training rows.
            curve (ScoreCurve): Recall and precision vs. errors, with at most 200 points.
        not_in_train_over_time (TimedRecall[]?): Recall over the time on these examples.
        not_in_train_at_budget (object[]?): Recall on these examples after shares of the budget.
            share (number): Share of the budget, in [0, 1].
            recall (number?): Recall at the error cap. Null if the run has not come so far.
    """
    if trajectory is None:
        return dict.fromkeys((score, f"{prefix}_over_time", f"{prefix}_at_budget"))
    shares = zip(BUDGET_SHARES, trajectory.recall_at_shares, strict=True)
    return {
        score: trajectory.score.as_json() | {"curve": trajectory.score.recall_curve(_MAX_POINTS).as_json()},
        f"{prefix}_over_time": [point._asdict() for point in evenly_spaced(trajectory.recall_over_time, _MAX_POINTS)],
        f"{prefix}_at_budget": [{"share": share, "recall": recall} for share, recall in shares],
    }


@dataclass(frozen=True)
class ComparedRun:
    """One run of a comparison."""

    id: str
    """Id of the run."""
    attack: str
    """Name of the attack."""
    is_control: bool
    """True if the attack is a control, which may not be submitted."""
    status: Status
    """Status of the run."""
    elapsed_s: float
    """Time spent."""
    budget_s: float
    """Time budget."""
    counts_until: float
    """The spent time until which the recall is known."""
    guesses: int
    """Committed guesses."""
    suffixes_per_s: float | None
    """Draws of finished batches per second. Null if no time has elapsed."""
    whole: Trajectory
    moments: Moments
    """The scores on all examples at several times, and after several trials."""
    not_in_train: Trajectory | None
    """The trajectory on the examples whose answers the training rows do not contain, None if there are none."""
    rows: Submission
    """The rows that were scored."""
    not_tested_because: str
    """The reason that a test of this run would mean nothing, empty if there is none."""
    submission: JudgedRows
    settings: dict[str, Any]
    """The value of each setting by name."""

    @property
    def shown_attack(self) -> str:
        """Return the name of the attack, marked if it is a control."""
        return display_name(self.attack, is_control=self.is_control)

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object, with curves of at most 200 points.

        Keys:
            id, attack, is_control, status, elapsed_s, budget_s, guesses, suffixes_per_s
            _trajectory_as_json.score, _trajectory_as_json.recall_over_time, _trajectory_as_json.recall_at_budget
            _trajectory_as_json.not_in_train_score, _trajectory_as_json.not_in_train_over_time
            _trajectory_as_json.not_in_train_at_budget
            moments (Moment[]): Scores after shares of the budget, and after 1, 10, 100, … trials.
            no_trials_because (string?): Reason for missing scores after trials.
        """
        names = ("id", "attack", "is_control", "status", "elapsed_s", "budget_s", "guesses", "suffixes_per_s")
        return {
            **{name: getattr(self, name) for name in names},
            **_trajectory_as_json(self.whole, "score", "recall"),
            **_trajectory_as_json(self.not_in_train, "not_in_train_score", "not_in_train"),
            "moments": [moment.as_json(_MAX_POINTS) for moment in (*self.moments.in_time, *self.moments.by_trials)],
            "no_trials_because": self.moments.note if not self.moments.by_trials else None,
        }


@dataclass(frozen=True)
class Comparison:
    """A comparison of runs of one round."""

    round: str
    whole: Part
    not_in_train: Part | None
    """The examples whose answers the training rows do not contain."""
    not_in_train_absent_because: str
    """The reason that `not_in_train` is None."""
    runs: tuple[ComparedRun, ...]
    contrast: Contrast | None
    """The first run compared with the second, None unless there are exactly two and both can be tested."""
    not_in_train_contrast: Contrast | None
    budget_s: float
    """The largest budget of the runs."""
    leads: tuple[Lead, ...]
    """The leader of each span of time, on all examples."""
    differing: dict[str, tuple[Any, ...]]
    """The settings that differ between runs, by name, with the value of each run or None."""

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object.

        Keys:
            round (string): Name of the round.
            examples (number): Number of examples.
            error_cap (number): Number of wrong rows at which scoring stops.
            not_in_train_examples (number?): Examples that are not in the training rows. Null if this is not known.
            not_in_train_error_cap (number?): Error cap for these examples.
            not_in_train_absent_because (string?): Reason for a missing score on these examples.
            runs (ComparedRun[]): Runs in the order of the command.
            budget_s (number): Largest budget of the runs, the end of `leads`.
            leads (object[]): The run with the highest recall, for each span of time.
                start_s (number): Start of the span.
                end_s (number): End of the span.
                leader (string?): Run with the highest recall. Null if several have it, or none is above zero.
                second (string?): Run with the next recall at the end of the span.
                least (number): Smallest distance of the leader to the next recall in the span.
                most (number): Largest distance.
            contrast (Contrast?): Paired difference of two runs. Null unless there are exactly two, both of them tested.
            not_in_train_contrast (Contrast?): The same for examples that are not in the training rows.
            not_tested_because (string[]): Sentence about each run that is not tested.
            differing (object): Settings that differ, with one value per run.
        """
        part, pairs = self.not_in_train, (self.contrast, self.not_in_train_contrast)
        contrast, not_in_train_contrast = (None if pair is None else pair.as_json() for pair in pairs)
        return {
            "round": self.round,
            "examples": len(self.whole),
            "error_cap": self.whole.cap,
            "not_in_train_examples": None if part is None else len(part),
            "not_in_train_error_cap": None if part is None else part.cap,
            "not_in_train_absent_because": self.not_in_train_absent_because or None,
            "runs": [run.as_json() for run in self.runs],
            "budget_s": self.budget_s,
            "leads": [self._lead_as_json(lead) for lead in self.leads],
            "contrast": contrast,
            "not_in_train_contrast": not_in_train_contrast,
            "not_tested_because": self.not_tested_because,
            "differing": self.differing,
        }

    @property
    def not_tested_because(self) -> list[str]:
        """Return the reason of each run that cannot be tested."""
        return [run.not_tested_because for run in self.runs if run.not_tested_because]

    def _lead_as_json(self, lead: Lead) -> dict[str, Any]:
        leader, second = (None if number is None else self.runs[number].id for number in (lead.leader, lead.second))
        margins = {"least": lead.min_margin, "most": lead.max_margin}
        return {"start_s": lead.start, "end_s": lead.end, "leader": leader, "second": second, **margins}


def compare_runs(folders: Sequence[RunFolder], *, takes_other_limits: bool = False) -> Comparison:
    """Compare two or more runs of one round.

    takes_other_limits: runs with different `--limit` are compared on the examples that all of them attack, the first
    ones of the round. Raises HarnessError if there are fewer than two runs, a run is given twice, the runs differ in
    their round, data or otherwise in their number of examples, the round is blind, or a record or file cannot be read.
    """
    specs = [folder.attack_spec() for folder in folders]
    require_comparable(specs, takes_other_limits=takes_other_limits)
    fewest = min(specs, key=lambda spec: spec.examples)
    with as_harness_error(f"round {fewest.round.name}"):
        answers, parts = load_answers(fewest.round), attacked_parts(fewest)
    assert answers is not None
    runs = [compared_run(folder, spec, parts, answers) for folder, spec in zip(folders, specs, strict=True)]
    return comparison_of(runs, parts, fewest.round.name)


def comparison_of(runs: Sequence[ComparedRun], parts: AttackedParts, round_name: str) -> Comparison:
    """Return the comparison of runs that are comparable, all on the same `parts` of the round."""
    budget = max(run.budget_s for run in runs)
    histories = [evenly_spaced(run.whole.recall_over_time, _MAX_POINTS) for run in runs]
    return Comparison(
        round=round_name,
        whole=parts.whole,
        not_in_train=parts.not_in_train,
        not_in_train_absent_because=parts.not_in_train_absent_because,
        runs=tuple(runs),
        contrast=_contrast_of_pair(runs, parts.whole),
        not_in_train_contrast=_contrast_of_pair(runs, parts.not_in_train),
        budget_s=budget,
        leads=tuple(leads(histories, [run.counts_until for run in runs], until=budget)),
        differing=_differing([run.settings for run in runs]),
    )


def _contrast_of_pair(runs: Sequence[ComparedRun], part: Part | None) -> Contrast | None:
    if len(runs) != 2 or part is None or any(run.not_tested_because for run in runs):
        return None
    return contrast(runs[0].submission, runs[1].submission, part)


def require_one_round(specs: Sequence[AttackSpec]) -> None:
    """Raise HarnessError unless the runs are distinct and attack one round with the same rules and data."""
    ids = [spec.id for spec in specs]
    for place, (id_, spec) in enumerate(zip(ids, specs, strict=True)):
        if id_ in ids[:place]:
            raise UsageError(f"{id_} is given twice. Compare different runs.")
        if spec.round.name != specs[0].round.name:
            raise HarnessError(
                f"{ids[0]} attacked round {specs[0].round.name} and {id_} round {spec.round.name}. "
                "Compare runs of one round."
            )
        if fields := specs[0].differing_fields(spec):
            raise HarnessError(
                f"{ids[0]} and {id_} attacked rounds named {spec.round.name} that differ in {', '.join(fields)}. "
                "Compare runs of one round."
            )


def require_comparable(specs: Sequence[AttackSpec], *, takes_other_limits: bool = False) -> None:
    """Raise HarnessError unless these are several runs of one round with answers.

    Their numbers of examples have to be equal, unless `takes_other_limits`.
    """
    if len(specs) < 2:
        raise UsageError("a comparison needs at least two runs. `harness list runs` lists them.")
    require_one_round(specs)
    for spec in specs:
        if spec.examples != specs[0].examples and not takes_other_limits:
            raise HarnessError(
                f"{specs[0].id} attacked {specs[0].examples:,} examples and {spec.id} {spec.examples:,}. "
                "Compare runs with the same --limit."
            )
    if specs[0].round.is_blind:
        raise HarnessError(f"round {specs[0].round.name} is blind. Score each run: `harness score RUN --answers NPY`.")


def compared_run(folder: RunFolder, spec: AttackSpec, parts: AttackedParts, answers: Tokens) -> ComparedRun:
    """Return the scores of a run on `parts` of a round with these answers, [examples, suffix length]."""
    # The status is read before the guesses: if the run is over then, all its guesses are read.
    status = run_status(folder)
    with as_harness_error(folder.path), GuessReader.of_run(folder, spec) as reader:
        submission = submission_of(spec, reader)
        ledger, done = reader.last_ledger(), reader.draws_done()
        elapsed = 0.0 if ledger is None else ledger.spent
        judged = JudgedRows(correct_rows(submission.ids, submission.suffixes, answers), submission.ids)

        def trajectory(part: Part) -> Trajectory:
            score = part.score(judged)
            history = recall_history(part, spec=spec, reader=reader, answers=answers)
            if status.is_over:
                # Guesses that arrive after the end of the budget do not count.
                history.append(TimedRecall(min(elapsed, spec.budget), score.recall_at_cap))
            reached = math.inf if status.is_over else elapsed
            at_shares = tuple(recall_after(share * spec.budget, history, reached) for share in BUDGET_SHARES)
            return Trajectory(score, tuple(history), at_shares)

        return ComparedRun(
            id=folder.id,
            attack=spec.attack.name,
            is_control=spec.attack.control,
            status=status,
            elapsed_s=round(elapsed, 3),
            budget_s=spec.budget,
            counts_until=counts_until(status, elapsed=elapsed, budget=spec.budget),
            guesses=reader.row_count("guess"),
            suffixes_per_s=done / elapsed if elapsed else None,
            whole=trajectory(parts.whole),
            moments=moments_of(
                parts.whole, spec=spec, reader=reader, answers=answers, spent=min(elapsed, spec.budget), last=judged
            ),
            not_in_train=None if parts.not_in_train is None else trajectory(parts.not_in_train),
            rows=submission,
            not_tested_because=_not_tested_because(folder.id, status, submission.ids, len(parts.whole)),
            submission=judged,
            settings=_settings(spec, {name: reader.last_event(f"worker_{name}") for name in ("target", "reference")}),
        )


def _not_tested_because(id_: str, status: Status, ids: Ints, examples: int) -> str:
    """Return why a run is not tested. The examples that a stopped run has not attacked are no misses of its attack."""
    attacked = np.unique(ids[ids < examples]).size
    if not attacked:
        return f"{id_} has no guesses, so it is not tested."
    if status.is_complete or (status.is_over and attacked == examples):
        return ""
    return f"{id_} is {status.words} and has attacked {attacked:,} of {examples:,} examples, so it is not tested."


def recall_after(seconds: float, history: Sequence[tuple[float, float]], reached: float) -> float | None:
    """Return the recall after `seconds`, or None if the run has not come so far.

    `history` has pairs of seconds spent and recall, ascending from 0 s; `reached` is the time that the run has spent,
    infinite if it is over.
    """
    if seconds > reached:
        return None
    return [recall for spent, recall in history if spent <= seconds][-1]


def _settings(spec: AttackSpec, reported: Mapping[str, dict[str, Any] | None]) -> dict[str, Any]:
    """Return the settings of a run by name.

    What the worker `reported` of the target and the reference model overrides what was requested.
    """
    groups = {
        "attack": spec.attack.model_dump(include={"name", "sha256", "guesses_per_example"}),
        "params": spec.params,
        "sha256": {name: record.sha256 for name, record in spec.paths.items()},
        "target": _model_settings(spec.target, reported["target"]),
        "reference": _model_settings(spec.reference, reported["reference"]),
        "versions": spec.versions,
        "hardware": spec.hardware,
    }
    by_name = {f"{group}.{name}": value for group, values in groups.items() for name, value in values.items()}
    options = spec.request.model_dump(mode="json", exclude={*RESOLVED, "group", "share_device"}, exclude_defaults=True)
    return {"seed": spec.seed, "budget_s": spec.budget} | options | by_name


def _model_settings(model: TargetRecord | None, reported: dict[str, Any] | None) -> dict[str, Any]:
    requested = {} if model is None else model.model_dump(mode="json", exclude={"path", "adapter", "bytes"})
    return requested | {name: value for name, value in (reported or {}).items() if name in _REPORTED_BY_WORKER}


def _differing(settings: Sequence[dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    names = dict.fromkeys(name for run_settings in settings for name in run_settings)
    by_name = {name: tuple(run_settings.get(name) for run_settings in settings) for name in names}
    return {name: values for name, values in by_name.items() if any(value != values[0] for value in values)}
