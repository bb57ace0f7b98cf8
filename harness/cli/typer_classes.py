"""Typer's classes as all commands use them: common options, classes of options, and the layout of help texts."""

import functools
import inspect
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args

import typer
from typer import Option
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from harness.cli import output
from harness.cli.completion import COMPLETIONS
from harness.core.text import sanitize

if TYPE_CHECKING:
    from harness.core.options import Options
    from harness.core.parameters import Parameter

CommandFunction = TypeVar("CommandFunction", bound=Callable[..., Any])

EXIT_CODES = (
    "Exit codes: 0 done; 1 failed; 2 usage error; 3 ended incomplete or different (a run that ran out of time or was "
    "stopped, a verification that differs); 130 interrupted by Ctrl-C."
)
_CONTEXT = "command_context"
_METAVARS = {int: "N", float: "NUMBER"}
_RANGE = re.compile(r"\bx>=(?P<minimum>[\d.]+)|\b(?:(?P<low>[\d.]+)<=)?x<=(?P<maximum>[\d.]+)")


def _set_home(home: Path | None) -> None:
    if home is not None:
        os.environ["HARNESS_HOME"] = str(home.absolute())


def _set_quiet(is_quiet: bool) -> None:
    output.is_quiet |= is_quiet


def _set_debug(is_debug: bool) -> None:
    output.is_debug |= is_debug


def _common(
    home: Path | None = Option(
        None, metavar="DIR", help="Directory of runs, instead of HARNESS_HOME.", callback=_set_home, expose_value=False
    ),
    quiet: bool = Option(
        False, "--quiet", help="Print results and errors only.", callback=_set_quiet, expose_value=False
    ),
    debug: bool = Option(
        False, "--debug", help="Print the traceback of an error.", callback=_set_debug, expose_value=False
    ),
) -> None:
    """Declare the options that every command accepts."""


def _common_options() -> list[Any]:
    app = typer.Typer(add_completion=False)
    app.command()(_common)
    return list(get_command(app).params)


_COMMON_OPTIONS = _common_options()
_COMMON_NAMES = frozenset({"help", *(option.name for option in _COMMON_OPTIONS)})


def is_given(context: typer.Context, name: str) -> bool:
    """Return True if the command line has the parameter `name`, even with its default value."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


class _WithCommonOptions:
    """The common part of commands and groups, mixed into Typer's classes, which call these methods."""

    params: list[Any]

    def get_params(self, ctx: Any) -> list[Any]:
        inherited: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        return [*self.params, *_COMMON_OPTIONS, *inherited[len(self.params) :]]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)  # type: ignore[misc,no-any-return]
        except typer.BadParameter as error:
            from pydantic import ValidationError

            from harness.core.faults import fault_message

            if isinstance(error.__cause__, ValidationError):
                error.message = sanitize(fault_message(error.__cause__.errors(include_url=False)[0]))
            raise

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        arguments = [parameter for parameter in self.params if parameter.param_type_name == "argument"]
        names = [argument.metavar + ("..." if argument.nargs == -1 else "") for argument in arguments]
        pieces = [name if argument.required else f"[{name}]" for name, argument in zip(names, arguments, strict=True)]
        return ["[OPTIONS]", *pieces, *(["COMMAND", "[ARGS]..."] if hasattr(self, "commands") else [])]

    def help_sections(self, ctx: Any) -> dict[str, list[tuple[str, str]]]:
        """Return the names and the help texts of arguments, of each group of options, and of common options."""
        options = (parameter for parameter in self.params if parameter.param_type_name != "argument")
        groups = dict.fromkeys(getattr(parameter, "rich_help_panel", None) or "Options" for parameter in options)
        sections: dict[str, list[tuple[str, str]]] = {name: [] for name in ("Arguments", *groups, "Common options")}
        for parameter in self.get_params(ctx):
            type_ = parameter.type_descriptor
            if parameter.metavar is None and not type_.is_choice:
                parameter.metavar = _METAVARS.get(type_.annotation, parameter.name.strip("_").upper())
            if (record := parameter.get_help_record(ctx)) is None:
                continue
            if parameter.param_type_name == "argument":
                # The type of an argument says nothing that its help does not say.
                sections["Arguments"].append((parameter.metavar, record[1]))
            else:
                group = "Common options" if parameter.name in _COMMON_NAMES else parameter.rich_help_panel or "Options"
                sections[group].append((record[0], _RANGE.sub(_range_in_words, record[1])))
        return sections

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_sections(formatter, self.help_sections(ctx))


def _range_in_words(match: re.Match[str]) -> str:
    """Return the range of a number, which Typer writes as `x>=1` or `1<=x<=1000`, in words."""
    return in_words(match["minimum"] or match["low"], match["maximum"])


def in_words(minimum: str | None, maximum: str | None) -> str:
    """Return the words for a range, of which one end may be open."""
    if minimum is None:
        return f"at most {maximum}"
    return f"at least {minimum}" if maximum is None else f"{minimum} to {maximum}"


def _write_sections(formatter: Any, sections: dict[str, list[tuple[str, str]]]) -> None:
    for title, records in sections.items():
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


class HarnessCommand(_WithCommonOptions, TyperCommand):
    """A command that accepts the common options."""


