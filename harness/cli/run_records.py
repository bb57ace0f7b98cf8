"""Commands that list, show and annotate recorded runs; `harness runs` is their group."""

import itertools
from typing import Annotated

import typer

from harness.analysis.candidates import load_example
from harness.cli.descriptions import describe, describe_example, run_as_json, token_probabilities
from harness.cli.options import (
    RUN_HELP,
    Json,
    Run,
    round_option,
)
from harness.cli.output import align_columns, print_error, print_json, sanitize, say
from harness.cli.parents import print_sweep, print_tuning
from harness.cli.records import find_record
from harness.cli.run_deletion import deleted_size, restore, rm
from harness.cli.typer_classes import CommandLine, attack_names, parent_names, queued_run_names, record_names
from harness.cli.watching import log_lines
from harness.core.errors import HarnessError
from harness.core.files import write_atomically
from harness.core.times import format_duration
from harness.runs.errors import as_harness_error
from harness.runs.facts import COLUMNS
from harness.runs.folder import RunFolder, add_tags, all_run_folders, remove_tags, run_folder, tags_of
from harness.runs.queue import Move, move_in_queue, queued_runs
from harness.runs.status import Status
from harness.runs.summary import RunSummary, matching_summaries, run_summary
from harness.sweeps.tuning import Tuning

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
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="List runs with this tag; repeatable.")] = None,
    group: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="List runs of this group, tuning or sweep.", autocompletion=parent_names),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="List only the newest N runs.")] = None,
    json: Json = False,
) -> None:
    """List, annotate, queue, delete and restore runs.

    Without a command, runs are listed, newest first; after the attack stand the parameters that are not its defaults.
    `harness tune --list` lists tunings, `harness sweep list` sweeps.
    """
    if context.invoked_subcommand is not None:
        return
    for name in status or ():
        if name not in list(Status):
            raise typer.BadParameter(f"{sanitize(name)!r} is none of {', '.join(Status)}.", param_hint="--status")
    matching = matching_summaries(
        on_error=print_error, statuses=status, attack=attack, round_=round_, tags=tag, parent=group
    )
    summaries = list(itertools.islice(matching, limit))
    if json:
        print_json({"runs": [summary.as_json() for summary in summaries]})
    elif summaries:
        print(_table(summaries))
    elif status or attack or round_ or tag or group:
        say("no run matches.")
    elif not all_run_folders():
        say("no runs yet. `harness run ATTACK --round ROUND` starts one.")
    if not json and (size := deleted_size()):
        say(f"deleted runs hold {size}: `harness runs restore` lists them, `harness runs rm --now` frees the disk.")


def _table(summaries: list[RunSummary]) -> str:
    """Return a table with one row per run."""
    # A Rich table takes two seconds for 1,000 rows, align_columns two milliseconds.
    rows = [[sanitize(column.text(summary)) for column in COLUMNS] for summary in summaries]
    return align_columns([[column.title for column in COLUMNS], *rows])


@app.command()
def note(
    run: Run,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The note. Without it the note is printed.")
    ] = None,
    json: Json = False,
) -> None:
    """Attach a note to a run, or print its note."""
    folder = run_folder(run)
    if text is not None:
        try:
            write_atomically(folder.note, text)
        except OSError as error:
            raise HarnessError(f"{folder.note}: cannot be written ({error.strerror}).") from None
    with as_harness_error(folder.note):
        folder.check_files()
        shown = folder.note.read_text(encoding="utf-8") if folder.note.exists() else ""
    if json:
        print_json({"run": folder.id, "note": shown})
    elif text is None:
        print(sanitize(shown))


@app.command()
def tag(
    run: Run,
    tags: Annotated[
        list[str] | None, typer.Argument(metavar="TAG", help="Tags. Without one the run's tags are printed.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the tags instead of adding them.")] = False,
    json: Json = False,
) -> None:
    """Add tags to a run, remove them, or print them."""
    folder = run_folder(run)
    if remove:
        remove_tags(folder, tags or ())
    elif tags:
        add_tags(folder, tags)
    with as_harness_error(folder.tags):
        shown = tags_of(folder)
    if json:
        print_json({"run": folder.id, "tags": list(shown)})
    elif not tags:
        print(" ".join(shown))


