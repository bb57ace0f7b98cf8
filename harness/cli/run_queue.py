"""`harness runs queue`: list the runs that wait for a device, and move one."""

from typing import Annotated

import typer

from harness.cli.completion import queued_run_names
from harness.cli.options import Json
from harness.cli.output import align_columns, print_error, print_json, sanitize, say
from harness.core.errors import HarnessError
from harness.core.times import format_duration
from harness.runs.folder import RunFolder, run_folder
from harness.runs.queue import Move, move_in_queue, queued_runs
from harness.runs.summary import RunSummary, run_summary


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
