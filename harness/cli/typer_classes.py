"""Typer's classes as all commands use them: common options, classes of options, and the layout of help texts."""

import functools
import inspect
import os
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args

import typer
from typer import Option
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from harness.cli import output
from harness.cli.completion import COMPLETIONS
from harness.core.errors import unknown_name
from harness.core.text import sanitize

if TYPE_CHECKING:
    from harness.core.options import Options
    from harness.core.parameters import Parameter

CommandFunction = TypeVar("CommandFunction", bound=Callable[..., Any])

EXIT_CODES = (
    "Exit codes: 0 done; 1 failed; 2 usage error; 3 ended incomplete or different (a run that ran out of time or was "
    "stopped, a verification that differs); 130 interrupted by Ctrl-C."
)
_COMMON = "Common options"
_HELP = "Show the essential options (-h) or all of them (--help), and exit."
DETAILS = frozenset({"Model", "Endpoint", "Measurement", "Corpus", "Device", "Cluster", _COMMON})
"""The panels of options that `-h` leaves out. An option in any other panel is essential.

The panel is declared with the option: as `panel` of the field or `heading` of its class, or as `rich_help_panel`.
The short help of a group lists only its commands.
"""
_NAME_WIDTH = 24
"""Columns. The text of an option with a longer name begins on the next line."""
_CONTEXT = "command_context"
_IS_SHORT = "harness.help_is_short"
_METAVARS = {int: "N", float: "N"}
_RANGE = re.compile(r"(?:; )?\b(?:x>=(?P<minimum>[\d.]+)|(?:(?P<low>[\d.]+)<=)?x<=(?P<maximum>[\d.]+))")
TyperUsageError: Any = typer.BadParameter.__base__
"""The class of errors in the use of commands and options, to which Typer gives no public name."""


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


