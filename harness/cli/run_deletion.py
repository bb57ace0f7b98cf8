"""Commands that delete runs, tunings and sweeps, and restore them for a day."""

import time
from typing import Annotated

import typer
from rich.filesize import decimal

from harness.cli.options import RUN_HELP, Json
from harness.cli.output import align_columns, is_terminal, pluralize, print_json, sanitize, say
from harness.cli.records import delete_parent, deletion_named, find_record, runs_under
from harness.cli.typer_classes import deleted_names, record_names
from harness.core.errors import HarnessError
from harness.core.times import date_and_time, format_duration
from harness.runs import trash
from harness.runs.folder import RunFolder, delete_run
from harness.runs.launch import is_over, stop_run
from harness.runs.trash import Deleted


def rm(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN",
            help=f"{RUN_HELP} Or the id of a tuning or a sweep, which is deleted with its runs.",
            autocompletion=record_names,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Stop a run that is still running, then delete it.")] = False,
    now: Annotated[
        bool, typer.Option("--now", help="Free the disk at once; without RUN, of all deleted runs.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: Json = False,
) -> None:
    """Delete runs and everything they recorded.

    For a day `harness runs restore` restores them. In a terminal it asks before it deletes.
    """
    if not runs and not now:
        raise typer.BadParameter("name a run, or use --now.", param_hint="RUN")
    found = [find_record(name, also_damaged=True) for name in runs or ()]
    parents = {one.id: one for one in found if not isinstance(one, RunFolder)}
    folders = {one: None for one in found if isinstance(one, RunFolder)}
    folders |= {folder: None for parent in parents.values() for folder in runs_under(parent)}
    before = [] if runs else trash.deleted_records()
    ids = [*(folder.id for folder in folders), *parents, *dict.fromkeys(one.id for one in before)]
    if is_terminal() and not yes and ids:
        typer.confirm(_question(ids, is_final=now), abort=True, err=True)
    if not force:
        for folder in folders:
            if _is_working(folder):
                raise HarnessError(
                    f"{folder.id} is still running. `harness stop {folder.id}` stops it, or use --force."
                )
    deleted_at = time.time_ns()
    for folder in folders:
        if force and _is_working(folder):
            stop_run(folder)
        _end([delete_run(folder, deleted_at)], is_final=now, json=json)
    for parent in parents.values():
        _end(delete_parent(parent, deleted_at), is_final=now, json=json)
    for one in before:
        _end([one], is_final=True, json=json)
    if json:
        print_json({"removed": ids})


def _question(ids: list[str], *, is_final: bool) -> str:
    shown = ", ".join(map(sanitize, ids[:5])) + (", …" if len(ids) > 5 else "")
    hint = "This cannot be undone." if is_final else "They can be restored for a day."
    return f"Delete {pluralize(len(ids), 'record')} ({shown})? {hint}"


def _is_working(folder: RunFolder) -> bool:
    """Return True if the run has a supervisor that has not ended it. One that cannot be read counts as over."""
    try:
        return folder.is_alive and not is_over(folder)
    except OSError:
        # If a supervisor has the lock nevertheless, the deletion fails.
        return False


def _end(deleted: list[Deleted], *, is_final: bool, json: bool) -> None:
    """Free the disk if `is_final`, and print the id."""
    if is_final:
        for one in deleted:
            trash.free(one)
    if deleted and not json:
        print(sanitize(deleted[0].id), flush=True)


def restore(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN",
            help="Id of a deleted run, tuning or sweep, or the beginning of one. Without it, these are listed.",
            autocompletion=deleted_names,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Restore runs that were deleted within a day, or list them.

    A tuning or a sweep is restored with its runs.
    """
    if not runs:
        _list(json=json)
        return
    chosen = {one: None for name in runs for one in deletion_named(name)}
    for one in chosen:
        trash.restore(one)
        if not json:
            print(sanitize(one.id), flush=True)
    if json:
        print_json({"restored": list(dict.fromkeys(one.id for one in chosen))})


def _list(*, json: bool) -> None:
    found = trash.restorable()
    if json:
        shown = [{"id": one.id, "deleted_at": one.deleted_at / 1e9, "bytes": one.size} for one in found]
        print_json({"deleted": shown})
    elif not found:
        say("nothing was deleted within the last day.")
    else:
        rows = [
            (
                sanitize(one.id),
                date_and_time(one.deleted_at / 1e9),
                format_duration(one.seconds_left),
                decimal(one.size),
            )
            for one in found
        ]
        print(align_columns([("run", "deleted", "kept for", "size"), *rows]))


def deleted_size() -> str:
    """Return what all deleted runs use on the disk, such as `1.2 GiB`; empty without one."""
    found = trash.deleted_records()
    return decimal(sum(one.size for one in found)) if found else ""
