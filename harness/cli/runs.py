"""`harness runs`: list, delete and annotate runs."""

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.commands import CommandLine
from harness.cli.completion import attack_names, run_and_tuning_names
from harness.cli.options import RUN_HELP, Json, Run, round_option
from harness.cli.output import align_columns, is_terminal, pluralize, print_error, print_json, sanitize, say

if TYPE_CHECKING:
    from harness.runs.summary import RunSummary

_MAX_NOTE = 40

app = CommandLine(name="runs", invoke_without_command=True)


@app.callback()
def list_runs(
    context: typer.Context,
    status: Annotated[
        list[str] | None, typer.Option(metavar="STATUS", help="List runs with this status; repeatable.")
    ] = None,
    attack: Annotated[
        str | None, typer.Option(metavar="ATTACK", help="List runs of this attack.", autocompletion=attack_names)
    ] = None,
    round_: Annotated[str | None, round_option("List runs on this round.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="List only the newest N runs.")] = None,
    json: Json = False,
) -> None:
    """List, annotate and delete runs.

    Without a command, runs are listed, newest first. `harness tune --list` lists tunings.
    """
    if context.invoked_subcommand is not None:
        return
    from harness.runs.status import Status

    for name in status or ():
        if name not in list(Status):
            raise typer.BadParameter(f"{sanitize(name)!r} is none of {', '.join(Status)}.", param_hint="--status")
    summaries = list(itertools.islice(_summaries(status, attack, round_), limit))
    if json:
        print_json({"runs": [summary.as_json() for summary in summaries]})
    elif summaries:
        print(_table(summaries))
    elif status or attack or round_:
        say("no run matches.")
    else:
        say("no runs yet. `harness run ATTACK --round ROUND` starts one.")


def _summaries(status: list[str] | None, attack: str | None, round_: str | None) -> "Iterator[RunSummary]":
    """Yield the summaries of the runs that match, newest first. A run that cannot be read is reported and left out."""
    from harness.core.errors import HarnessError
    from harness.runs.folder import all_run_folders
    from harness.runs.summary import run_summary

    for folder in all_run_folders():
        try:
            summary = run_summary(folder)
        except HarnessError as error:
            print_error(f"{folder.id}: {error}")
            continue
        if (
            (not status or summary.status in status)
            and attack in (None, summary.attack)
            and round_ in (None, summary.round)
        ):
            yield summary


def _table(summaries: "list[RunSummary]") -> str:
    """Return a table with one row per run."""
    header = ("run", "status", "attack", "round", "recall", "elapsed", "guesses", "started", "note")
    # A Rich table takes two seconds for 1,000 rows, align_columns two milliseconds.
    return align_columns([header, *(_row(summary) for summary in summaries)])


def _row(summary: "RunSummary") -> tuple[str, ...]:
    from harness.core.times import date_and_time, format_duration

    recall = "blind" if summary.is_blind else "–" if summary.recall_at_cap is None else f"{summary.recall_at_cap:.3f}"
    return (
        summary.id,
        summary.status.words,
        summary.shown_attack,
        summary.round,
        recall + summary.interval_text,
        f"{format_duration(summary.elapsed_s)}/{format_duration(summary.budget_s)}",
        f"{summary.guesses:,}",
        date_and_time(summary.created_at),
        sanitize(summary.note)[:_MAX_NOTE],
    )


@app.command()
def rm(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN",
            help=f"{RUN_HELP} Or the id of a tuning, which is deleted with its runs.",
            autocompletion=run_and_tuning_names,
        ),
    ],
    force: Annotated[bool, typer.Option("--force", help="Stop a run that is still running, then delete it.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: Json = False,
) -> None:
    """Delete runs and everything they recorded.

    In a terminal it asks before it deletes.
    """
    from harness.cli.tunings import find_run_or_tuning, tuning_file
    from harness.core.errors import HarnessError
    from harness.runs.folder import RunFolder, remove_run
    from harness.runs.launch import is_over, stop_run
    from harness.runs.tuning import runs_of

    found = [find_run_or_tuning(name) for name in runs]
    tunings = {one.id: None for one in found if not isinstance(one, RunFolder)}
    folders = {one: None for one in found if isinstance(one, RunFolder)}
    folders |= {run.folder: None for id_ in tunings for run in runs_of(id_)}
    ids = [*(folder.id for folder in folders), *tunings]
    if is_terminal() and not yes:
        shown = ", ".join(ids[:5]) + (", …" if len(ids) > 5 else "")
        typer.confirm(f"Delete {pluralize(len(folders), 'run')} ({shown})?", abort=True, err=True)
    if not force:
        for folder in folders:
            if folder.is_alive and not is_over(folder):
                raise HarnessError(
                    f"{folder.id} is still running. `harness stop {folder.id}` stops it, or use --force."
                )
    for folder in folders:
        if force:
            stop_run(folder)
        remove_run(folder)
        if not json:
            print(folder.id, flush=True)
    for id_ in tunings:
        tuning_file(id_).unlink(missing_ok=True)
        if not json:
            print(id_)
    if json:
        print_json({"removed": ids})


@app.command()
def note(
    run: Run,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The note. Without it the note is printed.")
    ] = None,
    json: Json = False,
) -> None:
    """Attach a note to a run, or print its note."""
    from harness.core.files import write_atomically
    from harness.runs.folder import run_folder

    folder = run_folder(run)
    if text is not None:
        write_atomically(folder.note, text)
    shown = folder.note.read_text(encoding="utf-8") if folder.note.exists() else ""
    if json:
        print_json({"run": folder.id, "note": shown})
    elif text is None:
        print(sanitize(shown))
