"""The `harness` command: its sub-commands, its exit codes, and how errors are printed."""

import os
import sys
from typing import Annotated

import typer

from harness.cli import (
    attacks,
    audit,
    bench,
    compare,
    data,
    demo,
    doctor,
    leaderboard,
    output,
    package,
    report,
    rerun,
    rounds,
    run_control,
    run_records,
    score,
    tune,
    verify,
)
from harness.cli.options import Attacks
from harness.cli.typer_classes import EXIT_CODES, CommandLine, HarnessGroup

PANELS = {
    "Runs": (
        run_control.run,
        run_control.watch,
        run_control.stop,
        run_control.resume,
        run_records.show,
        run_records.logs,
        run_records.export,
        run_records.app,
        demo.demo,
    ),
    "Attacks": (attacks.app, tune.tune),
    "Scoring": (score.score, score.validate, compare.compare, report.report),
    "Submissions": (package.app, verify.verify, rerun.rerun, leaderboard.leaderboard),
    "Audits": (audit.app,),
    "Data and set-up": (rounds.app, data.app, doctor.doctor, bench.bench),
}
"""The commands by their heading in `harness --help`."""


class _AllCommands(HarnessGroup):
    panels = tuple(PANELS)


app = CommandLine(
    name="harness",
    group=_AllCommands,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_CODES,
)


@app.callback()
def open_screen(
    context: typer.Context,
    attacks: Attacks = None,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Targeted training-data extraction from language models: run attacks under a budget, score and compare them.

    Without a command, in a terminal, the screen opens.
    """
    if version:
        from harness import __version__

        print(__version__)
        raise typer.Exit
    if context.invoked_subcommand is not None:
        if attacks is not None:
            raise typer.BadParameter("write it after the command: harness run ATTACK --attacks DIR")
        return
    if not output.is_terminal():
        print(context.get_help())
        raise typer.Exit(2)
    from harness.tui.app import HarnessApp, show

    show(HarnessApp(attacks_folder=attacks))


for panel, commands in PANELS.items():
    for command in commands:
        if isinstance(command, typer.Typer):
            app.add_typer(command, rich_help_panel=panel)
        else:
            app.command(rich_help_panel=panel)(command)


def main() -> None:
    """Run the command line, and exit with its code (docs/reference/exit-codes.md)."""
    code = _exit_code()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of stdout has gone, as in `harness runs | head`. Nobody misses what was not written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _exit_code() -> int | str | None:
    """Run the command line and return its exit code. Errors are printed."""
    output.is_quiet = output.is_debug = False
    if not sys.platform.startswith("linux"):
        output.print_error(f"only Linux is supported, and this is {sys.platform}. Use a Linux machine or a container.")
        return 1
    try:
        app(prog_name="harness")
    except SystemExit as ending:
        # Click turns a closed stdout into exit code 1.
        return 0 if isinstance(ending.__context__, BrokenPipeError) else ending.code
    except BrokenPipeError:
        return 0
    except Exception as error:
        from harness.core.errors import HarnessError, UnknownNameError

        if output.is_debug:
            raise
        is_expected = isinstance(error, HarnessError)
        output.print_error(
            str(error) if is_expected else f"internal error. Please report it; --debug prints the traceback. {error!r}"
        )
        return 2 if isinstance(error, UnknownNameError) else 1
    return 0
