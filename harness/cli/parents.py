"""Sweeps and tunings as commands show them: as tables or JSON."""

from typing import Any

from harness.analysis import sweep_tables as tables
from harness.analysis.comparison_tables import Table
from harness.analysis.sweep_results import SweepResults, sweep_results
from harness.cli.output import align_columns, print_json, sanitize, say, shorten_middle
from harness.core.text import format_score
from harness.sweeps.record import Sweep
from harness.sweeps.tuning import Setting, Tuning, best_of, runs_of, searched_space, settings_tried

_MAX_CELL = 60


def print_sweep(sweep: Sweep, *, baseline: str | None = None, json: bool) -> None:
    """Print what a sweep has found so far: recalls, differences from the baseline, and the importance of parameters."""
    results = sweep_results(sweep, baseline=baseline)
    if json:
        print_json(results.as_json())
        return
    print("\n\n".join(_sections(results)))
    for note in results.notes:
        say(sanitize(note))


def _sections(results: SweepResults) -> list[str]:
    sweep = results.sweep
    started = f"sweep {sweep.id}, {results.finished:,} of {len(sweep.runs):,} runs finished"
    sections = [started]
    sections += [_section(name, tables.settings_table(rows)) for name, rows in tables.places(results)]
    if results.differences:
        heading = tables.differences_heading(results)
        note = tables.differences_note(results)
        sections.append(f"{_section(heading, tables.differences_table(results))}\n{note}")
    sections += [
        _section(tables.importance_heading(shares), tables.importance_table(shares)) for shares in results.importances
    ]
    return sections


def _section(title: str, table: Table) -> str:
    rows = [[shorten_middle(sanitize(cell), _MAX_CELL) for cell in row] for row in table]
    return "\n".join(filter(None, (sanitize(title), align_columns(rows) if rows else "")))


def print_tuning(tuning: Tuning, *, json: bool) -> None:
    """Print the settings that a tuning has tried, with their recall on each fold.

    The searched parameters are those of the attack as it ran: each run has a copy of its source.
    """
    runs = runs_of(tuning.id)
    space = searched_space(tuning, runs)
    tried = settings_tried(space, runs)
    best = best_of(tried)
    if json:
        print_json(
            {
                "id": tuning.id,
                "attack": tuning.attack,
                "round": tuning.round,
                "settings": [_setting_as_json(setting) for setting in tried],
                "best": None if best is None else best.params,
            }
        )
        return
    if not tried:
        say(f"{tuning.id} has no runs. `harness resume {tuning.id}` continues it.")
        return
    print(align_columns([(*space, *tuning.folds, "recall"), *(_row(setting, tuning.folds) for setting in tried)]))


def _row(setting: Setting, folds: tuple[str, ...]) -> tuple[str, ...]:
    """Return the values of a setting, its recall on each fold (empty if it was not tried there), and their mean."""
    recalls = {run.fold: format_score(run.recall) for run in setting.runs}
    return (
        *(sanitize(str(value)) for value in setting.params.values()),
        *(recalls.get(fold, "") for fold in folds),
        format_score(setting.recall),
    )


def _setting_as_json(setting: Setting) -> dict[str, Any]:
    return {
        "params": setting.params,
        "recall_at_cap": setting.recall,
        "runs": [{"id": run.folder.id, "fold": run.fold, "recall_at_cap": run.recall} for run in setting.runs],
    }
