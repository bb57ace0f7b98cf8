"""Read what a sweep has found so far: a row per setting, differences from the baseline, importance of the factors.

A sweep may still go on, and any of its runs may be missing or damaged. Whatever can be said without these runs is said.
"""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from harness.analysis.comparison import require_one_round
from harness.analysis.parts import attacked_parts
from harness.analysis.sweep_differences import (
    Importance,
    Observation,
    Paired,
    SettingDifference,
    Submissions,
    corrected,
    importances,
    pair_with_baseline,
)
from harness.core.errors import HarnessError
from harness.core.examples import load_answers
from harness.core.intervals import JudgedRows
from harness.core.multiple_comparisons import ALPHA, replicates_for
from harness.core.scoring import correct_rows
from harness.core.text import pluralize
from harness.runs.attack_record import submission_now
from harness.runs.errors import as_harness_error
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
    """A run of a sweep. summary: None if it has not started or cannot be read. state: its status in words."""

    run: SweptRun
    summary: RunSummary | None
    state: str

    @property
    def is_counted(self) -> bool:
        """True if the run is finished, so that its results count."""
        return self.summary is not None and self.summary.status.is_complete


@dataclass(frozen=True)
class SettingRow:
    """The runs of one setting on one round and target, which differ in their seeds; all means are over finished runs.

    recall, lowest, highest: mean, minimum and maximum of Recall at `error_cap`; None without a finished run, and in a
    blind round. exact_at_1, any_guess_correct: means. guesses, elapsed_s: means per run, None without a finished run.
    unfinished: number of the other runs by their state.
    """

    place: Place
    round_name: str
    setting: str
    runs: tuple[ReadRun, ...]
    is_blind: bool
    error_cap: int | None
    recall: float | None
    lowest: float | None
    highest: float | None
    exact_at_1: float | None
    any_guess_correct: float | None
    guesses: float | None
    elapsed_s: float | None
    unfinished: dict[str, int]

    @property
    def finished(self) -> tuple[ReadRun, ...]:
        """The finished runs, in the order of the sweep."""
        return tuple(run for run in self.runs if run.is_counted)

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        first = self.runs[0].run
        return {
            "round": self.round_name,
            "target": self.place[1],
            "setting": self.setting,
            "attack": first.attack,
            "params": first.params,
            "runs": [{"id": one.run.run, "seed": one.run.seed, "status": one.state} for one in self.runs],
            "finished": len(self.finished),
            "is_blind": self.is_blind,
            "error_cap": self.error_cap,
            "recall_at_cap": self.recall,
            "lowest_recall": self.lowest,
            "highest_recall": self.highest,
            "exact_at_1": self.exact_at_1,
            "any_guess_correct": self.any_guess_correct,
            "guesses": self.guesses,
            "elapsed_s": self.elapsed_s,
        }


@dataclass(frozen=True)
class SweepResults:
    """The results of a sweep so far.

    rows: by round and target, the highest mean recall first. baseline: the setting that differences are from, None if
    none is named. replicates: of the bootstrap. notes: what is missing and why, as sentences.
    """

    sweep: Sweep
    rows: tuple[SettingRow, ...]
    baseline: str | None
    differences: tuple[SettingDifference, ...]
    replicates: int
    importances: tuple[Importance, ...]
    notes: tuple[str, ...]

    @property
    def finished(self) -> int:
        """The number of finished runs."""
        return sum(len(row.finished) for row in self.rows)

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return {
            "id": self.sweep.id,
            "created_at": self.sweep.created_at,
            "runs": len(self.sweep.runs),
            "finished": self.finished,
            "baseline": self.baseline,
            "rows": [row.as_json() for row in self.rows],
            "differences": [one.as_json() for one in self.differences],
            "error_rate": ALPHA,
            "replicates": self.replicates,
            "importance": [one.as_json() for one in self.importances],
            "notes": list(self.notes),
        }


def sweep_results(sweep: Sweep, *, baseline: str | None = None) -> SweepResults:
    """Return what a sweep has found so far. `baseline` replaces that of the sweep.

    Raises UsageError if the baseline is no setting of the sweep, or the beginning of several.
    """
    named = sweep.baseline if baseline is None else baseline
    setting = None if named is None else setting_named(named, sweep.runs)
    given = nodes_of_runs(sweep.journal)
    runs = [_read_run(run, given) for run in sweep.runs]
    rows = _rows(runs)
    notes = _missing(runs)
    pairs: list[tuple[Place, list[Paired]]] = []
    replicates = 0
    if setting is None:
        notes.append("no differences: the sweep has no baseline. Name one with --baseline SETTING.")
    else:
        places = list(dict.fromkeys(row.place for row in rows))
        replicates = replicates_for(sum(row.setting != setting for row in rows))
        for place in places:
            here = [row for row in rows if row.place == place]
            try:
                pairs.append((place, _pair(here, setting, replicates)))
            except HarnessError as error:
                notes.append(f"no differences on {place_name(here[0])}: {error}")
    names = {row.place: row.round_name for row in rows}
    return SweepResults(
        sweep=sweep,
        rows=tuple(rows),
        baseline=setting,
        differences=tuple(corrected([(names[place], place[1], some) for place, some in pairs])),
        replicates=replicates,
        importances=tuple(importances(_observations(rows))),
        notes=tuple(notes),
    )


