"""Commands that watch, stop and continue what was started."""

from typing import Annotated

import typer
from typer import Option

from harness.cli.completion import name_argument, record_names
from harness.cli.options import RUN_HELP, Detach, Json, Plain, Run
from harness.cli.output import is_terminal, print_json, sanitize
from harness.cli.records import find_record
from harness.cli.resolving import current_weights
from harness.cli.watching import follow, follow_or_detach, log_lines
from harness.core.errors import HarnessError
from harness.core.spec import JobSpec
from harness.runs.folder import RunFolder, run_folder
from harness.runs.launch import resume_run, stop_run
from harness.runs.summary import run_summary
from harness.sweeps.tuning import TUNINGS, Tuning
from harness.sweeps.tuning_process import stop_tuning


def watch(
    run: Run = "latest",
    plain: Plain = False,
    log: bool = Option(False, "--log", help="Print the worker's log as it grows."),
    json: Json = False,
) -> None:
    """Watch a run or an audit until it is over.

    In a terminal the TUI opens, otherwise a status line is printed. If you close either of them, the run continues.
    """
    folder = run_folder(run)
    if log and json:
        raise typer.BadParameter(
            "it prints lines. `harness show RUN --log --json` prints them as JSON.", param_hint="--log"
        )
    if log:
        for line in log_lines(folder, follow=True):
            print(sanitize(line), flush=True)
        return
    if not plain and not json and is_terminal():
        from harness.tui.app import HarnessApp, show

        show(HarnessApp(watched=folder))
        return
    follow(folder, json=json)


def stop(
    name: Annotated[str, name_argument("RUN|TUNING", f"{RUN_HELP} Or the id of a tuning.", record_names)],
    json: Json = False,
) -> None:
    """Stop a run, an audit or a tuning. Its results are kept.

    `harness resume` continues what you stopped. A run that waits for a device is removed from the queue.
    """
    record = find_record(name, JobSpec if name == "latest" else None)
    if isinstance(record, RunFolder):
        status = stop_run(record)
        print_json(run_summary(record).as_json()) if json else print(f"{record.id}: {status}")
    elif isinstance(record, Tuning):
        stop_tuning(record.id)
        print_json({"id": record.id}) if json else print(f"{record.id}: stopped")
    else:
        raise HarnessError(f"{record.id} is a sweep. Press Ctrl-C where it runs.")


def resume(
    name: Annotated[
        str, name_argument("RUN|TUNING|SWEEP", f"{RUN_HELP} Or the id of a tuning or a sweep.", record_names)
    ],
    detach: Detach = False,
    runs: int | None = Option(None, min=1, help="For a tuning: number of runs in total.  [default: as before]"),
    ray: str | None = Option(
        None, metavar="ADDRESS", help="For a tuning or sweep: Ray cluster, or `none`.  [default: as before]"
    ),
    json: Json = False,
) -> None:
    """Continue a run, an audit, a tuning or a sweep.

    A run or an audit continues within the rest of its budget, and the exit codes are those of `harness run`. A tuning
    or a sweep starts only the runs that have not finished.
    """
    record = find_record(name, JobSpec if detach else TUNINGS if runs is not None else None)
    is_run = isinstance(record, RunFolder)
    for option, is_given, is_valid in (
        ("--detach", detach, is_run or isinstance(record, Tuning)),
        ("--runs", runs is not None, isinstance(record, Tuning)),
        ("--ray", ray is not None, not is_run),
    ):
        if is_given and not is_valid:
            raise typer.BadParameter(f"it does not apply to {record.id}. Remove it.", param_hint=option)
    if isinstance(record, RunFolder):
        resume_run(record, weights_sha256=current_weights(record.spec()))
        follow_or_detach(record, detach=detach, json=json)
    elif isinstance(record, Tuning):
        from harness.cli.tune import resume_tuning

        resume_tuning(record, runs=runs, ray=ray, detach=detach, json=json)
    else:
        from harness.cli.sweep import resume_sweep

        resume_sweep(record, ray=ray, json=json)