app.command()(rm)
app.command()(restore)


def logs(
    run: Run,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Number of last lines; 0 for all.")] = 200,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new lines until the run is over.")] = False,
    json: Json = False,
) -> None:
    """Print the log of a run's worker."""
    folder = run_folder(run)
    printed = log_lines(folder, last=lines, follow=follow)
    if json:
        print_json({"run": folder.id, "lines": list(printed)})
        return
    for line in printed:
        print(sanitize(line), flush=follow)


def show(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN|TUNING|SWEEP",
            help=f"{RUN_HELP} Or the id of a tuning or a sweep.",
            autocompletion=record_names,
        ),
    ],
    example: Annotated[
        int | None, typer.Option(metavar="ID", help="Show one example: its prefix, answer and candidates.")
    ] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="With --example: score each token with the target, on the CPU.")
    ] = False,
    json: Json = False,
) -> None:
    """Show a run: what it was given, how it went, its score."""
    found = find_record(run)
    if probabilities and example is None:
        raise typer.BadParameter("name an example with --example.", param_hint="--probabilities")
    if isinstance(found, Tuning):
        print_tuning(found, json=json)
    elif not isinstance(found, RunFolder):
        print_sweep(found, json=json)
    elif example is not None:
        shown = load_example(found, example)
        scored = token_probabilities(found, shown) if probabilities else None
        if json:
            print_json(shown.as_json() | ({} if scored is None else {"probabilities": scored}))
        else:
            print(describe_example(found, shown, scored))
    elif json:
        print_json(run_as_json(found))
    else:
        print(describe(found))


@app.command()
def queue(
    run: Annotated[
        str | None,
        typer.Argument(metavar="RUN", help="A queued run to move.", autocompletion=queued_run_names),
    ] = None,
    first: Annotated[bool, typer.Option("--first", help="Move the run to the front.")] = False,
    up: Annotated[bool, typer.Option("--up", help="Move the run one place forward.")] = False,
    down: Annotated[bool, typer.Option("--down", help="Move the run one place back.")] = False,
    last: Annotated[bool, typer.Option("--last", help="Move the run to the end.")] = False,
    json: Json = False,
) -> None:
    """List the runs that wait for a device, or move one.

    Runs are served in this order. `harness stop RUN` takes a run out of the queue.
    """
    moves = [move for move, is_chosen in zip(Move, (first, up, down, last), strict=True) if is_chosen]
    if (run is None) != (not moves) or len(moves) > 1:
        raise typer.BadParameter(
            "give a run and one of --first, --up, --down and --last, or neither.", param_hint="RUN"
        )
    if run is not None:
        move_in_queue(run_folder(run).id, moves[0])
    summaries = _queued_summaries()
    if json:
        print_json({"queue": [summary.as_json() for summary in summaries]})
    elif summaries:
        header = ("run", "attack", "round", "place", "waits for", "at most")
        print(align_columns([header, *map(_row, summaries)]))
    else:
        say("no run waits for a device.")


def _queued_summaries() -> list[RunSummary]:
    """Return the summaries of the waiting runs, in order. A run that cannot be read is reported and left out."""
    found = []
    for queued in queued_runs():
        folder = RunFolder.of(queued.run)
        try:
            summary = run_summary(folder)
        except HarnessError as error:
            print_error(f"{folder.id}: {error}")
            continue
        # A run that starts or ends meanwhile has no place.
        if summary.queue_position is not None:
            found.append(summary)
    return found


def _row(summary: RunSummary) -> tuple[str, ...]:
    return (
        summary.id,
        sanitize(summary.labelled_attack),
        summary.round,
        f"{summary.queue_position} of {summary.queue_length}",
        sanitize(summary.waits_for or "–"),
        "–" if summary.wait_at_most_s is None else format_duration(summary.wait_at_most_s),
    )
