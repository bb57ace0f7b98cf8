"""Runs of one round side by side: scores, pace, and what was set differently; a pair also example by example."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from harness.analysis.replay import recall_after_guesses
from harness.core.arrays import Tokens
from harness.core.comparison import Contrast, Part, contrast
from harness.core.errors import HarnessError
from harness.core.examples import load_answers, load_clusters
from harness.core.intervals import Walk
from harness.core.overlap import overlap
from harness.core.rounds import FILE_FIELDS
from harness.core.scoring import Score, correct_rows, log_spaced
from harness.core.text import display_name
from harness.jobs.attack.reader import GuessReader
from harness.jobs.attack.results import submission_of
from harness.jobs.attack.spec import AttackSpec
from harness.runs.errors import as_harness_error
from harness.runs.folder import RunFolder
from harness.runs.reader import Point
from harness.runs.status import Status
from harness.runs.summary import run_status

BUDGET_SHARES = (0.01, 0.1, 1.0)
_MOST_POINTS = 200
_REPLAYED = 40
_NO_RULES = {"source", "title", "budget", "target", "revision", *FILE_FIELDS}
_TOLD_OF_TARGET = ("device", "device_name", "dtype", "threads", "rows_at_once")


class TimedRecall(NamedTuple):
    """Recall at the cap when `spent` seconds of the budget were spent."""

    spent: float
    recall: float


@dataclass(frozen=True)
class ComparedRun:
    """One of the runs. suffixes_per_s: draws of the batches that are done over elapsed time, None before any was spent.

    unreachable: the score on the part of the round that its training rows do not give away, None where there is no such
    part. recall_over_time: the running curve from 0 s on and, of a run that is over, its end; what came while the
    round was blind is left out. recall_at_shares: after each of BUDGET_SHARES of its budget, None where the run has not
    come so far, or the round was blind then. unreachable_over_time, unreachable_at_shares: the same on that part, as
    the guesses replayed give it.
    """

    id: str
    attack: str
    is_control: bool
    status: Status
    elapsed_s: float
    budget_s: float
    guesses: int
    suffixes_per_s: float | None
    score: Score
    unreachable: Score | None
    recall_over_time: tuple[TimedRecall, ...]
    recall_at_shares: tuple[float | None, ...]
    unreachable_over_time: tuple[TimedRecall, ...] | None
    unreachable_at_shares: tuple[float | None, ...] | None

    @property
    def shown_attack(self) -> str:
        """The attack's name, and whether it is a control."""
        return display_name(self.attack, is_control=self.is_control)

    def as_json(self) -> dict[str, Any]:
        """The fields as JSON has them, curves thinned to 200 points."""
        part, in_time = self.unreachable_at_shares, self.unreachable_over_time
        return {
            "id": self.id,
            "attack": self.attack,
            "is_control": self.is_control,
            "status": str(self.status),
            "elapsed_s": self.elapsed_s,
            "budget_s": self.budget_s,
            "guesses": self.guesses,
            "suffixes_per_s": self.suffixes_per_s,
            "score": _score_as_json(self.score),
            "unreachable_score": None if self.unreachable is None else _score_as_json(self.unreachable),
            "recall_over_time": [point._asdict() for point in _thinned(self.recall_over_time)],
            "recall_at_budget": _shares_as_json(self.recall_at_shares),
            "unreachable_over_time": None if in_time is None else [point._asdict() for point in in_time],
            "unreachable_at_budget": None if part is None else _shares_as_json(part),
        }


