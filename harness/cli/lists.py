"""`harness list`: everything that the harness has or has recorded, one list for each kind."""

import contextlib
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeVar

import typer
from rich.filesize import decimal
from typer import Option

from harness.cli.catalog import attack_as_json, attack_row, round_as_json, round_row
from harness.cli.completion import attack_names, parent_names
from harness.cli.options import Attacks, Json, round_option
from harness.cli.output import align_columns, print_error, print_json, sanitize, say
from harness.cli.typer_classes import CommandLine
from harness.core.errors import HarnessError, unknown_name
from harness.core.paths import require_state_home
from harness.core.rounds import built_in_rounds, load_round
from harness.core.times import date_and_time, format_duration
from harness.data.files import round_status
from harness.plugins.discovery import find_attacks
from harness.runs import trash
from harness.runs.columns import COLUMNS
from harness.runs.folder import ModelType, RecordFiles, RunFolder, all_run_folders
from harness.runs.queue import queued_runs
from harness.runs.specs import AttackSpec, AuditSpec, RunSpec
from harness.runs.status import Status
from harness.runs.summary import RunSummary, matching_summaries, readable_summaries
from harness.sweeps.record import SWEEPS, Sweep, progress_of
from harness.sweeps.tuning import TUNINGS, Tuning
from harness.sweeps.tuning_process import state_of

Item = TypeVar("Item")

app = CommandLine(name="list", help="List runs, audits, tunings, sweeps, attacks or rounds.", no_args_is_help=True)

Statuses = Annotated[
    list[str] | None,
    typer.Option("--status", metavar="STATUS", help=f"Only this status: {', '.join(Status)}; repeatable."),
]
Tags = Annotated[list[str] | None, typer.Option("--tag", metavar="TAG", help="Only runs with this tag; repeatable.")]
Newest = Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Only the newest N.  [default: all]")]


@app.command("runs")
def list_runs(
    status: Statuses = None,
    attack: str | None = Option(None, metavar="ATTACK", help="Only runs of this attack.", autocompletion=attack_names),
    round_: Annotated[str | None, round_option("Only runs on this round.")] = None,
    tag: Tags = None,
    group: str | None = Option(
        None, metavar="NAME", help="Only runs of this group, tuning or sweep.", autocompletion=parent_names
    ),
    limit: Newest = None,
    json: Json = False,
) -> None:
    """List the runs of attacks, newest first.

    The column `attack` also shows the parameters that differ from the defaults of the attack.
    """
    conditions = {"attack": attack, "round_": round_, "parent": group}
    _list_jobs(AttackSpec, status, tag, limit, conditions, json=json)


@app.command("audits")
def list_audits(status: Statuses = None, tag: Tags = None, limit: Newest = None, json: Json = False) -> None:
    """List audits, newest first."""
    _list_jobs(AuditSpec, status, tag, limit, {}, json=json)


def _list_jobs(
    spec_type: type[RunSpec],
    statuses: Collection[str] | None,
    tags: Collection[str] | None,
    limit: int | None,
    conditions: dict[str, str | None],
    *,
    json: bool,
) -> None:
    require_state_home()
    for name in statuses or ():
        if name not in list(Status):
            raise unknown_name("status", name, Status, see="harness list runs --help")
    kind = spec_type.model_fields["kind"].default
    matching = matching_summaries(on_error=print_error, kind=kind, statuses=statuses, tags=tags, **conditions)
    summaries = list(itertools.islice(matching, limit))
    if not summaries:
        _check_names(conditions)
    noun = spec_type.noun
    is_filtered = any((statuses, tags, *conditions.values()))
    _print_list(
        f"{noun}s",
        summaries,
        [column.title for column in COLUMNS],
        # A Rich table takes two seconds for 1,000 rows, align_columns two milliseconds.
        lambda summary: [sanitize(column.text(summary)) for column in COLUMNS],
        RunSummary.as_json,
        empty=f"no {noun} matches." if is_filtered else f"no {noun}s yet. `{spec_type.command}` starts one.",
        json=json,
    )
    if spec_type is AttackSpec and not json:
        for folder in all_run_folders():
            with contextlib.suppress(HarnessError, OSError):  # a run that cannot be read was named above
                if folder.is_alive and folder.spec().kind == "audit":
                    say(f"{folder.id} is an audit at work: `harness list audits` lists it.")
    deletions = trash.deleted_records()
    if deletions and not json:
        size = decimal(sum(deleted.size for deleted in deletions))
        say(f"deleted runs hold {size}: `harness list deleted` lists them, `harness runs rm --now` frees the disk.")


def _check_names(conditions: Mapping[str, str | None]) -> None:
    """Raise UsageError for an attack or a round that does not exist, and that no run has."""
    runs = list(matching_summaries(on_error=lambda _: None))
    attacks = {*(attack.name for attack in find_attacks()), *(run.attack for run in runs)}
    rounds = {*built_in_rounds(), *(run.round for run in runs if run.round)}
    for field, kind, names in (("attack", "attack", attacks), ("round_", "round", rounds)):
        if (name := conditions.get(field)) is not None and name not in names:
            raise unknown_name(kind, name, names, see=f"harness list {kind}s")


def _print_list(
    key: str,
    items: Sequence[Item],
    header: Sequence[str],
    row: Callable[[Item], Sequence[str]],
    as_json: Callable[[Item], Mapping[str, Any]],
    *,
    empty: str,
    json: bool,
) -> None:
    """Print one row for each item below `header`, or the objects under `key` of one JSON object."""
    if json:
        print_json({key: [as_json(item) for item in items]})
    elif items:
        print(align_columns([*([header] if header else []), *map(row, items)]))
    else:
        say(empty)


