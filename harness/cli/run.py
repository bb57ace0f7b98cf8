"""`harness run` and what is done to one run: watch, stop, resume, logs, show, export."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.completion import attack_names, round_names, run_names
from harness.cli.output import is_terminal, print_json, sanitize, say

RunName = Annotated[
    str, typer.Argument(help="A run's id, its unambiguous start, or `latest`.", metavar="RUN", autocompletion=run_names)
]
Json = Annotated[bool, typer.Option("--json", help="One line of JSON on stdout.")]


def run(
    attack: Annotated[
        str,
        typer.Argument(
            metavar="ATTACK", help="An attack's name; `harness attacks` lists them.", autocompletion=attack_names
        ),
    ],
    round_: Annotated[
        str,
        typer.Option(
            "--round", "-r", metavar="ROUND", help="A round's name, or its TOML file.", autocompletion=round_names
        ),
    ] = "demo",
    target: Annotated[str | None, typer.Option(help="A hub id or a folder, instead of the round's target.")] = None,
    revision: Annotated[str | None, typer.Option(help="The revision of a hub target.")] = None,
    budget: Annotated[str | None, typer.Option(help="Wall clock such as 24h or 90m, instead of the round's.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", "-s", metavar="KEY=VALUE", help="A parameter; may be given often.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of every draw.")] = 0,
    limit: Annotated[int | None, typer.Option(min=1, help="Attack the first N examples only.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, float32, float16 or bfloat16.")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads; all usable cores by default.")] = None,
    attacks: Annotated[Path | None, typer.Option(help="A folder of attacks that comes before all others.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Resolve and check everything, start nothing.")] = False,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return as soon as the run can be observed.")] = False,
    json: Json = False,
) -> None:
    """Run an attack on a round, under its budget."""
    from harness.cli.resolving import resolved_run
    from harness.cli.watching import follow
    from harness.jobs.attack.planning import start_attack
    from harness.runs.folder import RunFolder
    from harness.runs.summary import run_summary

    plan = resolved_run(
        attack,
        round_name=round_,
        target=target,
        revision=revision,
        budget=budget,
        settings=set_ or [],
        seed=seed,
        limit=limit,
        device=device,
        dtype=dtype,
        threads=threads,
        attacks=attacks,
    )
    if dry_run:
        print(plan.spec.model_dump_json(indent=None if json else 2))
        return
    folder: RunFolder = start_attack(plan.spec, plan.attack)
    if detach:
        if json:
            print_json(run_summary(folder).as_json())
        else:
            print(folder.id)
            say(f"harness watch {folder.id}")
        return
    say(f"run {folder.id} · Ctrl-C leaves it running")
    follow(folder, json=json)


def watch(
    run: RunName = "latest",
    plain: Annotated[bool, typer.Option("--plain", help="One live line, where there is a terminal too.")] = False,
    json: Json = False,
) -> None:
    """Watch a run: on a terminal its screen, else one live line until it is over; leaving changes nothing for it."""
    from harness.runs.folder import run_folder

    folder = run_folder(run)
    if not plain and not json and is_terminal():
        from harness.tui.app import HarnessApp
        from harness.tui.app import show as show_screen

        show_screen(HarnessApp(watched=folder))
        return
    from harness.cli.watching import follow

    follow(folder, json=json)


def stop(run: RunName, json: Json = False) -> None:
    """End a run soon; what it has found stays, and it can be resumed."""
    from harness.runs.folder import run_folder
    from harness.runs.launch import stop_run
    from harness.runs.summary import run_summary

    folder = run_folder(run)
    status = stop_run(folder)
    if json:
        print_json(run_summary(folder).as_json())
    else:
        print(f"{folder.id}: {status}")


def resume(
    run: RunName,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return as soon as the run can be observed.")] = False,
    json: Json = False,
) -> None:
    """Go on with a run that was stopped, crashed, or lost its supervisor, within what is left of its budget."""
    from harness.cli.resolving import weights_sha256_now
    from harness.cli.watching import follow
    from harness.runs.folder import run_folder
    from harness.runs.launch import resume_run
    from harness.runs.summary import run_summary

    folder = run_folder(run)
    resume_run(folder, weights_sha256=weights_sha256_now(folder.job()))
    if detach:
        print_json(run_summary(folder).as_json()) if json else print(folder.id)
        return
    follow(folder, json=json)


def logs(
    run: RunName,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the last lines; 0 for all.")] = 200,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on as the log grows, until the run is over.")
    ] = False,
) -> None:
    """Print what a run's worker printed."""
    from harness.cli.watching import log_lines
    from harness.runs.folder import run_folder

    for line in log_lines(run_folder(run), last=lines, follow=follow):
        print(sanitize(line), flush=follow)


def show(
    run: RunName,
    example: Annotated[
        int | None, typer.Option(metavar="ID", help="One example instead: its prefix, answer and all candidates.")
    ] = None,
    json: Json = False,
) -> None:
    """Print everything about a run: what was resolved, how it went, what it came to."""
    from harness.cli.describing import described, example_described, shown_json
    from harness.runs.folder import run_folder

    folder = run_folder(run)
    if example is not None:
        from harness.analysis.candidates import load_example

        found = load_example(folder, example)
        print_json(found.as_json()) if json else print(example_described(folder, found))
    elif json:
        print_json(shown_json(folder))
    else:
        print(described(folder))


def export(
    run: RunName,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A .csv, .parquet or .jsonl file; - for stdout.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every guess with its score, not the submission alone.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the file.")] = False,
) -> None:
    """Write a run's submission, made anew from its record, or with --all every guess that counts."""
    from harness.core.errors import HarnessError
    from harness.runs.folder import run_folder

    folder = run_folder(run)
    destination = out if out is not None else Path(f"{folder.id}.csv")
    if destination.exists() and not force and str(destination) != "-":
        raise HarnessError(f"{destination} is there already; --force replaces it.")
    if not all_ and str(destination) != "-" and destination.suffix != ".csv":
        raise HarnessError(f"{destination}: a submission is a .csv; --all writes .parquet and .jsonl as well.")
    if not destination.absolute().parent.is_dir():
        raise HarnessError(f"{destination.parent}: no such folder.")
    if all_:
        from harness.core.tables import write_guesses
        from harness.jobs.attack.results import every_guess

        write_guesses(destination, every_guess(folder))
    else:
        from harness.core.submission import write_submission
        from harness.jobs.attack.results import submission_now

        submission = submission_now(folder)
        where = sys.stdout.buffer if str(destination) == "-" else destination
        write_submission(where, submission.ids, submission.suffixes, is_private=False)
    if str(destination) != "-":
        print(destination)
