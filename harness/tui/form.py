"""The form of a new run: its fields, made from the schema of the attack's parameters, and its command line.

The schema comes from a plugin, so nothing about its shape is assumed.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from harness.audits.registry import AUDITS
from harness.core.errors import HarnessError
from harness.core.text import shorten
from harness.plugins.discovery import AttackFile
from harness.plugins.parameters import Parameter, as_mapping, members_of, parameters_in
from harness.plugins.schema import AttackSchema

MAX_PARAMETERS = 100
MAX_RUNS = 100
"""The most runs that one form starts."""
FROM_ROUND = "from the round"
_MAX_CHOICES = 200
_MAX_DEPTH = 8
_DTYPES = ("auto", "float32", "float16", "bfloat16")


class FieldKind(StrEnum):
    """The type of a field's value, which decides its control and its validation."""

    INTEGER = "integer"
    NUMBER = "number"
    CHOICE = "choice"
    SWITCH = "switch"
    TEXT = "text"
    PATH = "path"
    FILE = "file"
    DESTINATION = "destination"
    JSON = "json"
    ROUND = "round"
    DURATION = "duration"
    DEVICE = "device"


_KINDS = {
    "integer": FieldKind.INTEGER,
    "number": FieldKind.NUMBER,
    "boolean": FieldKind.SWITCH,
    "string": FieldKind.TEXT,
}


_THOUSANDS = re.compile(r"\d,\d{3}(?!\d)")
"""Digits that a comma may group. With a space after the comma they are two numbers."""


@dataclass(frozen=True)
class Field:
    """One value of a form.

    default: as one would type it; None if a value is required, '' if an empty field means what `empty_means` says.
    type, bounds: text. rules: the JSON schema of the value. is_optional: `none` is a valid value.
    is_option: an option of the command (`--seed`), not a parameter of the attack (`--set seed=…`). is_argument: an
    argument of the command, which has no name there.
    """

    name: str
    kind: FieldKind
    default: str | None
    type: str = ""
    bounds: tuple[str, ...] = ()
    description: str = ""
    empty_means: str = ""
    choices: tuple[str, ...] = ()
    rules: Mapping[str, Any] = field(default_factory=dict)
    is_optional: bool = False
    is_option: bool = False
    is_argument: bool = False
    is_repeatable: bool = False

    @property
    def key(self) -> str:
        """A unique key, even if a parameter has the name of an option."""
        return f"--{self.name}" if self.is_option else self.name

    @property
    def placeholder(self) -> str:
        """The text that an empty field shows."""
        return self.empty_means or ", ".join(filter(None, (self.type, *self.bounds)))

    @property
    def facts(self) -> str:
        """The valid values and the default, in a few words."""
        # Bounds imply the type, and a choice lists its values itself.
        values = (*self.bounds, *(("or none",) if self.is_optional else ())) if self.bounds else (self.type,)
        default = f"default {shorten(self.default)}" if self.default else ""
        return "; ".join(filter(None, (shorten(", ".join(values), 120), default)))

    def alternatives(self, text: str) -> list[str]:
        """Return the texts of each run: several for numbers with commas between them.

        `1,000` is one text, and no valid number, because it may mean a thousand. `1, 0` is two.
        """
        if self.kind in (FieldKind.INTEGER, FieldKind.NUMBER) and "," in text and not _THOUSANDS.search(text):
            return list(dict.fromkeys(part.strip() for part in text.split(",")))
        return [text]

    def value_of(self, text: str) -> str | None:
        """Return the value that `text` stands for; None for the default, which an empty field has unless it is text."""
        value = text if self.kind is FieldKind.TEXT else text.strip()
        if value == self.default or (not value and (self.kind is not FieldKind.TEXT or self.default is None)):
            return None
        return value


