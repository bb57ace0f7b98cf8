"""What all commands share: options accepted everywhere, the layout of help texts, and a default sub-command."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from harness.cli import output

CommandFunction = TypeVar("CommandFunction", bound=Callable[..., Any])

PANELS = ("Runs", "Attacks", "Scoring", "Submissions", "Audits", "Data and set-up")

EXIT_CODES = (
    "Exit codes: 0 done; 1 failed; 2 wrong usage; 3 ended incomplete or different (a run that ran out of time or was "
    "stopped, a verification that differs); 130 interrupted by Ctrl-C."
)


def _set_home(home: Path | None) -> None:
    if home is not None:
        os.environ["HARNESS_HOME"] = str(home.absolute())


def _set_quiet(is_quiet: bool) -> None:
    output.is_quiet |= is_quiet


def _set_debug(is_debug: bool) -> None:
    output.is_debug |= is_debug


def _common(
    home: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Directory of runs, instead of HARNESS_HOME.", callback=_set_home, expose_value=False
        ),
    ] = None,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", help="Print results and errors only.", callback=_set_quiet, expose_value=False),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option("--debug", help="Print the traceback of an error.", callback=_set_debug, expose_value=False),
    ] = False,
) -> None:
    """Declare the options that every command accepts."""


def _common_options() -> list[Any]:
    app = typer.Typer(add_completion=False)
    app.command()(_common)
    return list(get_command(app).params)


_COMMON_OPTIONS = _common_options()
_COMMON_NAMES = frozenset(option.name for option in _COMMON_OPTIONS)


def _write_options(command: Any, context: Any, formatter: Any) -> None:
    """Write arguments, options and common options as three sections."""
    sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], "Common options": []}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is None:
            continue
        if parameter.param_type_name == "argument":
            # The type of an argument says nothing that its help does not say.
            sections["Arguments"].append((parameter.metavar or parameter.name.upper(), record[1]))
        elif parameter.name in _COMMON_NAMES or parameter.name == "help":
            sections["Common options"].append(record)
        else:
            sections["Options"].append(record)
    for title, records in sections.items():
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


class HarnessCommand(TyperCommand):
    """A command that accepts the common options."""

    def get_params(self, ctx: Any) -> list[Any]:
        return [*self.params, *_COMMON_OPTIONS, *super().get_params(ctx)[len(self.params) :]]

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.translate({ord("{"): "", ord("}"): ""}) for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_options(self, ctx, formatter)


class HarnessGroup(TyperGroup):
    """A group of commands that accepts the common options; its help lists the commands by their panel."""

    def get_params(self, ctx: Any) -> list[Any]:
        return [*self.params, *_COMMON_OPTIONS, *super().get_params(ctx)[len(self.params) :]]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_options(self, ctx, formatter)
        panels: dict[str, list[tuple[str, str]]] = {panel: [] for panel in PANELS}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            if not command.hidden:
                panel = getattr(command, "rich_help_panel", None) or "Commands"
                panels.setdefault(panel, []).append((name, summary_of(command)))
        width = max(len(name) for records in panels.values() for name, _ in records)
        for panel, records in panels.items():
            if records:
                with formatter.section(panel):
                    formatter.write_dl([(name.ljust(width), summary) for name, summary in records])

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, args)
        _refuse_options_before_a_command(self, ctx)
        return rest


class GroupWithDefault(HarnessGroup):
    """A group whose first command runs if the arguments do not begin with the name of a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)


def _refuse_options_before_a_command(group: Any, context: Any) -> None:
    """Raise a usage error if an option of the group, such as `--json`, precedes the name of a command."""
    if not context._protected_args or context.parent is None:
        return
    for parameter in group.params:
        source = context.get_parameter_source(parameter.name)
        if source is not None and source.name == "COMMANDLINE":
            option, command = parameter.opts[0], context._protected_args[0]
            raise typer.BadParameter(
                f"write it after the command: {context.command_path} {command} {option}", ctx=context, param_hint=option
            )


def summary_of(command: Any) -> str:
    """Return the first line of a command's help."""
    return str(command.short_help or command.help or "").strip().partition("\n")[0]


class CommandLine(typer.Typer):
    """A Typer application whose commands accept the common options."""

    def __init__(self, *, group: type[HarnessGroup] = HarnessGroup, **settings: Any) -> None:
        super().__init__(cls=group, rich_markup_mode=None, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[CommandFunction], CommandFunction]:
        """Return a decorator that adds a function as a command."""
        return super().command(name, cls=HarnessCommand, **settings)
