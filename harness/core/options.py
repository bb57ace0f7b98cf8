"""Options of a command, each declared once as a field of a class.

The command line, the form of the TUI, the notebook, sweep files and the reference are made from these classes.
"""

import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, JsonValue, ValidationError, field_validator
from pydantic.fields import FieldInfo

from harness.core.attack import Params
from harness.core.errors import UsageError
from harness.core.faults import fault_message, value_clause


def option(
    default: Any = ...,
    *,
    description: str,
    name: str = "",
    short: str = "",
    metavar: str = "",
    panel: str = "",
    unset: str = "",
    is_argument: bool = False,
    is_hidden: bool = False,
    is_in_form: bool = True,
    needs_target: bool = False,
    separator: str = "",
    **rules: Any,
) -> Any:
    """Return a field with hints for the command line, where `description` is its help.

    name: its name on the command line, if it is not that of the field.
    short: a second name of one letter.
    panel: its heading in the help, if it is not that of its class.
    unset: what counts without a value, such as `the round's target`.
    is_hidden: True if it is no option, because other options decide its value.
    is_in_form: False if the TUI's form asks for it in another way, or not at all.
    needs_target: True if an attack without a target does not accept it.
    separator: between the values of a list; without one, the option is repeated.
    rules: bounds and other arguments of pydantic's `Field`.
    """
    hints: dict[str, JsonValue] = {
        "name": name,
        "short": short,
        "metavar": metavar,
        "panel": panel,
        "unset": unset,
        "is_argument": is_argument,
        "is_hidden": is_hidden,
        "is_in_form": is_in_form,
        "needs_target": needs_target,
        "separator": separator,
    }
    return Field(default, description=description, json_schema_extra=hints, **rules)


def hints_of(field: FieldInfo) -> dict[str, Any]:
    """Return the hints of a field that `option` made."""
    return field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}


class Options(Params):
    """Base class of a command's options, which are the fields of a class.

    `heading` is the heading of the fields that a class declares, in the help. Without it, their heading is that of the
    first base class that has one.
    """

    heading: ClassVar[str]

    @classmethod
    def __pydantic_init_subclass__(cls, **arguments: Any) -> None:
        """Raise TypeError for a switch that is on by default: the command line could not turn it off."""
        for name, field in cls.model_fields.items():
            if field.annotation in (bool, bool | None) and field.default is not False:
                raise TypeError(f"{cls.__name__}.{name}: the default of a switch is False.")

    @classmethod
    def panels(cls) -> dict[str, str]:
        """Return the heading of each field: its own, or that of the class that declares it, or the first one."""
        bases = cls.__mro__[::-1]
        headings = {base: vars(base)["heading"] for base in bases if "heading" in vars(base)}
        classes = {name: base for base in bases for name in inspect.get_annotations(base)}
        first = next(iter(headings.values()), "")
        return {
            name: hints_of(field).get("panel") or headings.get(classes[name], first)
            for name, field in cls.model_fields.items()
        }

    @field_validator("*", mode="before")
    @classmethod
    def _is_number(cls, value: object) -> object:
        if isinstance(value, float) and math.isnan(value):
            raise ValueError("must be a number, got NaN")
        return value

    @classmethod
    def checked(cls, **fields: Any) -> Self:
        """Return the options. Raises UsageError that names the option of the first invalid value."""
        try:
            return cls(**fields)
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            option = f"{shown_name(cls, str(fault['loc'][0]))}: " if fault["loc"] else ""
            raise UsageError(f"{option}{fault_message(fault)}{value_clause(fault)}.") from None

    def changed(self, **fields: Any) -> Self:
        """Return the options with other values of some fields, checked as in `checked`. The others stay set or unset.

        Raises UsageError as `checked` does.
        """
        return self.checked(**{name: getattr(self, name) for name in self.model_fields_set} | fields)

    def without(self, is_left_out: Callable[[str], bool]) -> Self:
        """Return the options with the default of each field whose name `is_left_out`."""
        return self.checked(**{name: getattr(self, name) for name in self.model_fields_set if not is_left_out(name)})

    def with_absolute_paths(self) -> Self:
        """Return the options with paths that lead to the same files from every directory."""
        return self.model_copy(update={name: value.absolute() for name, value in self if isinstance(value, Path)})

    def differing(self, second: "Options") -> list[str]:
        """Return the options, such as `--seed`, that have other values in `second`."""
        names = [name for name in type(self).model_fields if getattr(self, name) != getattr(second, name)]
        return [f"--{option_name(type(self), name)}" for name in names]

    def command_words(self) -> list[str]:
        """Return the words of the command line that set the same options; defaults are left out."""
        words = []
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if hints_of(field)["is_hidden"] or (field.default_factory is None and value == field.default):
                continue
            values = value if isinstance(value, tuple) else (value,)
            if separator := hints_of(field)["separator"]:
                values = (separator.join(map(str, values)),)
            option = f"--{option_name(type(self), name)}"
            words += [option] if value is True else [f"{option}={part}" for part in values]
        return words


def option_name(options: type[Options], field: str) -> str:
    """Return the name of a field on the command line."""
    hints = hints_of(options.model_fields[field]) if field in options.model_fields else {}
    return str(hints.get("name") or field).replace("_", "-")


def shown_name(options: type[Options], field: str) -> str:
    """Return the name of a field in a sentence: `--seed`, or `CORPUS` for an argument."""
    is_argument = field in options.model_fields and hints_of(options.model_fields[field]).get("is_argument")
    return field.upper() if is_argument else f"--{option_name(options, field)}"