@dataclass(frozen=True)
class Form:
    """The fields of a command that starts something, in the order of the screen.

    command: such as `run baseline`. name: under which the values are remembered. omitted: parameters without a field.
    """

    command: tuple[str, ...]
    name: str
    fields: tuple[Field, ...]
    attacks_folder: Path | None = None
    omitted: int = 0

    def command_line(self, texts: Mapping[str, str]) -> list[str]:
        """Return the arguments of `harness` that start the same; defaults are left out."""
        values = changed_values(self.fields, texts)
        given = [(one, values[one.key]) for one in self.fields if one.key in values]
        command = [*self.command, *(value for one, value in given if one.is_argument)]
        for one, value in given:
            if one.is_option and one.kind is FieldKind.SWITCH:
                command += [one.key] if value == "true" else []
            elif one.is_repeatable and not one.is_argument:
                command += [word for part in value.split(",") if part.strip() for word in (one.key, part.strip())]
            elif one.is_option and not one.is_argument:
                command += [one.key, value]
            elif not one.is_argument:
                command += ["--set", f"{one.name}={value}"]
        return command if self.attacks_folder is None else [*command, "--attacks", str(self.attacks_folder)]

    def command_lines(self, texts: Mapping[str, str], *, group: str) -> list[list[str]]:
        """Return the arguments for each combination of the alternatives; several runs are in the group `group`."""
        choices = [one.alternatives(texts.get(one.key, one.default or "")) for one in self.fields]
        keys = [one.key for one in self.fields]
        if math.prod(map(len, choices)) > MAX_RUNS:
            raise HarnessError(f"more than {MAX_RUNS} runs. Give fewer values.")
        lines = [self.command_line(dict(zip(keys, chosen, strict=True))) for chosen in product(*choices)]
        return lines if len(lines) == 1 else [[*line, "--group", group] for line in lines]


def changed_values(fields: Iterable[Field], texts: Mapping[str, str]) -> dict[str, str]:
    """Return the values that differ from their defaults, by field key; `texts` are by field key too."""
    values = {field.key: field.value_of(texts.get(field.key, field.default or "")) for field in fields}
    return {key: value for key, value in values.items() if value is not None}


def form_for(attack: AttackFile, schema: AttackSchema, *, attacks_folder: Path | None) -> Form:
    """Return the form of a run of `attack`: the round, the attack's parameters, then the options of the run."""
    parameters = tuple(_parameter_fields(schema))
    shown = parameters[:MAX_PARAMETERS]
    first, *others = _options(attack)
    fields = (first, *shown, *others)
    omitted = len(parameters) - len(shown)
    return Form(("run", attack.name), attack.name, fields, attacks_folder, omitted)


def audit_form(audit: str) -> Form:
    """Return the form of an audit: what it measures, its parameters, then the options of the run."""
    entry = AUDITS[audit]
    classes = (entry.subject_type(), entry.audit_type().params_type())
    fields = tuple(field for options in classes for field in _class_fields(options))
    return Form(("audit", audit), f"audit {audit}", (*fields, *_AUDIT_OPTIONS))


def _class_fields(options: type[BaseModel]) -> Iterator[Field]:
    """Yield a field for each option of a class."""
    schema = options.model_json_schema()
    definitions = as_mapping(schema.get("$defs"))
    for parameter in parameters_in(schema):
        declared = as_mapping(as_mapping(schema["properties"])[parameter.name])
        if declared.get("is_hidden"):
            continue
        rules, _ = _resolved(declared, definitions, _MAX_DEPTH)
        default, separator = declared.get("default"), declared.get("separator")
        if rules.get("type") == "array":
            text = str(separator or "").join(map(str, default or ()))
            field = Field(parameter.name, FieldKind.TEXT, text, is_repeatable=not separator)
        else:
            text = "" if default is None else _as_typed(default)
            field = _parameter_field(parameter, text, rules, is_optional=False)
        is_switch = field.kind is FieldKind.SWITCH
        yield replace(
            field,
            name=(declared.get("name") or parameter.name).replace("_", "-"),
            kind=FieldKind.ROUND if parameter.name.endswith("round") else field.kind,
            description=parameter.description + (" Several with commas between them." if field.is_repeatable else ""),
            empty_means="" if text or is_switch else "not used",
            type=field.type if field.kind in (FieldKind.INTEGER, FieldKind.NUMBER) else "",
            is_option=True,
            is_argument=bool(declared.get("is_argument")),
        )


def _options(attack: AttackFile) -> Iterator[Field]:
    yield option_field("round", FieldKind.ROUND, None, "Round to attack.", type="name or TOML file")
    if attack.uses_target:
        yield option_field(
            "target", FieldKind.TEXT, "", "Model to attack: a hub id or a directory.", empty_means=FROM_ROUND
        )
        yield option_field(
            "reference",
            FieldKind.TEXT,
            "",
            "Reference model: a hub id or a directory.",
            empty_means=attack.reference_model or "none",
        )
    yield option_field(
        "budget", FieldKind.DURATION, "", "Budget in the round's unit, such as 24h or 90m.", empty_means=FROM_ROUND
    )
    yield _count_option("seed", "0", 0, "Seed of all random draws.")
    yield _count_option("limit", "", 1, "Attack only the first N examples.", empty_means="all examples")
    if attack.uses_target:
        yield option_field("device", FieldKind.DEVICE, "auto", "auto, cpu, cuda or cuda:N.")
        yield option_field("dtype", FieldKind.CHOICE, "auto", "Precision.", choices=_DTYPES)


