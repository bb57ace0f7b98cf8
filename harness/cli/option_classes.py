"""Classes of options: a dataclass of Typer options, or the fields that declare the options of an audit."""

import dataclasses
import inspect
import types
from collections.abc import Callable, Mapping
from copy import copy
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Union, get_args, get_origin

import typer

from harness.cli.completion import round_names

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo


class OptionClass(NamedTuple):
    """The parameters of a command that stand for the fields of a class."""

    parameters: list[inspect.Parameter]
    make: Callable[[Mapping[str, Any]], Any]
    """Returns the instance with these values by name. Raises HarnessError for an invalid one."""


def option_class(annotation: Any) -> OptionClass | None:
    """Return how the fields of a class are given as options; None if `annotation` is no class of options."""
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        parameters = list(inspect.signature(annotation).parameters.values())
        if group := getattr(annotation, "group", None):
            parameters = [_in_group(parameter, group) for parameter in parameters]
        return OptionClass(parameters, lambda values: annotation(**values))
    if not hasattr(annotation, "model_fields"):
        return None
    fields = {name: field for name, field in annotation.model_fields.items() if not _hints(field).get("is_hidden")}

    def make(values: Mapping[str, Any]) -> Any:
        # Without a value, the default of the field counts.
        named = {name: _values(fields[name], value) for name, value in values.items() if value is not None}
        return annotation.checked(**named)

    # The fields of a base class with a heading of its own come last.
    root = next(base for base in reversed(annotation.__mro__) if "group" in vars(base))
    parameters = [_parameter(name, field, annotation) for name, field in fields.items()]
    parameters.sort(key=lambda parameter: _group_of(parameter.name, annotation) != vars(root)["group"])
    return OptionClass(parameters, make)


def _in_group(parameter: inspect.Parameter, group: str) -> inspect.Parameter:
    annotation, info = get_args(parameter.annotation)
    info = copy(info)
    info.rich_help_panel = group
    return parameter.replace(annotation=Annotated[annotation, info])


def _parameter(name: str, field: "FieldInfo", options: "type[BaseModel]") -> inspect.Parameter:
    """Return the parameter of a command for one field of a class of options."""
    hints, metavar = _hints(field), _hints(field).get("metavar") or None
    kind: Any
    kind, is_list = _kind_of(field)
    annotation: Any
    default: Any = inspect.Parameter.empty
    if not field.is_required():
        default = None if field.default_factory is not None else field.default
    if is_list and hints.get("separator"):
        annotation, default = str | None, hints["separator"].join(map(str, default or ())) or None
    elif is_list:
        annotation, default = list[kind] | None, None
    else:
        annotation = kind | None if default is None else kind
    if hints.get("is_argument"):
        info = typer.Argument(metavar=metavar, help=field.description)
    else:
        names = [f"--{(hints.get('name') or name).replace('_', '-')}", *(["-r"] if name == "round" else [])]
        completion = round_names if name.endswith("round") else None
        info = typer.Option(
            *names,
            metavar=metavar,
            help=field.description,
            autocompletion=completion,
            rich_help_panel=_group_of(name, options),
        )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[annotation, info]
    )


def _group_of(name: str, options: type) -> str | None:
    """Return the heading of a field: that of the class that declares it, or else of the first class that has one."""
    groups = {base: vars(base)["group"] for base in reversed(options.__mro__) if "group" in vars(base)}
    declaring = next(base for base in options.__mro__ if name in inspect.get_annotations(base))
    return groups.get(declaring) or next(iter(groups.values()), None)


def _values(field: "FieldInfo", value: Any) -> Any:
    separator = _hints(field).get("separator")
    return value.replace(separator, " ").split() if separator else value


def _kind_of(field: "FieldInfo") -> tuple[Any, bool]:
    """Return the type of a value, and whether the field is a list of them."""
    kind = field.annotation
    if get_origin(kind) in (types.UnionType, Union):
        (kind,) = (member for member in get_args(kind) if member is not types.NoneType)
    is_list = get_origin(kind) is tuple
    if is_list:
        kind = get_args(kind)[0]
    return (get_args(kind)[0] if get_origin(kind) is Annotated else kind), is_list


def _hints(field: "FieldInfo") -> dict[str, Any]:
    return field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
