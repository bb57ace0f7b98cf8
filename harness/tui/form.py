"""The form of a command: its fields, made from the JSON schemas of its options, and its command line.

The schema of an attack comes from a plugin, so nothing about its shape is assumed.
"""

import contextlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import Any

from pydantic_core import SchemaError, SchemaValidator, ValidationError

from harness.core.attack import Params
from harness.core.errors import HarnessError
from harness.core.inputs import JSON_WORDS, fault_message
from harness.core.paths import expand_home
from harness.core.rounds import Round, load_round
from harness.core.text import shorten
from harness.core.times import format_duration
from harness.plugins.parameters import Parameter, as_mapping, members_of, parameters_in, setting_text
from harness.plugins.schema import AttackSchema

MAX_RUNS = 100
"""The most runs that one form starts."""
FROM_ROUND = "the round's"
NEW_PATH = "new-path"
"""The format of a path that need not exist."""
_MAX_CHOICES = 200
_MAX_DEPTH = 8
_Schema = Mapping[str, Any]


class FieldKind(StrEnum):
    """The type of a field's value, which decides its control and how its text is read."""

    NUMBER = "number"
    CHOICE = "choice"
    SWITCH = "switch"
    TEXT = "text"
    PATH = "path"
    JSON = "json"
    ROUND = "round"


_KINDS = {
    "integer": FieldKind.NUMBER,
    "number": FieldKind.NUMBER,
    "boolean": FieldKind.SWITCH,
    "string": FieldKind.TEXT,
}
_TYPES = {"integer": "int", "number": "float", "boolean": "bool", "string": "str", "array": "list", "object": "dict"}
"""pydantic's name of each type of a JSON schema."""
_RULES = {
    "minimum": "ge",
    "exclusiveMinimum": "gt",
    "maximum": "le",
    "exclusiveMaximum": "lt",
    "multipleOf": "multiple_of",
    "minLength": "min_length",
    "maxLength": "max_length",
    "pattern": "pattern",
    "minItems": "min_length",
    "maxItems": "max_length",
}
"""pydantic's name of each rule of a JSON schema."""
_THOUSANDS = re.compile(r"\d,\d{3}(?!\d)")
"""Digits that a comma may group. With a space after the comma they are two numbers."""
_REFUSAL = re.compile(r"(?:Invalid value for '?)?(?P<option>--[\w-]+)(?:[^\w:-][^:]*)?: (?P<reason>.+)")
"""The error of a command about one of its options."""


@dataclass(frozen=True)
class Field:
    """One value of a form.

    default: as one would type it; None if a value is required, '' if an empty field means what `empty_means` says.
    type, bounds: text.
    rules: the JSON schema of the value.
    is_optional: `none` is a valid value.
    is_option: an option of the command (`--seed`), not a parameter of the attack (`--set seed=…`).
    is_argument: an argument of the command, which has no name there.
    is_repeatable: several values with commas between them.
    """

    name: str
    kind: FieldKind
    default: str | None
    type: str = ""
    bounds: tuple[str, ...] = ()
    description: str = ""
    empty_means: str = ""
    choices: tuple[str, ...] = ()
    rules: _Schema = field(default_factory=dict)
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
        if self.kind is FieldKind.NUMBER and "," in text and not _THOUSANDS.search(text):
            return list(dict.fromkeys(part.strip() for part in text.split(",")))
        return [text]

    def value_of(self, text: str) -> str | None:
        """Return the value that `text` stands for, None for the default. An empty parameter that is text is empty."""
        is_literal = self.kind is FieldKind.TEXT and not self.is_option
        value = text if is_literal else text.strip()
        if value == self.default or (not value and (not is_literal or self.default is None)):
            return None
        return value

    def error(self, text: str) -> str | None:
        """Return why `text` is not valid, as a clause; None if it is, or if only the command can tell.

        The check of a path or a round reads the disk, which may take a while.
        """
        if len(parts := self.alternatives(text)) > 1:
            return next((error for part in parts if (error := self.error(part or "?"))), None)
        value = self.value_of(text)
        if value is None:
            return "required" if self.default is None else None
        if self.is_optional and value.strip().lower() in ("none", "null"):
            return None
        if self.choices:
            return None if value in self.choices else f"expected one of {shorten(', '.join(self.choices))}"
        if self.kind is FieldKind.NUMBER and "," in value:
            return "expected digits without commas; for several values write a space after each comma"
        try:
            if self.kind is FieldKind.PATH and not expand_home(value).exists():
                return None if self.rules.get("format") == NEW_PATH else "no such file or directory"
            if self.kind is FieldKind.ROUND and not (prefixes := load_round(value).prefix_file).exists():
                return f"{prefixes.name} is missing: see harness data status"
        except (HarnessError, OSError, ValueError) as error:
            return str(error).rstrip(".") if isinstance(error, HarnessError) else "not a valid path"
        return broken_rule(value, self.rules)

    def words(self, value: str) -> list[str]:
        """Return the words of the command line that set `value`."""
        if not self.is_option:
            return ["--set", f"{self.name}={value}"]
        if self.kind is FieldKind.SWITCH:
            return [self.key] if value == "true" else []
        if self.kind is FieldKind.PATH:
            with contextlib.suppress(HarnessError):
                # A shell would do it only for a word without quotes.
                value = str(expand_home(value)) if value.startswith("~") else value
        values = [part.strip() for part in value.split(",")] if self.is_repeatable else [value]
        return [word for part in values if part for word in ([part] if self.is_argument else [self.key, part])]


