"""The options of an audit, each declared once as a field of a class.

The command line, the form of the TUI and the reference are made from these classes.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field as PydanticField
from pydantic import JsonValue, ValidationError, field_validator

from harness.core.attack import Params
from harness.core.audit import AuditInputs, RowsOf
from harness.core.errors import UsageError
from harness.core.inputs import fault_message
from harness.core.spec import TargetRecord


def option(
    default: Any = ...,
    *,
    description: str,
    name: str = "",
    metavar: str = "",
    is_argument: bool = False,
    is_hidden: bool = False,
    separator: str = "",
    **rules: Any,
) -> Any:
    """Return a field with hints for the command line, where `description` is its help.

    name: its name on the command line, if it is not that of the field.
    is_hidden: True if it is no option, because other options decide its value.
    separator: between the values of a list; without one, the option is repeated.
    rules: bounds and other arguments of pydantic's `Field`.
    """
    hints: dict[str, JsonValue] = {
        "name": name,
        "metavar": metavar,
        "is_argument": is_argument,
        "is_hidden": is_hidden,
        "separator": separator,
    }
    return PydanticField(default, description=description, json_schema_extra=hints, **rules)


class Options(Params):
    """Base class of the options of an audit, which are the fields of a class.

    `group` is the heading of the fields that a class declares, in the help. Without it, their heading is that of the
    first base class that has one.
    """

    group: ClassVar[str]

    @field_validator("*", mode="before")
    @classmethod
    def _is_number(cls, value: object) -> object:
        if isinstance(value, float) and math.isnan(value):
            raise ValueError("not a number")
        return value

    @classmethod
    def checked(cls, **fields: Any) -> Self:
        """Return the parameters. Raises HarnessError that names the option of the first invalid value."""
        try:
            return cls(**fields)
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            option = f"--{_option_name(cls, str(fault['loc'][0]))}: " if fault["loc"] else ""
            raise UsageError(f"{option}{fault_message(fault)}.") from None

    def changed(self, **fields: Any) -> Self:
        """Return the parameters with other values of some fields, checked as in `checked`."""
        return self.checked(**self.model_dump() | fields)


def _option_name(options: type[Options], field: str) -> str:
    """Return the name of a field on the command line."""
    hints = options.model_fields[field].json_schema_extra if field in options.model_fields else None
    name = hints.get("name") if isinstance(hints, dict) else None
    return str(name or field).replace("_", "-")


class AuditParams(Options):
    """Base class of every audit's parameters, which are recorded with its run."""

    group: ClassVar[str] = "Measurement"


@dataclass(frozen=True)
class StoredAudit:
    """An audit that was run before, which another audit reads."""

    id: str
    audit: str
    """The name of the audit, such as `leakage`."""
    params: Mapping[str, Any]
    models: Sequence[str]
    """The id of each model."""
    path: Path
    """The directory of the run."""
    inputs: AuditInputs
    rows: RowsOf
    """Returns the rows of a table."""


@dataclass(frozen=True)
class Preparation:
    """The seed, the models and the recorded audits that a subject reads its inputs with."""

    seed: int
    revision: str
    """Revision of hub models."""
    say: Callable[[str], None]
    """Tells the user something in one sentence."""
    find_models: Callable[..., tuple[TargetRecord, ...]]
    """Returns the models with the given ids as they are on this machine. `revision` is an option; with
    `is_first_served`, the first model is behind an endpoint, and only its tokenizer is needed.
    """
    open_audit: Callable[[str], StoredAudit]
    """Opens a recorded audit by its id."""


@dataclass(frozen=True)
class Reading:
    """The inputs of an audit after its subject has read them."""

    params: AuditParams
    inputs: AuditInputs
    name: str
    """The name of the source, for the id of the run."""
    files: Mapping[str, Path]
    """The files and directories that the user named, by option."""
    models: Sequence[TargetRecord]


class Subject(Options):
    """Base class of the options that say what an audit measures. Its docstring is the help of the command."""

    group: ClassVar[str] = "Input"

    @abstractmethod
    def read(self, params: Any, preparation: Preparation) -> Reading:
        """Read and check the inputs, before the budget of the audit starts. Raises HarnessError if that fails."""
