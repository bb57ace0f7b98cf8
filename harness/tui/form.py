"""A form made from what an attack says of its parameters: its fields, what is amiss in a value, the command line.

The schema came from strangers' code, so no shape is taken for granted.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from harness.core.text import shorten
from harness.plugins.discovery import AttackFile
from harness.plugins.parameters import Parameter, parameters_in
from harness.plugins.schema import AttackSchema

MAX_PARAMETERS = 100
_MAX_CHOICES = 200
_MAX_DEPTH = 8
_DTYPES = ("auto", "float32", "float16", "bfloat16")


class Kind(StrEnum):
    """What a field holds, and so how it is typed."""

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


_KINDS = {"integer": Kind.INTEGER, "number": Kind.NUMBER, "boolean": Kind.SWITCH, "string": Kind.TEXT}


@dataclass(frozen=True)
class Field:
    """One value that can be typed.

    default: as one would type it, None where a value is required, '' where leaving it out means what `left_out` says;
    type, bounds: in words; rules: the JSON schema of its value; is_optional: `none` is a value; is_option: of the
    command itself (`--seed`), not of the attack (`--set seed=…`).
    """

    name: str
    kind: Kind
    default: str | None
    type: str = ""
    bounds: tuple[str, ...] = ()
    description: str = ""
    left_out: str = ""
    choices: tuple[str, ...] = ()
    rules: Mapping[str, Any] = field(default_factory=dict)
    is_optional: bool = False
    is_option: bool = False

    @property
    def key(self) -> str:
        """Distinct also where a parameter is called as an option is."""
        return f"--{self.name}" if self.is_option else self.name

    @property
    def placeholder(self) -> str:
        """What stands in the field while nothing does."""
        return self.left_out or ", ".join(filter(None, (self.type, *self.bounds)))

    @property
    def facts(self) -> str:
        """Which values there are and which one is taken unless another is typed, in a few words."""
        # A choice shows its values by itself, and where there are bounds, what they are bounds of goes without saying.
        values = (*self.bounds, *(("or none",) if self.is_optional else ())) if self.bounds else (self.type,)
        default = f"default {shorten(self.default)}" if self.default else ""
        return "; ".join(filter(None, (shorten(", ".join(values), 120), default)))

    def given(self, text: str) -> str | None:
        """What `text` asks for; None when that is the default, as an empty text is unless it is the value."""
        value = text if self.kind is Kind.TEXT else text.strip()
        if value == self.default or (not value and (self.kind is not Kind.TEXT or self.default is None)):
            return None
        return value


@dataclass(frozen=True)
class Form:
    """The fields of a run of one attack, in the order of the screen; `left_out` parameters are beyond it."""

    attack: str
    attacks_folder: Path | None
    fields: tuple[Field, ...]
    left_out: int = 0

    def given(self, values: Mapping[str, str]) -> dict[str, str]:
        """Of `values`, text by a field's key, those that ask for something else than the default."""
        asked = {field.key: field.given(values.get(field.key, field.default or "")) for field in self.fields}
        return {key: value for key, value in asked.items() if value is not None}

    def command_line(self, values: Mapping[str, str]) -> list[str]:
        """The arguments of `harness` that start the same run; what equals its default is left out."""
        command, given = ["run", self.attack], self.given(values)
        for one in self.fields:
            if one.key in given:
                command += [one.key, given[one.key]] if one.is_option else ["--set", f"{one.name}={given[one.key]}"]
        return command if self.attacks_folder is None else [*command, "--attacks", str(self.attacks_folder)]


def form_for(attack: AttackFile, schema: AttackSchema, *, attacks_folder: Path | None) -> Form:
    """The form of a run of `attack`: its round, the attack's parameters, and how it is run."""
    parameters = tuple(_parameter_fields(schema))
    shown = parameters[:MAX_PARAMETERS]
    first, *others = _options(uses_target=attack.uses_target)
    return Form(attack.name, attacks_folder, (first, *shown, *others), len(parameters) - len(shown))


