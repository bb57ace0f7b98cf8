"""Sweeps and tunings as commands list and show them: as tables, a page or JSON."""

from pathlib import Path
from typing import Annotated, Any

import typer

from harness.analysis import sweep_tables as tables
from harness.analysis.comparison_tables import Table
from harness.analysis.sweep_results import SweepResults, sweep_results
from harness.cli.options import Json, check_output_file, write_output
from harness.cli.output import align_columns, print_error, print_json, sanitize, say, shorten_middle
from harness.cli.typer_classes import sweep_names
from harness.core.errors import HarnessError, UsageError
from harness.core.text import format_score
from harness.core.times import date_and_time
from harness.runs.folder import all_run_folders
from harness.runs.tuning import TUNINGS, Setting, Tuning, best_of, runs_of, searched_space, settings_tried
from harness.sweeps.record import SWEEPS, Sweep, progress_of, sweep_named

_MAX_CELL = 60


def show(
    sweep: Annotated[
        str,
        typer.Argument(
            metavar="SWEEP",
            help="A sweep's id, an unambiguous beginning of it, or `latest`.",
            autocompletion=sweep_names,
        ),
    ] = "latest",
    baseline: Annotated[
        str | None,
        typer.Option(metavar="SETTING", help="Compare with this setting.  [default: the baseline of the sweep]"),
    ] = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write an .html page.")] = None,
    json: Json = False,
) -> None:
    """Show what a sweep has found so far.

    Prints the recall of each setting, its difference from the baseline, and the importance of the parameters.
    """
    if report is not None:
        if report.suffix != ".html":
            raise UsageError(f"{report}: a report is an .html file. Choose another name.")
        check_output_file(report)
    print_sweep(sweep_named(sweep), baseline=baseline, report=report, json=json)


def list_(json: Json = False) -> None:
    """List all sweeps, newest first."""
    rows = []
    for id_ in SWEEPS.ids():
        try:
            sweep = SWEEPS.named(id_)
        except HarnessError as error:
            print_error(str(error))
            continue
        rows.append((sweep, len(progress_of(sweep).finished)))
    if json:
        listed = [
            {"id": sweep.id, "created_at": sweep.created_at, "runs": len(sweep.runs), "finished": finished}
            for sweep, finished in rows
        ]
        print_json({"sweeps": listed})
    elif rows:
        cells = [
            (sweep.id, f"{finished:,} of {len(sweep.runs):,}", date_and_time(sweep.created_at))
            for sweep, finished in rows
        ]
        print(align_columns([("sweep", "runs finished", "started"), *cells]))
    else:
        say("no sweeps yet. `harness sweep run FILE` starts one.")


def print_sweep(sweep: Sweep, *, baseline: str | None = None, report: Path | None = None, json: bool) -> None:
    """Print what a sweep has found so far, and write the page about it to `report`."""
    results = sweep_results(sweep, baseline=baseline)
    if report is not None:
        from harness.submit.report import sweep_page

        write_output(report, sweep_page(results))
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
    sections += [_section(tables.importance_heading(one), tables.importance_table(one)) for one in results.importances]
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
        say(f"{tuning.id} has no runs. `harness tune --resume {tuning.id}` continues it.")
        return
    print(align_columns([(*space, *tuning.folds, "recall"), *(_row(setting, tuning.folds) for setting in tried)]))


def print_tunings(*, json: bool) -> None:
    """Print all tunings, newest first, with the number of runs that each has."""
    tunings = [TUNINGS.named(id_) for id_ in TUNINGS.ids()]
    parents: list[str | None] = []
    for folder in all_run_folders() if tunings else ():
        try:
            parents.append(folder.spec().parent)
        except HarnessError:
            continue
    counts = {tuning.id: parents.count(tuning.id) for tuning in tunings}
    if json:
        listed = [
            tuning.model_dump(include={"id", "attack", "round", "created_at"}) | {"runs": counts[tuning.id]}
            for tuning in tunings
        ]
        print_json({"tunings": listed})
    elif tunings:
        rows = [
            (tuning.id, tuning.attack, tuning.round, str(counts[tuning.id]), date_and_time(tuning.created_at))
            for tuning in tunings
        ]
        print(align_columns([("tuning", "attack", "round", "runs", "started"), *rows]))
    else:
        say("no tunings yet. `harness tune ATTACK` starts one.")


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