def place_name(row: SettingRow) -> str:
    """Return the round of a row, with the target if the sweep names it."""
    return f"round {row.round_name}" + ("" if row.place[1] is None else f", target {row.place[1]}")


def judged_rows(run: ReadRun) -> JudgedRows:
    """Return the submission of a finished run. Raises HarnessError if it or the answers cannot be read."""
    folder = RunFolder.of(run.run.run)
    spec = folder.attack_spec()
    answers = load_answers(spec.round)
    if answers is None:
        raise HarnessError(f"round {spec.round.name} is blind: there are no answers to compare with.")
    with as_harness_error(folder.path):
        submission = submission_now(folder)
        return JudgedRows(correct_rows(submission.ids, submission.suffixes, answers), submission.ids)


def _read_run(run: SweptRun, given: Mapping[str, str]) -> ReadRun:
    """Read a run; `given` has the runs that nodes of a cluster have begun."""
    folder = RunFolder.of(run.run)
    try:
        if not folder.spec_file.is_file():
            return ReadRun(run, None, ON_NODE if run.run in given else NOT_STARTED)
        summary = run_summary(folder)
    except HarnessError:
        return ReadRun(run, None, UNREADABLE)
    return ReadRun(run, summary, summary.status.words)


def _rows(runs: Sequence[ReadRun]) -> list[SettingRow]:
    grouped: dict[Place, dict[str, list[ReadRun]]] = {}
    for run in runs:
        by_setting = grouped.setdefault((run.run.round, run.run.target), {})
        by_setting.setdefault(run.run.setting, []).append(run)
    names = _round_names(runs)
    rows = []
    for place, by_setting in grouped.items():
        here = [_row(place, names[place[0]], setting, some) for setting, some in by_setting.items()]
        rows += sorted(here, key=lambda row: -1.0 if row.recall is None else row.recall, reverse=True)
    return rows


def _round_names(runs: Sequence[ReadRun]) -> dict[str, str]:
    """Return the name of each round of the sweep by how the sweep names it: its own, unless several have the same."""
    names: dict[str, str] = {}
    for run in runs:
        path = Path(run.run.round)
        names.setdefault(run.run.round, path.stem if path.suffix == ".toml" else run.run.round)
        if run.summary is not None:
            names[run.run.round] = run.summary.round
    shared = Counter(names.values())
    return {given: name if shared[name] == 1 else given for given, name in names.items()}


def _row(place: Place, round_name: str, setting: str, runs: Sequence[ReadRun]) -> SettingRow:
    known = [run.summary for run in runs if run.summary is not None]
    counted = [run.summary for run in runs if run.is_counted and run.summary is not None]
    recalls = [one.recall_at_cap for one in counted if one.recall_at_cap is not None]
    return SettingRow(
        place=place,
        round_name=round_name,
        setting=setting,
        runs=tuple(runs),
        is_blind=any(one.is_blind for one in known),
        error_cap=known[0].error_cap if known else None,
        recall=_mean(recalls),
        lowest=min(recalls, default=None),
        highest=max(recalls, default=None),
        exact_at_1=_mean([one.exact_at_1 for one in counted]),
        any_guess_correct=_mean([one.any_guess_correct for one in counted]),
        guesses=_mean([float(one.guesses) for one in counted]),
        elapsed_s=_mean([one.elapsed_s for one in counted]),
        unfinished=dict(Counter(run.state for run in runs if not run.is_counted)),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _missing(runs: Sequence[ReadRun]) -> list[str]:
    """Return a sentence about the runs that are not finished, or none."""
    states = Counter(run.state for run in runs if not run.is_counted)
    if not states:
        return []
    listed = ", ".join(f"{count:,} {state}" for state, count in states.most_common())
    return [f"{pluralize(states.total(), 'run')} of {len(runs):,} not finished: {listed}. The results are partial."]


def _pair(rows: Sequence[SettingRow], baseline: str, replicates: int) -> list[Paired]:
    """Return the differences of the settings of one place. Raises HarnessError if they cannot be computed."""
    own = [row for row in rows if row.setting == baseline]
    if not own:
        raise HarnessError(f"the baseline {baseline} has no run there.")
    if not own[0].finished:
        raise HarnessError(f"no run of the baseline {baseline} is finished yet.")
    specs = [RunFolder.of(run.run.run).attack_spec() for row in rows for run in row.finished]
    require_one_round(specs)
    part = attacked_parts(specs[0]).whole
    submissions: Submissions = {
        row.setting: {run.run.seed: judged_rows(run) for run in row.finished} for row in rows if row.finished
    }
    return pair_with_baseline(part, submissions, baseline, replicates=replicates)


def _observations(rows: Sequence[SettingRow]) -> list[Observation]:
    """Return the finished runs with a recall, seed by seed."""
    found = []
    for row in rows:
        for run in row.finished:
            if run.summary is not None and run.summary.recall_at_cap is not None:
                asked = run.run
                conditions = {
                    "round": row.round_name,
                    "target": row.place[1] or "of the round",
                    "seed": str(asked.seed),
                }
                found.append(Observation(run.summary.recall_at_cap, asked.attack, asked.params, conditions))
    return sorted(found, key=lambda one: int(one.conditions["seed"]))