def _options(*, uses_target: bool) -> Iterator[Field]:
    yield Field("round", Kind.ROUND, None, "name or TOML file", description="The contest.", is_option=True)
    if uses_target:
        yield Field(
            "target",
            Kind.TEXT,
            "",
            "hub id or folder",
            description="The model under attack.",
            left_out="the round's",
            is_option=True,
        )
    yield Field(
        "budget",
        Kind.DURATION,
        "",
        "such as 24h or 90m",
        description="Wall clock that the run may spend.",
        left_out="the round's",
        is_option=True,
    )
    yield _counted("seed", "0", 0, "Seed of every draw.")
    yield _counted("limit", "", 1, "Attack the first N examples only.", left_out="all examples")
    if uses_target:
        yield Field("device", Kind.DEVICE, "auto", description="auto, cpu, cuda, cuda:N or mps.", is_option=True)
        yield Field("dtype", Kind.CHOICE, "auto", description="The target's numbers.", choices=_DTYPES, is_option=True)


def _counted(name: str, default: str, least: int, description: str, left_out: str = "") -> Field:
    rules, bounds = {"minimum": least}, (f"at least {least}",)
    return Field(
        name, Kind.INTEGER, default, "whole number", bounds, description, left_out, rules=rules, is_option=True
    )


def _parameter_fields(schema: AttackSchema) -> Iterator[Field]:
    described = _mapping(schema.schema.get("properties"))
    definitions = _mapping(schema.schema.get("$defs"))
    for parameter in parameters_in(schema.schema):
        # A name that is no name could not be told from its value in `--set name=value`.
        if parameter.name.isidentifier():
            default = _default(parameter.name, schema)
            yield _field(parameter, default, *_resolved(_mapping(described[parameter.name]), definitions, _MAX_DEPTH))


def _field(parameter: Parameter, default: str | None, rules: Mapping[str, Any], is_optional: bool) -> Field:
    choices = _choices(rules)
    kind = _KINDS.get(str(rules.get("type")), Kind.JSON)
    if kind is Kind.TEXT and str(rules.get("format", "")).endswith("path"):
        kind = Kind.PATH
    # A switch has no third position: not for `none`, nor for `not said`.
    if kind is Kind.SWITCH and (is_optional or default not in ("true", "false")):
        choices = ("true", "false")
    if choices:
        choices = tuple(dict.fromkeys((*choices, *(("none",) if is_optional else ()))))
        if default and default not in choices:
            choices = (default, *choices)
        kind = Kind.CHOICE if len(choices) <= _MAX_CHOICES else Kind.JSON
    says_itself = kind in (Kind.CHOICE, Kind.SWITCH)
    return Field(
        parameter.name,
        kind,
        default,
        type="" if says_itself else parameter.type,
        bounds=() if says_itself else parameter.bounds,
        description=parameter.description,
        left_out="a default of its own" if default == "" and kind is not Kind.TEXT else "",
        choices=choices,
        rules=rules,
        is_optional=is_optional,
    )


def _default(name: str, schema: AttackSchema) -> str | None:
    described = _mapping(_mapping(schema.schema.get("properties")).get(name))
    if "default" in described:
        return _typed(described["default"])
    required = schema.schema.get("required")
    if isinstance(required, list) and name in required:
        return None
    # One that is made anew each time stands in no schema, but in the record.
    return _typed(schema.params[name]) if schema.params is not None and name in schema.params else ""


def _resolved(rules: Mapping[str, Any], definitions: Mapping[str, Any], depth: int) -> tuple[Mapping[str, Any], bool]:
    """What a reference, or the choice between one thing and nothing, stands for; and whether nothing is a value."""
    if depth == 0:
        return {}, False
    if "$ref" in rules:
        return _resolved(_mapping(definitions.get(str(rules["$ref"]).rpartition("/")[2])), definitions, depth - 1)
    members = rules.get("anyOf", rules.get("oneOf", rules.get("allOf")))
    if not isinstance(members, list):
        return rules, False
    some = [member for member in map(_mapping, members) if member.get("type") != "null"]
    if len(some) != 1:
        return {}, len(some) < len(members)
    inner, is_optional = _resolved(some[0], definitions, depth - 1)
    return inner, is_optional or len(some) < len(members)


def _choices(rules: Mapping[str, Any]) -> tuple[str, ...]:
    values: Iterable[Any] = [rules["const"]] if "const" in rules else rules.get("enum", ())
    return tuple(dict.fromkeys(map(_typed, values))) if isinstance(values, list) else ()


def _typed(value: Any) -> str:
    return "none" if value is None else value if isinstance(value, str) else json.dumps(value)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