@dataclass(frozen=True)
class Comparison:
    """Runs of one round. The contrasts, of the first run against the second, are None unless there are two runs.

    unreachable: the examples that the round's training rows do not give away, None for the reason that
    `no_unreachable_because` gives. differing: by name, what is not the same for all runs, each one's value or None.
    """

    round: str
    whole: Part
    unreachable: Part | None
    no_unreachable_because: str | None
    runs: tuple[ComparedRun, ...]
    contrast: Contrast | None
    unreachable_contrast: Contrast | None
    differing: dict[str, tuple[Any, ...]]

    def as_json(self) -> dict[str, Any]:
        """The fields as JSON has them."""
        part, pair, pair_on_part = self.unreachable, self.contrast, self.unreachable_contrast
        return {
            "round": self.round,
            "examples": len(self.whole),
            "cap": self.whole.cap,
            "unreachable_examples": None if part is None else len(part),
            "unreachable_cap": None if part is None else part.cap,
            "no_unreachable_because": self.no_unreachable_because,
            "runs": [run.as_json() for run in self.runs],
            "contrast": None if pair is None else pair.as_json(),
            "unreachable_contrast": None if pair_on_part is None else pair_on_part.as_json(),
            "differing": {name: list(values) for name, values in self.differing.items()},
        }


def compared(folders: Sequence[RunFolder]) -> Comparison:
    """Two or more runs of one round, as their records and the round's files are now.

    Raises HarnessError when the runs cannot be compared: fewer than two, one of them twice, other rounds, other data,
    other numbers of examples, a blind round; or when a record or a file cannot be read.
    """
    specs = [folder.spec() for folder in folders]
    _require_comparable(specs)
    rules = specs[0].round
    answers = load_answers(rules)
    if answers is None:
        raise HarnessError(f"round {rules.name} is blind: without answers there is nothing to compare.")
    with as_harness_error(f"round {rules.name}"):
        whole, unreachable, reason = _parts(specs[0])
    pairs, settings = [], []
    for folder, spec in zip(folders, specs, strict=True):
        with as_harness_error(folder.path):
            pairs.append(_compared_run(folder, spec, answers, whole, unreachable))
            settings.append(_settings(folder, spec))
    walks = [walk for _, walk in pairs]
    is_pair = len(walks) == 2
    return Comparison(
        round=rules.name,
        whole=whole,
        unreachable=unreachable,
        no_unreachable_because=reason,
        runs=tuple(run for run, _ in pairs),
        contrast=contrast(walks[0], walks[1], whole) if is_pair else None,
        unreachable_contrast=contrast(walks[0], walks[1], unreachable) if is_pair and unreachable is not None else None,
        differing=_differing(settings),
    )


def require_one_round(specs: Sequence[AttackSpec]) -> None:
    """Raise HarnessError unless the runs are different ones of one round on one set of data."""
    ids = [spec.id for spec in specs]
    for place, (id_, spec) in enumerate(zip(ids, specs, strict=True)):
        if id_ in ids[:place]:
            raise HarnessError(f"{id_} is named twice: a comparison takes different runs.")
        if spec.round.name != specs[0].round.name:
            raise HarnessError(
                f"{ids[0]} attacked round {specs[0].round.name} and {id_} round {spec.round.name}: "
                "only runs of one round can be compared."
            )
        if other := _other_data(specs[0], spec):
            raise HarnessError(
                f"{ids[0]} and {id_} attacked rounds that are both called {spec.round.name} and differ in "
                f"{', '.join(other)}: only runs of one round can be compared."
            )


def _require_comparable(specs: Sequence[AttackSpec]) -> None:
    if len(specs) < 2:
        raise HarnessError("a comparison takes two runs or more; harness runs lists them.")
    require_one_round(specs)
    for spec in specs:
        if spec.examples != specs[0].examples:
            raise HarnessError(
                f"{specs[0].id} attacked {specs[0].examples:,} examples and {spec.id} {spec.examples:,}: "
                "only runs with the same --limit can be compared."
            )


def _other_data(first: AttackSpec, second: AttackSpec) -> list[str]:
    """Fields of the round in which the two differ, files by what they hold where both runs have a record of that."""
    files = [field for field in FILE_FIELDS if _differ(_sha256(first, field), _sha256(second, field))]
    rules, others = (spec.round.model_dump(exclude=_NO_RULES) for spec in (first, second))
    return files + [field for field, value in rules.items() if value != others[field]]


