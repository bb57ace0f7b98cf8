"""Read what a sweep has found so far: a row per setting, and differences from the baseline.

A sweep may still go on, and any of its runs may be missing or damaged. Whatever can be said without these runs is said.
"""

import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from harness.analysis.comparison import require_one_round
from harness.analysis.parts import attacked_parts
from harness.analysis.sweep_differences import Paired, SettingDifference, Submissions, correct, pair_with_baseline
from harness.core.errors import HarnessError
from harness.core.examples import load_answers
from harness.core.inputs import as_harness_error
from harness.core.intervals import JudgedRows
from harness.core.multiple_comparisons import ALPHA, replicates_for
from harness.core.scoring import correct_rows
from harness.core.text import pluralize
from harness.runs.attack_record import submission_now
from harness.runs.folder import RunFolder
from harness.runs.summary import RunSummary, run_summary
from harness.sweeps.file import SweptRun
from harness.sweeps.record import Sweep, nodes_of_runs, setting_named

Place = tuple[str, str | None]
"""A round and a target, as the sweep names them. Only settings with the same place are compared."""
NOT_STARTED = "not started"
ON_NODE = "given to a node"
UNREADABLE = "unreadable"


class ReadRun(NamedTuple):
    """A run of a sweep."""

    run: SweptRun
    summary: RunSummary | None
    """None if it has not started or cannot be read."""
    state: str
    """Its status in words."""

    @property
    def is_counted(self) -> bool:
        """True if the run is finished, so that its results count."""
        return self.summary is not None and self.summary.status.is_complete


@dataclass(frozen=True)
class SettingRow:
    """The runs of one setting on one round and target, which differ in their seeds; all means are over finished runs.

    Without a finished run, means are None.
    """

    place: Place
    round: str
    """Name of the round."""
    setting: str
    """Name of the setting: the attack and its parameters."""
    runs: tuple[ReadRun, ...]
    unfinished: dict[str, int]
    """The number of runs that are not finished by their state."""
    is_blind: bool
    """True if the round has no answers."""
    error_cap: int | None
    """Number of wrong rows at which scoring stops."""
    recall_at_cap: float | None
    """Mean recall at the error cap. Null in a blind round, as are the next two values."""
    lowest_recall: float | None
    """Lowest recall of a run."""
    highest_recall: float | None
    """Highest recall of a run."""
    exact_at_1: float | None
    """Mean share of examples whose first row is correct."""
    any_guess_correct: float | None
    """Mean share of examples with any correct guess."""
    guesses: float | None
    """Mean number of guesses."""
    elapsed_s: float | None
    """Mean time spent."""

    @property
    def target(self) -> str | None:
        """Target. Null for the target of the round."""
        return self.place[1]

    @property
    def finished(self) -> tuple[ReadRun, ...]:
        """The finished runs, in the order of the sweep."""
        return tuple(run for run in self.runs if run.is_counted)

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object.

        Keys:
            round, setting
            runs (object[]): Runs of the setting, one per seed.
                id (string): Id of the run.
                seed (number): Seed of the run.
                status (string): Status in words.
            is_blind, error_cap, recall_at_cap, lowest_recall, highest_recall, exact_at_1, any_guess_correct
            guesses, elapsed_s, target
            attack (string): Name of the attack.
            params (object): Values of the parameters, as text.
            finished (number): Finished runs.
        """
        first = self.runs[0].run
        return {
            **{name: value for name, value in vars(self).items() if name not in ("place", "unfinished")},
            "target": self.target,
            "attack": first.attack,
            "params": first.params,
            "runs": [{"id": run.run.run, "seed": run.run.seed, "status": run.state} for run in self.runs],
            "finished": len(self.finished),
        }


@dataclass(frozen=True)
class SweepResults:
    """The results of a sweep so far."""

    sweep: Sweep
    rows: tuple[SettingRow, ...]
    """The settings by round and target: those whose runs are all finished first, by mean recall."""
    baseline: str | None
    """The setting that differences are from, None if none is named."""
    differences: tuple[SettingDifference, ...]
    replicates: int
    """The number of bootstrap replicates."""
    notes: tuple[str, ...]
    """Sentences that say what is missing and why."""

    @property
    def finished(self) -> int:
        """The number of finished runs."""
        return sum(len(row.finished) for row in self.rows)

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object.

        Keys:
            id (string): Id of the sweep.
            created_at (number): Time of creation, in seconds since the epoch.
            runs (number): Runs of the sweep.
            finished (number): Finished runs, which count in the results.
            baseline (string?): Setting that the others are compared with.
            rows (SettingRow[]): One per round, target and setting. Settings whose runs are all finished come first, by
                mean recall. Means are over finished runs, and null without one.
            differences (SettingDifference[]): One per setting other than the baseline.
            error_rate (number): Chance of any false `is_different` in the sweep: 0.05.
            replicates (number): Bootstrap replicates. 0 without a baseline.
            notes (string[]): Sentences about missing runs and differences.
        """
        return {
            "id": self.sweep.id,
            "created_at": self.sweep.created_at,
            "runs": len(self.sweep.runs),
            "finished": self.finished,
            "baseline": self.baseline,
            "rows": [row.as_json() for row in self.rows],
            "differences": [difference.as_json() for difference in self.differences],
            "error_rate": ALPHA,
            "replicates": self.replicates,
            "notes": list(self.notes),
        }


