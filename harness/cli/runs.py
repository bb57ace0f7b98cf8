"""`harness runs`: the runs of this machine, and housekeeping among them."""

from typing import Annotated

import typer

from harness.cli.completion import run_names
from harness.cli.output import print_json, sanitize, say

app = typer.Typer(help="List runs; remove or annotate one.", no_args_is_help=False, rich_markup_mode=None)
RunName = Annotated[
    str, typer.Argument(help="A run's id, its unambiguous start, or `latest`.", metavar="RUN", autocompletion=run_names)
]


@app.callback(invoke_without_command=True)
def list_runs(
    context: typer.Context,
    round_: Annotated[str | None, typer.Option("--round", "-r", help="Runs of one round only.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One line of JSON on stdout.")] = False,
) -> None:
    """List runs, newest first."""
    if context.invoked_subcommand is not None:
        if json or round_ is not None:
            raise typer.BadParameter("options stand after the command: harness runs rm RUN")
        return
    from harness.cli.describing import runs_table
    from harness.core.errors import HarnessError
    from harness.runs.folder import all_run_folders
    from harness.runs.summary import run_summary

    summaries = []
    for folder in all_run_folders():
        try:
            summary = run_summary(folder)
        except HarnessError as error:
            # One unreadable run must not hide the others.
            say(f"{folder.id}: {error}")
            continue
        if round_ in (None, summary.round):
            summaries.append(summary)
    if json:
        print_json([summary.as_json() for summary in summaries])
    elif summaries:
        print(runs_table(summaries))
    elif round_ is not None:
        say(f"no runs of the round {sanitize(round_)}.")
    else:
        say("no runs yet: harness run ATTACK --round ROUND starts one.")


@app.command()
def rm(
    runs: Annotated[list[str], typer.Argument(help="Runs to delete, by id or unambiguous start.", metavar="RUN…")],
    force: Annotated[bool, typer.Option("--force", help="Stop a run that is still going first.")] = False,
) -> None:
    """Delete runs with everything they recorded."""
    from harness.core.errors import HarnessError
    from harness.runs.folder import remove_run, run_folder
    from harness.runs.launch import stop_run
    from harness.runs.summary import run_status

    folders = list(dict.fromkeys(run_folder(name) for name in runs))
    for folder in folders:
        if not run_status(folder).is_over:
            if not force:
                raise HarnessError(f"{folder.id} is still going; harness stop {folder.id} ends it, or --force.")
            stop_run(folder)
        remove_run(folder)
        print(folder.id)


@app.command()
def note(
    run: RunName,
    text: Annotated[str | None, typer.Argument(help="The note; without it the present one is printed.")] = None,
) -> None:
    """Attach a line of text to a run."""
    from harness.core.files import write_atomically
    from harness.runs.folder import run_folder

    folder = run_folder(run)
    if text is None:
        print(sanitize(folder.note.read_text(encoding="utf-8")) if folder.note.exists() else "")
    else:
        write_atomically(folder.note, text)