class HarnessGroup(_WithCommonOptions, TyperGroup):
    """A group of commands that accepts the common options; its help lists the commands by their panel."""

    panels: tuple[str, ...] = ("Commands",)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        super().format_options(ctx, formatter)
        panels: dict[str, list[tuple[str, str]]] = {panel: [] for panel in self.panels}
        width = max(len(name) for name, command in self.commands.items() if not command.hidden)
        for name, command in self.commands.items():
            if command.hidden:
                continue
            panel = getattr(command, "rich_help_panel", None) or "Commands"
            panels[panel].append((name.ljust(width), summary_of(command)))
        _write_sections(formatter, panels)


def summary_of(command: Any) -> str:
    """Return the first line of a command's help."""
    return str(command.short_help or command.help or "").strip().partition("\n")[0]


class CommandLine(typer.Typer):
    """A Typer application whose commands accept the common options."""

    def __init__(self, *, group: type[HarnessGroup] = HarnessGroup, **settings: Any) -> None:
        super().__init__(cls=group, rich_markup_mode=None, **{"add_completion": False, **settings})

    def command(self, name: str | None = None, **settings: Any) -> Callable[[CommandFunction], CommandFunction]:
        """Return a decorator that adds a function as a command.

        A parameter whose type is a class of `Options` becomes one option per field of the class. Fields
        that the command has no option for are named as in `Annotated[RunRequest, Without("group")]`.
        """
        add = super().command(name, cls=HarnessCommand, **settings)

        def decorate(function: CommandFunction) -> CommandFunction:
            add(one_option_per_field(function))
            return function

        return decorate


def one_option_per_field(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with each parameter that is a class of options replaced by one parameter per field."""
    parameters: list[inspect.Parameter] = []
    classes: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        options, *details = get_args(parameter.annotation) or (parameter.annotation,)
        if hasattr(options, "model_fields"):
            left_out = {name for detail in details if isinstance(detail, Without) for name in detail.names}
            classes[parameter.name] = (options, [field for field in _fields(options) if field.name not in left_out])
            parameters += _parameters(*classes[parameter.name])
        else:
            parameters.append(parameter)

    if not classes:
        return function

    @functools.wraps(function)
    def command(**values: Any) -> None:
        context = values.pop(_CONTEXT)
        for name, (options, fields) in classes.items():
            typed = {field.name: _value(field, values.pop(field.name)) for field in fields}
            # Without a value, the default of the field counts.
            set_fields = {field: value for field, value in typed.items() if is_given(context, field)}
            values[name] = options.checked(**set_fields)
        function(**values)

    parameters.append(inspect.Parameter(_CONTEXT, inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context))
    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


class Without:
    """The names of fields for which a command has no option."""

    def __init__(self, *names: str) -> None:
        self.names = names


def _fields(options: "type[Options]") -> "list[Parameter]":
    """Return the fields of a class that are options."""
    # It imports pydantic, which not every command needs.
    from harness.core.parameters import parameters_in

    return [field for field in parameters_in(options.model_json_schema()) if not field.hints.get("is_hidden")]


def _value(field: "Parameter", value: Any) -> Any:
    separator = field.hints.get("separator")
    return value.replace(separator, " ").split() if separator and value else value


def _parameters(options: "type[Options]", fields: "list[Parameter]") -> list[inspect.Parameter]:
    """Return the parameters of a command for the fields of a class; those below its first heading come last."""
    panels = options.panels()
    first = next(vars(base)["heading"] for base in options.__mro__[::-1] if "heading" in vars(base))
    parameters = [_parameter(field, panels[field.name]) for field in fields]
    return sorted(parameters, key=lambda parameter: panels[parameter.name] == first)


def _parameter(option: "Parameter", heading: str) -> inspect.Parameter:
    """Return the parameter of a command for one field of a class of options."""
    from harness.core.parameters import type_of

    hints, default = option.hints, option.hints.get("default")
    is_list, separator = option.value_type is list, hints.get("separator")
    kind: Any = type_of(option.rules["items"] if is_list else option.rules) or str
    metavar = hints.get("metavar") or (f"<{'|'.join(option.choices)}>" if option.choices else None)
    annotation: Any
    if is_list:
        annotation = str | None if separator else list[kind] | None
        default = separator.join(map(str, default or ())) or None if separator else None
    else:
        annotation = kind | None if default is None else kind
    if hints.get("is_argument"):
        info = typer.Argument(metavar=metavar, help=option.description)
    else:
        info = typer.Option(
            f"--{(hints.get('name') or option.name).replace('_', '-')}",
            *filter(None, [hints.get("short") or ("-r" if option.name == "round" else "")]),
            metavar=metavar,
            help=_help_of(option),
            autocompletion=COMPLETIONS.get(option.name.rpartition("_")[2]),
            rich_help_panel=heading,
        )
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if option.default is None else default,
        annotation=Annotated[annotation, info],
    )


def _help_of(option: "Parameter") -> str:
    """Return the help of an option: its description, what counts without a value, and its range.

    The class checks the range, not Typer, so that an error is one sentence.
    """
    ends = [option.rules.get(key) for key in ("minimum", "maximum")]
    minimum, maximum = (None if end is None else f"{end:,}" for end in ends)
    range_ = in_words(minimum, maximum) if minimum or maximum else ""
    if option.rules.keys() & {"exclusiveMinimum", "exclusiveMaximum"}:
        range_ = ", ".join(option.bounds)
    parts = [
        option.description,
        f"[default: {unset}]" if (unset := option.hints.get("unset")) else "",
        f"[{range_}]" if range_ else "",
    ]
    return "  ".join(filter(None, parts))