def sweep_results(sweep: Sweep, *, baseline: str | None = None) -> SweepResults:
    """Return the results of a sweep so far. `baseline` replaces that of the sweep.

    Raises UsageError if the baseline is no setting of the sweep, or the beginning of several.
    """
    name = sweep.baseline if baseline is None else baseline
    setting = None if name is None else setting_named(name, sweep.runs)
    nodes = nodes_of_runs(sweep.journal)
    runs = [_read_run(run, is_on_node=run.run in nodes) for run in sweep.runs]
    rows = _rows(runs)
    notes = _missing(runs)
    pairs: list[tuple[str, str | None, list[Paired]]] = []
    replicates = 0
    if setting is None:
        notes.append("no differences: the sweep has no baseline. Name one with --baseline SETTING.")
    else:
        replicates = replicates_for(sum(row.setting != setting for row in rows))
        for of_place in rows_by_place(rows):
            first = of_place[0]
            try:
                pairs.append((first.round, first.target, _pair(of_place, setting, replicates)))
            except HarnessError as error:
                notes.append(f"no differences on {place_name(first)}: {error}")
    return SweepResults(
        sweep=sweep,
        rows=tuple(rows),
        baseline=setting,
        differences=tuple(correct(pairs)),
        replicates=replicates,
        notes=tuple(notes),
    )


def rows_by_place(rows: Sequence[SettingRow]) -> list[list[SettingRow]]:
    """Return the rows of each round and target, which follow each other."""
    return [list(of_place) for _, of_place in groupby(rows, key=lambda row: row.place)]


def place_name(place: SettingRow | SettingDifference) -> str:
    """Return the round of a row or a difference, with the target if the sweep names it."""
    return f"round {place.round}" + ("" if place.target is None else f", target {place.target}")


def judged_rows(run: ReadRun) -> JudgedRows:
    """Return the submission of a finished run. Raises HarnessError if it or the answers cannot be read."""
    folder = RunFolder.of(run.run.run)
    spec = folder.attack_spec()
    answers = load_answers(spec.round)
    if answers is None:
        raise HarnessError(f"round {spec.round.name} is blind. Score each run: `harness score RUN --answers NPY`.")
    with as_harness_error(folder.path):
        submission = submission_now(folder)
        return JudgedRows(correct_rows(submission.ids, submission.suffixes, answers), submission.ids)


def _read_run(run: SweptRun, *, is_on_node: bool) -> ReadRun:
    """Read a run; is_on_node: a node of a cluster has begun it."""
    folder = RunFolder.of(run.run)
    try:
        if not folder.spec_file.is_file():
            return ReadRun(run, None, ON_NODE if is_on_node else NOT_STARTED)
        summary = run_summary(folder)
    except HarnessError:
        return ReadRun(run, None, UNREADABLE)
    return ReadRun(run, summary, summary.status.words)


