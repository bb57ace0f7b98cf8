"""The `harness` command: which words it knows, and how errors leave it."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from harness.cli import (
    attacks,
    audits,
    bench,
    compare,
    data,
    demo,
    doctor,
    leaderboard,
    package,
    report,
    rerun,
    rounds,
    run,
    runs,
    score,
    tune,
    verify,
)
from harness.cli.output import is_terminal, sanitize, say

app = typer.Typer(
    name="harness",
    invoke_without_command=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def open_screen(
    context: typer.Context,
    home: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where runs live, instead of HARNESS_HOME.", show_default=False)
    ] = None,
    attacks_folder: Annotated[
        Path | None,
        typer.Option("--attacks", metavar="DIR", help="A folder of attacks that the screen lists before all others."),
    ] = None,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Targeted training-data extraction from language models: run attacks under a budget, score and compare them.

    Alone, in a terminal: the screen. With --debug a defect shows its traceback.
    """
    if home is not None:
        os.environ["HARNESS_HOME"] = str(home.absolute())
    if version:
        from harness import __version__

        print(__version__)
        raise typer.Exit
    if context.invoked_subcommand is not None:
        if attacks_folder is not None:
            raise typer.BadParameter("--attacks stands after the command: harness run ATTACK --attacks DIR")
        return
    if not is_terminal():
        print(context.get_help())
        raise typer.Exit(2)
    from harness.tui.app import HarnessApp, show

    show(HarnessApp(attacks_folder=attacks_folder))


for command in (run.run, run.watch, run.stop, run.resume, run.logs, run.show, run.export, score.score, score.validate):
    app.command()(command)
app.command()(compare.compare)
app.command()(report.report)
app.command()(package.package)
app.command()(rerun.rerun)
app.command()(verify.verify)
app.command()(leaderboard.leaderboard)
app.command()(demo.demo)
app.command()(bench.bench)
app.command()(tune.tune)
app.command()(doctor.doctor)
app.add_typer(runs.app, name="runs")
app.add_typer(attacks.app, name="attacks")
app.add_typer(audits.app, name="audit")
app.add_typer(data.app, name="data")
app.add_typer(rounds.app, name="rounds")


def main() -> None:
    """Entry point: one sentence and exit code 1 for a HarnessError, 2 for usage; a traceback only with --debug."""
    options = sys.argv[: sys.argv.index("--")] if "--" in sys.argv else sys.argv
    debug = "--debug" in options
    if debug:
        sys.argv.remove("--debug")
    try:
        app()
    except BrokenPipeError:
        # The reader of our stdout went away (`harness runs | head`); what is unwritten has no reader.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except Exception as error:
        from harness.core.errors import HarnessError

        if debug:
            raise
        if isinstance(error, HarnessError):
            say(f"harness: {sanitize(str(error))}")
        else:
            say(f"harness: a defect of its own: {sanitize(repr(error))}; --debug shows where, and a report helps.")
        sys.exit(1)