def _sha256(spec: AttackSpec, field: str) -> str | None:
    return spec.data_sha256.get(str(getattr(spec.round, field)))


def _differ(first: str | None, second: str | None) -> bool:
    return first is not None and second is not None and first != second


def _parts(spec: AttackSpec) -> tuple[Part, Part | None, str | None]:
    """The attacked examples, those that cannot be reached from training rows, and why there are none of the latter."""
    attacked = slice(0, spec.examples)
    try:
        found = overlap(spec.round)
    except HarnessError as error:
        clusters = load_clusters(spec.round)
        clusters = None if clusters is None else clusters[attacked]
        return Part.whole(spec.examples, cap=spec.error_cap, clusters=clusters), None, str(error)
    assert found.is_reachable is not None  # answers are known
    clusters = None if found.clusters is None else found.clusters[attacked]
    whole = Part.whole(spec.examples, cap=spec.error_cap, clusters=clusters)
    unreachable = whole.where(~found.is_reachable[attacked])
    if len(unreachable) == 0:
        return whole, None, "the training rows give every answer away."
    return whole, unreachable, None


class _Course(NamedTuple):
    """What a run came to on some examples, and how: fields as in ComparedRun."""

    score: Score
    recall_over_time: tuple[TimedRecall, ...]
    recall_at_shares: tuple[float | None, ...]


def _compared_run(
    folder: RunFolder, spec: AttackSpec, answers: Tokens, whole: Part, unreachable: Part | None
) -> tuple[ComparedRun, Walk]:
    # Status before submission: what is over when looked at has its last guess when read.
    status = run_status(folder)
    with GuessReader.of_run(folder, spec) as reader:
        submission = submission_of(spec, reader)
        ledger, done, guesses = reader.last_ledger(), reader.progress().done, reader.guess_count()
        points = reader.points()
        replayed = [] if unreachable is None else _replayed(points, unreachable, spec, reader, answers)
    elapsed = 0.0 if ledger is None else ledger.spent
    walk = Walk(correct_rows(submission.ids, submission.suffixes, answers), submission.ids)
    course = partial(_course, walk=walk, elapsed=elapsed, budget=spec.budget, is_over=status.is_over)
    on_all = course(whole, [(point.spent, point.recall) for point in points])
    on_part = None if unreachable is None else course(unreachable, replayed)
    run = ComparedRun(
        id=folder.id,
        attack=spec.attack.name,
        is_control=spec.attack.control,
        status=status,
        elapsed_s=round(elapsed, 3),
        budget_s=spec.budget,
        guesses=guesses,
        suffixes_per_s=done / elapsed if elapsed else None,
        score=on_all.score,
        unreachable=None if on_part is None else on_part.score,
        recall_over_time=on_all.recall_over_time,
        recall_at_shares=on_all.recall_at_shares,
        unreachable_over_time=None if on_part is None else on_part.recall_over_time,
        unreachable_at_shares=None if on_part is None else on_part.recall_at_shares,
    )
    return run, walk


def _course(
    part: Part,
    points: Sequence[tuple[float, float | None]],
    *,
    walk: Walk,
    elapsed: float,
    budget: float,
    is_over: bool,
) -> _Course:
    """`walk` on `part`, where the recalls of `points` (None: blind) stood from the times, in seconds, beside them."""
    score = part.score(walk)
    stood = [(0.0, 0.0), *points]
    if is_over:
        # What came after the budget's end does not count, so the submission stood then.
        stood.append((min(elapsed, budget), score.recall_at_cap))
    reached = math.inf if is_over else elapsed
    at_shares = tuple(recall_after(share * budget, stood, reached) for share in BUDGET_SHARES)
    return _Course(score, _known_to_the_end(stood), at_shares)