def usage_sentence(error: Any) -> str:
    """Return the sentence of a usage error: it names the command or the option, and says what to do."""
    advice = f"See `{error.ctx.command_path} --help`." if error.ctx else ""
    if hasattr(error, "possibilities"):
        options = [name for parameter in error.ctx.command.get_params(error.ctx) for name in parameter.opts]
        return str(unknown_name("option", error.option_name, options, see=advice[5:-2]))
    sentence = error.message
    if isinstance(error, typer.BadParameter):
        place = error.param_hint
        if place is None and error.param is not None:
            is_argument = error.param.param_type_name == "argument"
            place = error.param.metavar if is_argument else max(error.param.opts, key=len)
        sentence = f"{place}: {sentence or f'is required. {advice}'}"
    elif not sentence.endswith("?"):
        sentence = f"{sentence[:1].lower()}{sentence[1:].rstrip('.')}. {advice}"
    return sentence if sentence.endswith((".", "?")) else f"{sentence}."


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
        ctx.meta[_IS_SHORT] = "-h" in args and "--help" not in args
        try:
            return super().parse_args(ctx, args)  # type: ignore[misc,no-any-return]
        except TyperUsageError as error:
            error.ctx = error.ctx or ctx
            from pydantic import ValidationError

            from harness.core.faults import fault_message, value_clause

            if isinstance(error.__cause__, ValidationError):
                fault = error.__cause__.errors(include_url=False)[0]
                error.message = sanitize(f"{fault_message(fault)}{value_clause(fault)}")
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
        panels = ("Arguments", *sorted(groups, key=DETAILS.__contains__), _COMMON)
        sections: dict[str, list[tuple[str, str]]] = {panel: [] for panel in panels}
        for parameter in self.get_params(ctx):
            type_ = parameter.type_descriptor
            if parameter.metavar is None and not type_.is_choice:
                parameter.metavar = _METAVARS.get(type_.annotation, parameter.name.strip("_").upper())
            if (record := parameter.get_help_record(ctx)) is None:
                continue
            text = _HELP if parameter.name == "help" else _RANGE.sub(_range_in_words, record[1])
            text = text.replace("[; ", "[").replace("  []", "").replace("]  [", "; ")
            if parameter.param_type_name == "argument":
                # Its help says what the type of an argument is, and the usage line if it is required.
                sections["Arguments"].append((parameter.metavar, text.removesuffix("  [required]")))
            else:
                group = _COMMON if parameter.name in _COMMON_NAMES else parameter.rich_help_panel or "Options"
                sections[group].append((record[0], text))
        return sections

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        if not ctx.meta.get(_IS_SHORT):
            super().format_help_text(ctx, formatter)  # type: ignore[misc]
            return
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(summary_of(self))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections = self.help_sections(ctx)
        common = sections.pop(_COMMON)
        if ctx.meta.get(_IS_SHORT):
            sections = {} if hasattr(self, "commands") else sections
            _write_sections(formatter, {title: rows for title, rows in sections.items() if title not in DETAILS})
        elif " " not in ctx.command_path:
            _write_sections(formatter, sections | {_COMMON: common})
        else:
            _write_sections(formatter, sections)
            names = ", ".join(name for name, _ in common)
            formatter.write(f"\n{_COMMON} (see harness --help): {names}\n")

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples and where to read more, and what `-h` leaves out or the end of a complete help."""
        examples, page = examples_of(ctx.command_path)
        if examples:
            with formatter.section("Examples"):
                formatter.write("".join(f"  {line}\n" for line in examples.splitlines()))
        formatter.write(f"\nRead more: {page}\n" if page else "\n")
        if ctx.meta.get(_IS_SHORT):
            formatter.write(f"All options: {ctx.command_path} --help\n")
        else:
            super().format_epilog(ctx, formatter)  # type: ignore[misc]


def examples_of(command_path: str) -> tuple[str, str]:
    """Return the examples of a command such as `harness run`, one comment and one command each, and a page to read."""
    texts = tomllib.loads(Path(__file__).with_name("examples.toml").read_text(encoding="utf-8"))
    entry = texts.get(command_path, {})
    return entry.get("examples", "").strip(), entry.get("page", "")


def _range_in_words(match: re.Match[str]) -> str:
    """Return the range of a number, which Typer writes as `x>=1` or `1<=x<=1000`, in words."""
    words = in_words(match["minimum"] or match["low"], match["maximum"])
    return f"; {words}" if words else ""


def in_words(minimum: str | None, maximum: str | None) -> str:
    """Return a range, of which one end may be open, in short. A minimum of 0 or 1 goes without saying."""
    if minimum in (None, "0", "1"):
        return "" if maximum is None else f"max {maximum}"
    return f"min {minimum}" if maximum is None else f"{minimum} to {maximum}"


def _write_sections(formatter: Any, sections: dict[str, list[tuple[str, str]]]) -> None:
    for title, records in sections.items():
        if records:
            with formatter.section(title):
                formatter.write_dl(records, col_max=_NAME_WIDTH)


class HarnessCommand(_WithCommonOptions, TyperCommand):
    """A command that accepts the common options."""


class HarnessGroup(_WithCommonOptions, TyperGroup):
    """A group of commands that accepts the common options; its help lists the commands by their panel."""

    panels: tuple[str, ...] = ("Commands",)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands and not args[0].startswith("-"):
            raise unknown_name("command", args[0], self.commands, see=f"{ctx.command_path} --help")
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {panel: [] for panel in self.panels}
        width = max(len(name) for name, command in self.commands.items() if not command.hidden)
        for name, command in self.commands.items():
            if command.hidden:
                continue
            panel = getattr(command, "rich_help_panel", None) or "Commands"
            panels[panel].append((name.ljust(width), summary_of(command)))
        _write_sections(formatter, panels)
        super().format_options(ctx, formatter)


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
        that the command has no option for are named as in `Annotated[RunRequest, Without("group")]`. The help of the
        command is the docstring without its `Keys:`, the keys of the JSON that the function prints.
        """
        command = super().command

        def decorate(function: CommandFunction) -> CommandFunction:
            texts = {"help": (inspect.getdoc(function) or "").partition("\n\nKeys:")[0]}
            command(name, cls=HarnessCommand, **texts | settings)(one_option_per_field(function))
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
            help=_help_of(option, default),
            show_default=False,
            autocompletion=COMPLETIONS.get(option.name.rpartition("_")[2]),
            rich_help_panel=heading,
        )
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if option.default is None else default,
        annotation=Annotated[annotation, info],
    )


def _help_of(option: "Parameter", default: Any) -> str:
    """Return the help of an option: its description, its default or what counts without a value, and its range.

    The class checks the range, not Typer, so that an error is one sentence.
    """
    ends = [option.rules.get(key) for key in ("minimum", "maximum")]
    range_ = in_words(*(None if end is None else str(end) for end in ends))
    if option.rules.keys() & {"exclusiveMinimum", "exclusiveMaximum"}:
        bounds = [bound.replace("at most", "max") for bound in option.bounds if not bound.endswith((" 0", " 1"))]
        range_ = ", ".join(bounds)
    if isinstance(default, float):
        default = f"{default:.9f}".rstrip("0").rstrip(".")
    unset = option.hints.get("unset") or ("" if default is None or option.value_type is bool else default)
    notes = "; ".join(filter(None, [f"default: {unset}" if unset != "" else "", range_]))
    return f"{option.description}  [{notes}]" if notes else str(option.description)