@app.command("tunings")
def list_tunings(json: Json = False) -> None:
    """List tunings, newest first."""
    tunings = list(_readable(TUNINGS))
    parents = [summary.parent for summary in matching_summaries(on_error=lambda _: None)] if tunings else []
    _print_list(
        "tunings",
        [_tuning_as_json(tuning, parents.count(tuning.id)) for tuning in tunings],
        ("tuning", "attack", "round", "runs", "state", "started"),
        lambda row: (
            *(row["id"], row["attack"], row["round"], str(row["runs"]), row["state"]),
            date_and_time(row["created_at"]),
        ),
        lambda row: row,
        empty="no tunings yet. `harness tune ATTACK` starts one.",
        json=json,
    )


def _tuning_as_json(tuning: Tuning, runs: int) -> dict[str, Any]:
    """Return a tuning that has so many runs.

    Keys:
        id (string): Id of the tuning.
        created_at (number): Time of creation, in seconds since the epoch.
        attack (string): Name of the attack.
        round (string): Name of the round.
        runs (number): Number of its runs.
        state (string): `running`, `finished` or `not running`.
    """
    facts = {"id": tuning.id, "created_at": tuning.created_at, "runs": runs, "state": state_of(tuning, runs)}
    return facts | {"attack": tuning.request.attack, "round": tuning.request.round}


def _readable(records: RecordFiles[ModelType]) -> Iterator[ModelType]:
    """Yield the records, newest first. One that cannot be read is reported and left out."""
    require_state_home()
    for id_ in records.ids():
        try:
            yield records.read(id_)
        except HarnessError as error:
            print_error(str(error))


@app.command("sweeps")
def list_sweeps(json: Json = False) -> None:
    """List sweeps, newest first."""
    _print_list(
        "sweeps",
        [_sweep_as_json(sweep) for sweep in _readable(SWEEPS)],
        ("sweep", "runs finished", "started"),
        lambda row: (row["id"], f"{row['finished']:,} of {row['runs']:,}", date_and_time(row["created_at"])),
        lambda row: row,
        empty="no sweeps yet. `harness sweep FILE` starts one.",
        json=json,
    )


def _sweep_as_json(sweep: Sweep) -> dict[str, Any]:
    """Return a sweep.

    Keys:
        id (string): Id of the sweep.
        created_at (number): Time of creation, in seconds since the epoch.
        runs (number): Runs of the sweep.
        finished (number): Finished runs.
    """
    finished = len(progress_of(sweep).finished)
    return {"id": sweep.id, "created_at": sweep.created_at, "runs": len(sweep.runs), "finished": finished}


@app.command("attacks")
def list_attacks(attacks: Attacks = None, json: Json = False) -> None:
    """List attacks with their summary, directory and errors."""
    empty = "no attacks. `harness new attack NAME` writes one."
    _print_list("attacks", find_attacks(attacks), (), attack_row, attack_as_json, empty=empty, json=json)


@app.command("rounds")
def list_rounds(json: Json = False) -> None:
    """List the built-in rounds and the state of their files."""
    rounds = [round_status(load_round(name)) for name in built_in_rounds()]
    _print_list("rounds", rounds, (), round_row, round_as_json, empty="no rounds.", json=json)
    if not json and any(not status.is_complete for status in rounds):
        say("`harness data status ROUND` prints what is missing and the command that fetches it.")


@app.command("queue")
def list_queue(json: Json = False) -> None:
    """List the runs that wait for a device, in their order.

    `harness runs queue RUN` moves a run in the queue, and `harness stop RUN` removes it.
    """
    _print_list(
        "queue",
        _queued_summaries(),
        ("run", "attack", "round", "place", "waits for", "at most"),
        lambda summary: (
            summary.id,
            sanitize(summary.labelled_attack),
            summary.round,
            f"{summary.queue_position} of {summary.queue_length}",
            sanitize(summary.waits_for or "–"),
            "–" if summary.wait_at_most_s is None else format_duration(summary.wait_at_most_s),
        ),
        RunSummary.as_json,
        empty="no run waits for a device.",
        json=json,
    )


def _queued_summaries() -> list[RunSummary]:
    """Return the summaries of the waiting runs, in order. A run that cannot be read is reported and left out."""
    require_state_home()
    summaries = readable_summaries([RunFolder.of(queued.run) for queued in queued_runs()], print_error)
    # A run that starts or ends meanwhile has no place.
    return [summary for summary in summaries if summary.queue_position is not None]


@app.command("deleted")
def list_deleted(json: Json = False) -> None:
    """List what was deleted within a day and can be restored."""
    require_state_home()
    _print_list(
        "deleted",
        trash.restorable(),
        ("run", "deleted", "kept for", "size"),
        lambda deleted: (
            sanitize(deleted.id),
            date_and_time(deleted.deleted_at / 1e9),
            format_duration(deleted.seconds_left),
            decimal(deleted.size),
        ),
        _deletion_as_json,
        empty="nothing was deleted within the last day.",
        json=json,
    )


def _deletion_as_json(deleted: trash.Deleted) -> dict[str, Any]:
    """Return a deleted run, tuning or sweep.

    Keys:
        id (string): Id of the run, tuning or sweep.
        deleted_at (number): Time of deletion, in seconds since the epoch.
        bytes (number): Size on the disk.
    """
    return {"id": deleted.id, "deleted_at": deleted.deleted_at / 1e9, "bytes": deleted.size}