def _replayed(
    points: Sequence[Point], part: Part, spec: AttackSpec, reader: GuessReader, answers: Tokens
) -> list[tuple[float, float]]:
    """The recall on `part` of the guesses so far, at some of the points of the running curve."""
    chosen = _chosen_points(points, spec.budget)
    counts = [point.guesses for point in chosen]
    recalls = recall_after_guesses(counts, part, spec=spec, reader=reader, answers=answers)
    return [(point.spent, recall) for point, recall in zip(chosen, recalls, strict=True)]


def _chosen_points(points: Sequence[Point], budget: float) -> list[Point]:
    """The points at which the unreachable part is looked at: some 40 of them, and the last before each budget share."""
    places = set(np.linspace(0, len(points) - 1, min(len(points), _REPLAYED)).round().astype(int).tolist())
    for share in BUDGET_SHARES:
        before = [place for place, point in enumerate(points) if point.spent <= share * budget]
        places |= set(before[-1:])
    return [points[place] for place in sorted(places)]


def _shares_as_json(recalls: Sequence[float | None]) -> list[dict[str, float | None]]:
    return [{"share": share, "recall": recall} for share, recall in zip(BUDGET_SHARES, recalls, strict=True)]


def recall_after(seconds: float, stood: Sequence[tuple[float, float | None]], reached: float) -> float | None:
    """The recall that stood when `seconds` were spent; None where the run is not so far, or the round was blind then.

    `stood` has the time at which each recall came (None: blind), from 0 s on; `reached` is the time that the run has
    come to, infinite when it is over.
    """
    if seconds > reached:
        return None
    return [recall for spent, recall in stood if spent <= seconds][-1]


def _known_to_the_end(stood: Sequence[tuple[float, float | None]]) -> tuple[TimedRecall, ...]:
    """The recalls since the round was last blind."""
    points: list[TimedRecall] = []
    for spent, recall in stood:
        if recall is None:
            points.clear()
        else:
            points.append(TimedRecall(spent, recall))
    return tuple(points)


def _settings(folder: RunFolder, spec: AttackSpec) -> dict[str, Any]:
    """By name, what was set or found for a run; of the target what the worker loaded, where it has told."""
    with GuessReader.of_run(folder, spec) as reader:
        told = reader.last_event("worker_target") or {}
    target = {} if spec.target is None else spec.target.model_dump(mode="json", exclude={"path", "bytes"})
    groups = {
        "attack": spec.attack.model_dump(include={"name", "sha256"}),
        "params": spec.params,
        "sha256": {name: record.sha256 for name, record in spec.paths.items()},
        "target": target | {name: told[name] for name in _TOLD_OF_TARGET if name in told},
        "versions": spec.versions,
        "hardware": spec.hardware,
    }
    named = {f"{group}.{name}": value for group, values in groups.items() for name, value in values.items()}
    return {"seed": spec.seed, "budget_s": spec.budget} | named


def _differing(settings: Sequence[dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    names = dict.fromkeys(name for known in settings for name in known)
    values = {name: tuple(known.get(name) for known in settings) for name in names}
    return {name: found for name, found in values.items() if any(value != found[0] for value in found)}


def _score_as_json(score: Score) -> dict[str, Any]:
    """The score with its curve: recall at so many errors, thinned evenly in their logarithm, the cap among them."""
    longest = len(score.curve)
    errors = np.union1d(log_spaced(longest, most=_MOST_POINTS - 1), min(score.cap, longest))
    curve = {"errors": errors.tolist(), "recall": (score.curve[errors - 1] / score.examples).tolist()}
    return score.as_json() | {"curve": curve}


def _thinned(points: Sequence[TimedRecall]) -> list[TimedRecall]:
    """At most 200 of the points, the first and the last among them."""
    places = np.linspace(0, len(points) - 1, min(len(points), _MOST_POINTS)).round().astype(np.int64)
    return [points[place] for place in places]