def option_field(name: str, kind: FieldKind, default: str | None, description: str, **more: Any) -> Field:
    """Return the field of an option of a command."""
    return Field(name, kind, default, description=description, is_option=True, **more)


def _count_option(name: str, default: str, least: int, description: str, **more: Any) -> Field:
    bounds, rules = (f"at least {least}",), {"minimum": least}
    return option_field(
        name, FieldKind.INTEGER, default, description, type="whole number", bounds=bounds, rules=rules, **more
    )


_AUDIT_OPTIONS = (
    option_field("revision", FieldKind.TEXT, "main", "Revision of hub models."),
    option_field("budget", FieldKind.DURATION, "24h", "Wall-clock limit such as 24h or 90m."),
    _count_option("seed", "0", 0, "Seed of all random draws."),
    option_field("device", FieldKind.DEVICE, "auto", "auto, cpu, cuda or cuda:N."),
    option_field("dtype", FieldKind.CHOICE, "auto", "Precision.", choices=_DTYPES),
    _count_option("threads", "", 1, "CPU threads.", empty_means="all usable cores"),
    option_field("share-device", FieldKind.SWITCH, "false", "Start without waiting for a free device."),
)
"""The options that all audits share."""


def _parameter_fields(schema: AttackSchema) -> Iterator[Field]:
    properties = as_mapping(schema.schema.get("properties"))
    definitions = as_mapping(schema.schema.get("$defs"))
    for parameter in parameters_in(schema.schema):
        # Any other name could not be told from its value in `--set name=value`.
        if parameter.name.isidentifier():
            default = _default(parameter.name, schema)
            rules, is_optional = _resolved(as_mapping(properties[parameter.name]), definitions, _MAX_DEPTH)
            yield _parameter_field(parameter, default, rules, is_optional=is_optional)


def _parameter_field(
    parameter: Parameter, default: str | None, rules: Mapping[str, Any], *, is_optional: bool
) -> Field:
    values = [rules["const"]] if "const" in rules else rules.get("enum")
    choices = tuple(dict.fromkeys(map(_as_typed, values))) if isinstance(values, list) else ()
    kind = _KINDS.get(str(rules.get("type")), FieldKind.JSON)
    if kind is FieldKind.TEXT and str(rules.get("format", "")).endswith("path"):
        kind = FieldKind.PATH
    # A switch has only two positions: it cannot show `none`, or that no value was chosen.
    if kind is FieldKind.SWITCH and (is_optional or default not in ("true", "false")):
        choices = ("true", "false")
    if choices:
        choices = tuple(dict.fromkeys((*choices, *(("none",) if is_optional else ()))))
        if default and default not in choices:
            choices = (default, *choices)
        kind = FieldKind.CHOICE if len(choices) <= _MAX_CHOICES else FieldKind.JSON
    shows_values = kind in (FieldKind.CHOICE, FieldKind.SWITCH)
    return Field(
        parameter.name,
        kind,
        default,
        type="" if shows_values else parameter.type,
        bounds=() if shows_values else parameter.bounds,
        description=parameter.description,
        empty_means="set by the attack" if default == "" and kind is not FieldKind.TEXT else "",
        choices=choices,
        rules=rules,
        is_optional=is_optional,
    )


def _default(name: str, schema: AttackSchema) -> str | None:
    described = as_mapping(as_mapping(schema.schema.get("properties")).get(name))
    if "default" in described:
        return _as_typed(described["default"])
    required = schema.schema.get("required")
    if isinstance(required, list) and name in required:
        return None
    # The default of a default_factory is not in the schema, but in the parameters that the plugin's process created.
    return _as_typed(schema.params[name]) if schema.params is not None and name in schema.params else ""


def _resolved(rules: Mapping[str, Any], definitions: Mapping[str, Any], depth: int) -> tuple[Mapping[str, Any], bool]:
    """Follow references and `X | None`; return the rules of the value, and whether `none` is valid."""
    if depth == 0:
        return {}, False
    members = members_of(rules, definitions)
    if not members:
        return rules, False
    others = [member for member in members if member.get("type") != "null"]
    has_none = len(others) < len(members)
    if len(others) != 1:
        return {}, has_none
    inner, is_optional = _resolved(others[0], definitions, depth - 1)
    return inner, is_optional or has_none


def _as_typed(value: Any) -> str:
    return "none" if value is None else value if isinstance(value, str) else json.dumps(value)
