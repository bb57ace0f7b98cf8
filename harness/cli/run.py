"""`harness run`, and the commands about one run: watch, stop, resume, logs, show, export."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.completion import run_and_tuning_names
from harness.cli.options import (
    RUN_HELP,
    AttackName,
    Attacks,
    Budget,
    Detach,
    Device,
    Dtype,
    Force,
    Json,
    Plain,
    Round,
    Run,
    Seed,
    Settings,
    ShareDevice,
    Target,
    Threads,
    check_output_file,
    round_or_default,
)
from harness.cli.output import is_terminal, print_json, sanitize, say

if TYPE_CHECKING:
    from harness.runs.folder import RunFolder


def run(
    attack: AttackName,
    round_: Round = None,
    target: Target = None,
    revision: Annotated[str | None, typer.Option(metavar="REV", help="Revision of a hub target.")] = None,
    budget: Budget = None,
    set_: Settings = None,
    seed: Seed = 0,
    limit: Annotated[int | None, typer.Option(min=1, help="Attack only the first N examples.", metavar="N")] = None,
    device: Device = "auto",
    dtype: Dtype = "auto",
    threads: Threads = None,
    share_device: ShareDevice = False,
    attacks: Attacks = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything and start nothing.")] = False,
    detach: Detach = False,
    json: Json = False,
) -> None:
    """Run an attack on a round.

    Ctrl-C leaves the run running. Exit code 3: it ran out of time or was stopped.
    """
    from harness.cli.resolving import plan_as_json, resolve_run
    from harness.jobs.attack.planning import start_attack

    plan = resolve_run(
        attack,
        round_name=round_or_default(round_),
        target=target,
        revision=revision,
        budget=budget,
        settings=set_ or [],
        seed=seed,
        limit=limit,
        device=device,
        dtype=dtype,
        threads=threads,
        shares_device=share_device,
        attacks=attacks,
    )
    if dry_run:
        print_json(plan_as_json(plan.spec)) if json else print(plan.spec.model_dump_json(indent=2))
        return
    _follow_or_detach(start_attack(plan.spec, plan.attack), detach=detach, json=json)


def watch(run: Run = "latest", plain: Plain = False, json: Json = False) -> None:
    """Watch a run until it is over.

    In a terminal its screen opens, otherwise a status line is printed. Leaving does not touch the run.
    """
    from harness.runs.folder import run_folder

    folder = run_folder(run)
    if not plain and not json and is_terminal():
        from harness.tui.app import HarnessApp
        from harness.tui.app import show as show_screen

        show_screen(HarnessApp(watched=folder))
        return
    from harness.cli.watching import follow

    follow(folder, json=json)


def stop(run: Run, json: Json = False) -> None:
    """Stop a run. Its guesses are kept; `resume` continues it."""
    from harness.runs.folder import run_folder
    from harness.runs.launch import stop_run
    from harness.runs.summary import run_summary

    folder = run_folder(run)
    status = stop_run(folder)
    print_json(run_summary(folder).as_json()) if json else print(f"{folder.id}: {status}")


def resume(run: Run, detach: Detach = False, json: Json = False) -> None:
    """Continue a run that was stopped, crashed or lost.

    It continues within what is left of its budget. Exit codes are those of `harness run`.
    """
    from harness.cli.resolving import current_weights
    from harness.runs.folder import run_folder
    from harness.runs.launch import resume_run

    folder = run_folder(run)
    resume_run(folder, weights_sha256=current_weights(folder.job()))
    _follow_or_detach(folder, detach=detach, json=json)


def _follow_or_detach(folder: "RunFolder", *, detach: bool, json: bool) -> None:
    if not detach:
        from harness.cli.watching import follow

        say(f"run {folder.id} · Ctrl-C leaves it running")
        follow(folder, json=json)
        return
    if json:
        from harness.runs.summary import run_summary

        print_json(run_summary(folder).as_json())
    else:
        print(folder.id)
        say(f"harness watch {folder.id}")


def logs(
    run: Run,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Number of last lines; 0 for all.")] = 200,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new lines until the run is over.")] = False,
    json: Json = False,
) -> None:
    """Print the log of a run's worker."""
    from harness.cli.watching import log_lines
    from harness.runs.folder import run_folder

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
            metavar="RUN|TUNING", help=f"{RUN_HELP} Or the id of a tuning.", autocompletion=run_and_tuning_names
        ),
    ],
    example: Annotated[
        int | None, typer.Option(metavar="ID", help="Show one example: its prefix, answer and candidates.")
    ] = None,
    json: Json = False,
) -> None:
    """Show a run: what it was given, how it went, its score."""
    from harness.cli.descriptions import describe, describe_example, run_as_json
    from harness.cli.tunings import find_run_or_tuning, print_tuning
    from harness.runs.folder import RunFolder

    found = find_run_or_tuning(run)
    if not isinstance(found, RunFolder):
        print_tuning(found, json=json)
    elif example is not None:
        from harness.analysis.candidates import load_example

        shown = load_example(found, example)
        print_json(shown.as_json()) if json else print(describe_example(found, shown))
    elif json:
        print_json(run_as_json(found))
    else:
        print(describe(found))


def export(
    run: Run,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="A .csv, .parquet or .jsonl file; - for stdout."),
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Write every guess with its score.")] = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write a run's submission, or all its guesses, to a file."""
    from harness.core.errors import HarnessError
    from harness.runs.folder import run_folder

    folder = run_folder(run)
    destination = out if out is not None else Path(f"{folder.id}.csv")
    is_stdout = str(destination) == "-"
    if is_stdout and json:
        raise typer.BadParameter("--out - writes to stdout. Name a file.", param_hint="--json")
    if not all_ and not is_stdout and destination.suffix != ".csv":
        raise HarnessError(f"{destination}: a submission is a .csv file. --all writes .parquet and .jsonl too.")
    check_output_file(destination, force=force or is_stdout)
    if all_:
        from harness.core.tables import write_guesses
        from harness.jobs.attack.results import every_guess

        guesses = every_guess(folder)
        write_guesses(destination, guesses)
        rows = len(guesses.ids)
    else:
        from harness.core.submission import write_submission
        from harness.jobs.attack.results import submission_now

        submission = submission_now(folder)
        where = sys.stdout.buffer if is_stdout else destination
        write_submission(where, submission.ids, submission.suffixes, is_private=False)
        rows = len(submission.ids)
    if json:
        print_json({"run": folder.id, "path": str(destination.absolute()), "rows": rows})
    elif not is_stdout:
        print(destination)