def _rows(runs: Sequence[ReadRun]) -> list[SettingRow]:
    """Return the rows by round and target: those whose runs are all finished first, the highest mean recall first.

    A run that crashed may have been a hard one, so the mean of the others is not compared with a mean of all.
    """
    names = _round_names(runs)
    grouped: defaultdict[tuple[Place, str], list[ReadRun]] = defaultdict(list)
    for run in runs:
        grouped[(run.run.round, run.run.target), run.run.setting].append(run)
    rows = [_row(place, names[place[0]], setting, seeds) for (place, setting), seeds in grouped.items()]
    places = list(dict.fromkeys(row.place for row in rows))

    def rank(row: SettingRow) -> tuple[int, bool, float, bool]:
        recall = row.recall_at_cap
        return places.index(row.place), bool(row.unfinished), -(recall or 0), recall is None

    return sorted(rows, key=rank)


def _round_names(runs: Sequence[ReadRun]) -> dict[str, str]:
    """Return the name of each round of the sweep by how the sweep names it: its own, unless several have the same."""
    names: dict[str, str] = {}
    for run in runs:
        path = Path(run.run.round)
        names.setdefault(run.run.round, path.stem if path.suffix == ".toml" else run.run.round)
        if run.summary is not None:
            names[run.run.round] = run.summary.round
    shared = Counter(names.values())
    return {full_name: name if shared[name] == 1 else full_name for full_name, name in names.items()}


def _row(place: Place, round_name: str, setting: str, runs: Sequence[ReadRun]) -> SettingRow:
    summaries = [run.summary for run in runs if run.summary is not None]
    counted = [run.summary for run in runs if run.is_counted and run.summary is not None]
    recalls = [summary.recall_at_cap for summary in counted if summary.recall_at_cap is not None]
    return SettingRow(
        place=place,
        round=round_name,
        setting=setting,
        runs=tuple(runs),
        unfinished=dict(Counter(run.state for run in runs if not run.is_counted)),
        is_blind=any(summary.is_blind for summary in summaries),
        error_cap=summaries[0].error_cap if summaries else None,
        recall_at_cap=_mean(recalls),
        lowest_recall=min(recalls, default=None),
        highest_recall=max(recalls, default=None),
        exact_at_1=_mean([summary.exact_at_1 for summary in counted]),
        any_guess_correct=_mean([summary.any_guess_correct for summary in counted]),
        guesses=_mean([float(summary.guesses) for summary in counted]),
        elapsed_s=_mean([summary.elapsed_s for summary in counted]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return statistics.fmean(numbers) if numbers else None


def _missing(runs: Sequence[ReadRun]) -> list[str]:
    """Return a sentence about the runs that are not finished, or none."""
    states = Counter(run.state for run in runs if not run.is_counted)
    if not states:
        return []
    listed = ", ".join(f"{count:,} {state}" for state, count in states.most_common())
    return [f"{pluralize(states.total(), 'run')} of {len(runs):,} not finished: {listed}. The results are partial."]


def _pair(rows: Sequence[SettingRow], baseline: str, replicates: int) -> list[Paired]:
    """Return the differences of the settings of one place. Raises HarnessError if they cannot be computed."""
    reference = next((row for row in rows if row.setting == baseline), None)
    if reference is None:
        raise HarnessError(f"the baseline {baseline} has no run of this round and target. Choose another --baseline.")
    if not reference.finished:
        raise HarnessError(f"no run of the baseline {baseline} is finished yet. Wait, or choose another --baseline.")
    specs = [RunFolder.of(run.run.run).attack_spec() for row in rows for run in row.finished]
    require_one_round(specs)
    part = attacked_parts(specs[0]).whole
    submissions: Submissions = {
        row.setting: {run.run.seed: judged_rows(run) for run in row.finished} for row in rows if row.finished
    }
    return pair_with_baseline(part, submissions, baseline, replicates=replicates)
