"""`harness runs`: annotate, queue, delete and restore runs, tunings and sweeps."""

import time
from typing import Annotated

import typer
from typer import Argument, Option

from harness.cli.completion import deleted_names, name_argument, queued_run_names, record_names
from harness.cli.lists import list_queue
from harness.cli.options import RUN_HELP, Json, Run
from harness.cli.output import is_terminal, pluralize, print_json, sanitize
from harness.cli.records import delete_parent, deletion_named, find_record, runs_under
from harness.cli.typer_classes import CommandLine
from harness.core.errors import HarnessError
from harness.core.files import file_errors, write_atomically
from harness.core.inputs import as_harness_error
from harness.runs import trash
from harness.runs.folder import RunFolder, delete_run, run_folder
from harness.runs.launch import is_over, stop_run
from harness.runs.queue import Move, move_in_queue
from harness.runs.tags import add_tags, remove_tags, tags_of
from harness.runs.trash import Deleted

app = CommandLine(
    name="runs",
    help="Annotate, queue, delete and restore runs.\n\n`harness list runs` lists them.",
    no_args_is_help=True,
)


@app.command()
def note(
    run: Run,
    text: str | None = Argument(None, metavar="TEXT", help="The new note. Without TEXT, the present note is printed."),
    json: Json = False,
) -> None:
    """Attach a note to a run, or print its note.

    Keys:
        run (string): Id of the run.
        note (string): Note of the user. Empty without a note.
    """
    folder = run_folder(run)
    if text is not None:
        with file_errors(folder.note, "written"):
            write_atomically(folder.note, text)
    with as_harness_error(folder.note):
        folder.check_files()
        content = folder.note.read_text(encoding="utf-8") if folder.note.exists() else ""
    if json:
        print_json({"run": folder.id, "note": content})
    elif text is None:
        print(sanitize(content))


@app.command()
def tag(
    run: Run,
    tags: list[str] | None = Argument(
        None, metavar="TAG", help="Tags to add. Without a TAG, the run's tags are printed."
    ),
    remove: bool = Option(False, "--remove", help="Remove the tags instead of adding them."),
    json: Json = False,
) -> None:
    """Add tags to a run, remove them, or print them.

    Keys:
        run (string): Id of the run.
        tags (string[]): All tags of the run, sorted.
    """
    folder = run_folder(run)
    if remove:
        remove_tags(folder, tags or ())
    elif tags:
        add_tags(folder, tags)
    with as_harness_error(folder.tags):
        tags_after = tags_of(folder)
    if json:
        print_json({"run": folder.id, "tags": tags_after})
    elif not tags:
        print(" ".join(tags_after))


@app.command()
def queue(
    run: Annotated[str, name_argument("RUN", "A run that waits for a device.", queued_run_names)],
    first: bool = Option(False, "--first", help="Move the run to the front."),
    up: bool = Option(False, "--up", help="Move the run one place forward."),
    down: bool = Option(False, "--down", help="Move the run one place back."),
    last: bool = Option(False, "--last", help="Move the run to the end."),
    json: Json = False,
) -> None:
    """Move a run that waits for a device.

    Prints the new order, as `harness list queue` does.
    """
    moves = [move for move, is_chosen in zip(Move, (first, up, down, last), strict=True) if is_chosen]
    if len(moves) != 1:
        raise typer.BadParameter("give one of --first, --up, --down and --last.", param_hint="--first")
    move_in_queue(run_folder(run).id, moves[0])
    list_queue(json=json)


@app.command()
def rm(
    runs: Annotated[
        list[str] | None,
        name_argument(
            "RUN", f"{RUN_HELP} Or the id of a tuning or a sweep, which is deleted with its runs.", record_names
        ),
    ] = None,
    force: bool = Option(False, "--force", help="Stop a run that is still running, then delete it."),
    now: bool = Option(
        False,
        "--now",
        help="Delete for good, without restore: RUN or, if you name none, every run that is already deleted.",
    ),
    yes: bool = Option(False, "--yes", "-y", help="Do not ask."),
    json: Json = False,
) -> None:
    """Delete runs and everything they recorded.

    `harness runs restore` restores them within a day. In a terminal, the command asks before it deletes.

    Keys:
        removed (string[]): Ids of the deleted runs, tunings and sweeps.
    """
    if not runs and not now:
        raise typer.BadParameter("name a run, or use --now.", param_hint="RUN")
    chosen_records = [find_record(name, also_damaged=True) for name in runs or ()]
    parents = {record.id: record for record in chosen_records if not isinstance(record, RunFolder)}
    folders = {record: None for record in chosen_records if isinstance(record, RunFolder)}
    folders |= {folder: None for parent in parents.values() for folder in runs_under(parent)}
    before = [] if runs else trash.deleted_records()
    ids = [*(folder.id for folder in folders), *parents, *dict.fromkeys(record.id for record in before)]
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
    for record in before:
        _end([record], is_final=True, json=json)
    if json:
        print_json({"removed": ids})


def _question(ids: list[str], *, is_final: bool) -> str:
    names = ", ".join(map(sanitize, ids[:5])) + (", …" if len(ids) > 5 else "")
    hint = "This cannot be undone." if is_final else "They can be restored for a day."
    return f"Delete {pluralize(len(ids), 'record')} ({names})? {hint}"


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
        for record in deleted:
            trash.free(record)
    if deleted and not json:
        print(sanitize(deleted[0].id), flush=True)


@app.command()
def restore(
    runs: Annotated[
        list[str],
        name_argument("RUN", "Id of a deleted run, tuning or sweep, or the beginning of one.", deleted_names),
    ],
    json: Json = False,
) -> None:
    """Restore runs that were deleted within a day.

    `harness list deleted` lists them. A tuning or a sweep is restored with its runs.

    Keys:
        restored (string[]): Ids of the restored runs, tunings and sweeps.
    """
    deletions = dict.fromkeys(deleted for name in runs for deleted in deletion_named(name))
    for deleted in deletions:
        trash.restore(deleted)
        if not json:
            print(sanitize(deleted.id), flush=True)
    if json:
        print_json({"restored": list(dict.fromkeys(deleted.id for deleted in deletions))})
