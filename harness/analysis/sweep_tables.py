"""The curves and the tables of a sweep."""

from collections.abc import Sequence

import numpy as np

from harness.analysis.comparison_tables import Table
from harness.analysis.parts import Part
from harness.analysis.replay import TimedRecall, evenly_spaced, recall_history
from harness.analysis.sweep_results import ReadRun, SettingRow, SweepResults, place_name, rows_by_place
from harness.core.errors import HarnessError
from harness.core.examples import load_answers
from harness.core.inputs import as_harness_error
from harness.core.intervals import Unit
from harness.core.text import NO_VALUE, format_interval, format_number, format_p_value, format_score, pluralize
from harness.core.times import format_duration
from harness.runs.folder import RunFolder
from harness.runs.guess_reader import GuessReader

_MAX_POINTS = 120
NOT_RESOLVABLE = "not resolvable"
_MAX_SEEDS = 5


def recall_over_time(rows: Sequence[SettingRow]) -> list[tuple[str, list[TimedRecall]]]:
    """Return each setting of one round and target with its recall over time; settings that cannot be read are left out.

    The recall is the mean over the finished runs, each of which keeps its last recall after its end.
    """
    curves = []
    for row in rows:
        if row.recall_at_cap is None:
            continue
        try:
            histories = [_history(run) for run in row.finished]
        except HarnessError:
            continue
        curves.append((row.setting, _mean(histories)))
    return curves


def _history(run: ReadRun) -> list[TimedRecall]:
    folder = RunFolder.of(run.run.run)
    spec = folder.attack_spec()
    answers, summary = load_answers(spec.round), run.summary
    if answers is None or summary is None or summary.recall_at_cap is None:
        raise HarnessError(f"{folder.id} has no recall.")
    part = Part.whole(spec.examples, cap=spec.error_cap)
    with as_harness_error(folder.path), GuessReader.of_run(folder, spec) as reader:
        history = recall_history(part, spec=spec, reader=reader, answers=answers)
    return [*history, TimedRecall(min(summary.elapsed_s, summary.budget_s), summary.recall_at_cap)]


def _mean(histories: Sequence[Sequence[TimedRecall]]) -> list[TimedRecall]:
    moments = evenly_spaced(sorted({point.spent for history in histories for point in history}), _MAX_POINTS)
    recalls = np.zeros(len(moments))
    for history in histories:
        spent, recall = np.array(history, np.float64).T
        recalls += recall[np.searchsorted(spent, moments, side="right") - 1]
    return [TimedRecall(moment, float(value)) for moment, value in zip(moments, recalls / len(histories), strict=True)]


def places(results: SweepResults) -> list[tuple[str, list[SettingRow]]]:
    """Return each round and target by its name, with its rows."""
    return [(place_name(rows[0]), rows) for rows in rows_by_place(results.rows)]


def settings_table(rows: Sequence[SettingRow]) -> Table:
    """Return a header row and one row per setting of one round and target."""
    cap = next((row.error_cap for row in rows if row.error_cap), None)
    recall = "recall" if cap is None else f"Recall@{cap:,}"
    header = (
        "setting",
        "runs",
        recall,
        "lowest to highest",
        "exact@1",
        "any guess correct",
        "guesses",
        "time",
        "not finished",
    )
    return [header, *map(_setting_row, rows)]


def _setting_row(row: SettingRow) -> tuple[str, ...]:
    spread = NO_VALUE
    if row.lowest_recall is not None and row.highest_recall is not None and len(row.finished) > 1:
        spread = f"{format_score(row.lowest_recall)} to {format_score(row.highest_recall)}"
    return (
        row.setting,
        f"{len(row.finished)}/{len(row.runs)}",
        "blind" if row.is_blind and row.recall_at_cap is None else format_score(row.recall_at_cap),
        spread,
        format_score(row.exact_at_1),
        format_score(row.any_guess_correct),
        NO_VALUE if row.guesses is None else format_number(round(row.guesses)),
        NO_VALUE if row.elapsed_s is None else format_duration(row.elapsed_s),
        ", ".join(f"{count} {state}" for state, count in row.unfinished.items()),
    )


def differences_heading(results: SweepResults) -> str:
    """Return the heading of `differences_table`; empty if there are no differences."""
    if not results.differences:
        return ""
    units = sorted({str(difference.interval_unit) for difference in results.differences})
    return (
        f"difference from {results.baseline}, {pluralize(len(results.differences), 'comparison')}, "
        f"bootstrap by {' or '.join(units)}"
    )


def differences_table(results: SweepResults) -> Table:
    """Return a header row and one row per comparison, or [] if there is none."""
    if not results.differences:
        return []
    many = len(places(results)) > 1
    header = ("setting", "seeds", "difference", "interval", "level", "p", "p (Holm)")
    rows = [
        (
            *((place_name(difference),) if many else ()),
            difference.setting,
            _seeds(difference.seeds),
            format_score(difference.difference, is_signed=True),
            _interval(difference.interval),
            f"{100 * difference.interval_level:.2f} %",
            _p(difference.p),
            _p(difference.holm_p),
            "different" if difference.is_different else "",
        )
        for difference in results.differences
    ]
    return [(*(("round",) if many else ()), *header, ""), *rows]


def differences_note(results: SweepResults) -> str:
    """Return how to read `differences_table`."""
    draws_clusters = any(difference.interval_unit is Unit.CLUSTER for difference in results.differences)
    unit = "independent clusters" if draws_clusters else "examples"
    return (
        f"The same examples and seeds; {results.replicates:,} replicates draw {unit}, the seeds are fixed. An interval "
        f"excludes 0 exactly if p (Holm) is at most 0.05; the chance of any such interval without a true difference is "
        f"at most 5 % for the whole sweep."
    )


def _interval(interval: tuple[float, float] | None) -> str:
    return NOT_RESOLVABLE if interval is None else format_interval(*interval, is_signed=True)


def _seeds(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds)) if len(seeds) <= _MAX_SEEDS else f"{len(seeds):,} seeds"


def _p(p: float) -> str:
    return format_p_value(p).removeprefix("p ").removeprefix("= ")
