"""The `harness` command: its sub-commands, its exit codes, and how errors are printed."""

import contextlib
import errno
import gc
import importlib
import io
import os
import sys
from pathlib import Path
from typing import Any

import typer
from typer import Option
from typer.main import get_command

from harness.core.extras import clash_sentence, extra_of, missing_extra

try:
    from harness import __version__
except ImportError:
    # The file harness/__init__.py is that of another distribution, or was removed with it.
    sys.exit(f"harness: {clash_sentence() or 'harness/__init__.py is damaged. Install it again from the clone.'}")
from harness.cli import output
from harness.cli.interrupts import is_interrupt
from harness.cli.options import Attacks
from harness.cli.typer_classes import EXIT_CODES, CommandLine, HarnessGroup, TyperUsageError, usage_sentence
from harness.core.errors import HarnessError, UsageError, missing_path
from harness.core.paths import require_utf8, runs_home
from harness.runs.trash import free_expired

PANELS = {
    "Run": {
        "run": ("run:run", "Run an attack on a round."),
        "audit": ("audit:app", "Measure what a model has memorized."),
        "tune": ("tune:tune", "Search an attack's parameters on training examples."),
        "sweep": ("sweep:sweep", "Run every combination of a sweep file."),
        "demo": ("run:demo", "Run the baseline attack on the bundled demo target."),
    },
    "Watch and organize": {
        "list": ("lists:app", "List runs, audits, tunings, sweeps, attacks or rounds."),
        "show": ("show:show", "Show a run, audit, tuning, sweep, attack or round."),
        "watch": ("control:watch", "Watch a run or an audit until it is over."),
        "stop": ("control:stop", "Stop a run, an audit or a tuning. Its results are kept."),
        "resume": ("control:resume", "Continue a run, an audit, a tuning or a sweep."),
        "runs": ("runs:app", "Annotate, queue, delete and restore runs."),
    },
    "Results": {
        "score": ("score:score", "Check a submission, and score it against the answers."),
        "compare": ("compare:compare", "Compare two or more runs of one round."),
        "report": ("export:report", "Write a page about runs, a sweep or an audit."),
        "export": ("export:export", "Write a run to a file, or log it to MLflow."),
    },
    "Submissions": {"bundle": ("bundle:app", "Package, verify, run again and rank submissions.")},
    "Set up": {
        "new": ("new:app", "Write a new attack, or draw a round from a corpus."),
        "data": ("data:app", "Fetch data sets, write example texts, check rounds."),
        "doctor": ("doctor:doctor", "Check this machine, or measure its speed."),
    },
}
"""The commands by their heading in `harness --help`: module and attribute in harness.cli, and summary."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class _AllCommands(HarnessGroup):
    """All commands. The module of a command is imported when it runs, so that --help and the TUI start fast."""

    panels = tuple(PANELS)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, placeholder, rest = super().resolve_command(ctx, args)
        return name, None if placeholder is None else load_command(str(name)), rest


def load_command(name: str) -> Any:
    """Import the command or the group `name`."""
    (place,) = (commands[name][0] for commands in PANELS.values() if name in commands)
    module, _, attribute = place.partition(":")
    loaded = getattr(importlib.import_module(f"harness.cli.{module}"), attribute)
    if not isinstance(loaded, typer.Typer):
        loaded, function = CommandLine(), loaded
        loaded.command()(function)
    return get_command(loaded)


app = CommandLine(
    name="harness",
    group=_AllCommands,
    add_completion=True,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": sys.maxsize},
    epilog=EXIT_CODES,
)


@app.callback()
def open_tui(
    context: typer.Context,
    attacks: Attacks = None,
    version: bool = Option(False, "--version", help="Print the version and exit."),
) -> None:
    """Targeted training-data extraction from language models.

    Run attacks under a budget, score and compare them. Without a command, in a terminal, the TUI opens.
    """
    if version:
        print(__version__)
        raise typer.Exit
    free_expired()
    if context.invoked_subcommand is not None:
        if attacks is not None:
            raise typer.BadParameter(
                "write it after the command, as in `harness run ATTACK --attacks DIR`.", param_hint="--attacks"
            )
        return
    if not output.is_terminal():
        print(context.get_help())
        raise typer.Exit(2)
    # A tenth of the time to the first paint; the application enables it then.
    gc.disable()
    from harness.tui.app import HarnessApp, show

    show(HarnessApp(attacks_folder=attacks))


for panel, commands in PANELS.items():
    for name, (_, summary) in commands.items():
        app.command(name, help=summary, rich_help_panel=panel)(lambda: None)


def main() -> None:
    """Run the command line, and exit with its code (docs/reference/command-line.md)."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that is not UTF-8 has no en dash, and shows a question mark.
        sys.stdout.reconfigure(errors="replace")
    code = _exit_code()
    try:
        sys.stdout.flush()
    except OSError as error:
        # The reader of stdout may have gone, as in `harness runs | head`. Nobody misses what was not written then.
        if not isinstance(error, BrokenPipeError):
            output.print_error(_full_disk_sentence(error))
            code = code or 1
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _full_disk_sentence(error: OSError) -> str:
    """Return the sentence about a write that failed. Errors of an open file, such as stdout, name no file."""
    return f"output cannot be written ({error.strerror}). Free some space, or write to another disk."


def _exit_code() -> int | str | None:
    """Run the command line and return its exit code. Errors are printed."""
    output.is_quiet = output.is_debug = False
    if not sys.platform.startswith("linux"):
        output.print_error(f"only Linux is supported, and this is {sys.platform}. Use a Linux machine or a container.")
        return 1
    try:
        # Records, tables and pages are UTF-8. The working directory may be deleted.
        with contextlib.suppress(FileNotFoundError):
            for path in (".", *sys.argv[1:], str(runs_home())):
                require_utf8(path)
        # Without the standalone mode, Typer raises usage errors, and returns the code of an Exit.
        return app(prog_name="harness", standalone_mode=False) or 0
    except TyperUsageError as error:
        if error.message.startswith("Usage: "):  # a group without a command prints its help
            print(error.message, file=sys.stderr)
        else:
            output.print_error(usage_sentence(error))
        return 2
    except typer.Abort:
        output.print_error("aborted. Nothing was changed.")
        return 1
    except SystemExit as ending:
        # Click turns a closed stdout into exit code 1.
        return 0 if isinstance(ending.__context__, BrokenPipeError) else ending.code
    except BrokenPipeError:
        return 0
    except Exception as error:
        if output.is_debug:
            raise
        if isinstance(error, ModuleNotFoundError) and error.name is not None and (extra := extra_of(error.name)):
            error = missing_extra(error.name, extra, "this command")
        if isinstance(error, FileNotFoundError) and error.filename is not None:
            error = missing_path(Path(os.fsdecode(error.filename)))
        elif isinstance(error, OSError) and error.filename is not None:
            # A directory that is read-only, full or damaged.
            error = HarnessError(f"{error.filename}: {error.strerror}.")
        elif isinstance(error, OSError) and error.errno in _NO_ROOM:
            error = HarnessError(_full_disk_sentence(error))
        is_expected = isinstance(error, HarnessError)
        if not is_expected and is_interrupt(error):
            return 130
        output.print_error(
            str(error) if is_expected else f"internal error. Please report it; --debug prints the traceback. {error!r}"
        )
        return 2 if isinstance(error, UsageError) else 1