def broken_rule(text: str, rules: _Schema) -> str | None:
    """Return the rule of a JSON schema that `text` breaks, in the words of the command; None if only it can tell.

    pydantic checks the attack's parameters too. Unlike `re`, it needs a bounded time for every pattern.
    """
    type_ = _TYPES.get(str(rules.get("type")), "any")
    schema: Any = {"type": type_} | {_RULES[name]: rules[name] for name in _RULES if name in rules}
    if type_ == "float":
        schema["allow_inf_nan"] = False
    value: Any = text
    if is_json := type_ in ("list", "dict"):
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(text)
    try:
        validator = SchemaValidator(schema)
        validator.validate_python(value) if is_json else validator.validate_strings(value)
    except ValidationError as error:
        return fault_message(error.errors(include_url=False)[0], JSON_WORDS)
    except SchemaError:  # the rules come from untrusted code
        pass
    return None


@dataclass(frozen=True)
class Form:
    """The fields of a command that starts something, in the order of the screen.

    command: such as `run baseline`.
    name: under which the values are remembered.
    omitted: parameters without a field.
    """

    command: tuple[str, ...]
    name: str
    fields: tuple[Field, ...]
    attacks_folder: Path | None = None
    omitted: int = 0

    @property
    def defaults(self) -> dict[str, str]:
        """The default text of each field, by field key."""
        return {field.key: field.default or "" for field in self.fields}

    def command_line(self, texts: Mapping[str, str]) -> list[str]:
        """Return the arguments of `harness` that start the same; defaults are left out."""
        values = changed_values(self.fields, texts)
        arguments_first = sorted(self.fields, key=lambda field: not field.is_argument)
        words = [word for field in arguments_first if field.key in values for word in field.words(values[field.key])]
        folder = [] if self.attacks_folder is None else ["--attacks", str(self.attacks_folder)]
        return [*self.command, *words, *folder]

    def command_lines(self, texts: Mapping[str, str], *, group: str) -> list[list[str]]:
        """Return the arguments for each combination of the alternatives; several runs are in one group.

        group: its name, unless the form has one.
        """
        texts = {**self.defaults, **texts}
        choices = {field.key: field.alternatives(texts[field.key]) for field in self.fields}
        if math.prod(map(len, choices.values())) > MAX_RUNS:
            raise HarnessError(f"more than {MAX_RUNS} runs. Give fewer values.")
        lines = [self.command_line(dict(zip(choices, chosen, strict=True))) for chosen in product(*choices.values())]
        is_grouped = len(lines) == 1 or texts.get("--group")
        return lines if is_grouped else [[*line, "--group", group] for line in lines]

    def refused(self, error: str) -> dict[str, str]:
        """Return the fields that an error of the command is about, by field key, with the reason for each."""
        match = _REFUSAL.fullmatch(error)
        if match is None:
            return {}
        reasons = {match["option"]: match["reason"]}
        if match["option"] == "--set":
            reasons = dict(part.partition(": ")[::2] for part in re.split(r"; (?=\w+: )", match["reason"]))
        keys = {field.key for field in self.fields}
        return {key: reason.rstrip(".") for key, reason in reasons.items() if key in keys and reason}


def changed_values(fields: Iterable[Field], texts: Mapping[str, str]) -> dict[str, str]:
    """Return the values that differ from their defaults, by field key; `texts` are by field key too."""
    values = {field.key: field.value_of(texts.get(field.key, field.default or "")) for field in fields}
    return {key: value for key, value in values.items() if value is not None}


def round_description(round_: Round) -> str:
    """Return the title and the budget of a round as a clause."""
    parts = [round_.title, f"budget {format_duration(round_.budget)}", "blind" if round_.is_blind else ""]
    return ", ".join(filter(None, parts))


def option_fields(options: type[Params], *, uses_target: bool = True) -> Iterator[Field]:
    """Yield the field of each option of a command that a form asks for; some options need a target."""
    schema = options.model_json_schema()
    definitions = as_mapping(schema.get("$defs"))
    for parameter in parameters_in(schema):
        declared = schema["properties"][parameter.name]
        is_useless = declared.get("needs_target") and not uses_target
        if declared.get("is_hidden") or not declared.get("is_in_form", True) or is_useless:
            continue
        default, separator = declared.get("default"), declared.get("separator")
        rules, _ = _resolved(declared, definitions, _MAX_DEPTH)
        if rules.get("type") == "array":
            text = str(separator or "").join(map(str, default or ()))
            option = Field(parameter.name, FieldKind.TEXT, text, is_repeatable=not separator)
        else:
            text = "" if default is None else setting_text(default)
            option = _field(parameter, text, rules, is_optional=False)
        is_switch = option.kind is FieldKind.SWITCH
        yield replace(
            option,
            name=(declared.get("name") or parameter.name).replace("_", "-"),
            kind=FieldKind.ROUND if parameter.name.endswith("round") else option.kind,
            description=parameter.description + (" Separate several with commas." if option.is_repeatable else ""),
            empty_means=declared.get("unset") or ("" if text or is_switch else "not used"),
            type=option.type if option.kind is FieldKind.NUMBER else "",
            is_option=True,
            is_argument=bool(declared.get("is_argument")),
        )


def parameter_fields(schema: AttackSchema) -> Iterator[Field]:
    """Yield the field of each parameter of an attack."""
    properties = as_mapping(schema.schema.get("properties"))
    definitions = as_mapping(schema.schema.get("$defs"))
    for parameter in parameters_in(schema.schema):
        # Any other name could not be told from its value in `--set name=value`.
        if parameter.name.isidentifier():
            default = _default(parameter.name, schema)
            rules, is_optional = _resolved(as_mapping(properties[parameter.name]), definitions, _MAX_DEPTH)
            yield _field(parameter, default, rules, is_optional=is_optional)


def _field(parameter: Parameter, default: str | None, rules: _Schema, *, is_optional: bool) -> Field:
    values = [rules["const"]] if "const" in rules else rules.get("enum")
    choices = tuple(dict.fromkeys(map(setting_text, values))) if isinstance(values, list) else ()
    kind = _KINDS.get(str(rules.get("type")), FieldKind.JSON)
    if kind is FieldKind.TEXT and str(rules.get("format", "")).endswith("path"):
        kind = FieldKind.PATH
    # A switch has only two positions: it cannot show `none`, or that no value was chosen.
    if kind is FieldKind.SWITCH and (is_optional or default not in ("true", "false")):
        choices = ("true", "false")
    if choices:
        known = [*choices, *(["none"] if is_optional else [])]
        choices = tuple(dict.fromkeys(known if not default or default in known else [default, *known]))
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
        return setting_text(described["default"])
    required = schema.schema.get("required")
    if isinstance(required, list) and name in required:
        return None
    # The default of a default_factory is not in the schema, but in the parameters that the plugin's process created.
    return setting_text(schema.params[name]) if schema.params is not None and name in schema.params else ""


def _resolved(rules: _Schema, definitions: _Schema, depth: int) -> tuple[_Schema, bool]:
    """Follow references and `X | None`; return the rules of the value, and whether `none` is valid."""
    if depth == 0:
        return {}, False
    members = members_of(rules, definitions)
    if not members:
        return rules, False
    values = [member for member in members if member.get("type") != "null"]
    has_none = len(values) < len(members)
    if len(values) != 1:
        return {}, has_none
    inner, is_optional = _resolved(values[0], definitions, depth - 1)
    return inner, is_optional or has_none
