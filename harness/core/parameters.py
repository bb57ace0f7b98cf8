"""Describe the parameters of an attack, and the options of a command, by the JSON schema of their class.

The command line, forms, `show`, tunings and the reference read this description. The schema of an attack comes from a
process that ran untrusted code, so its structure is not trusted.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic_core import SchemaError, SchemaValidator, ValidationError

from harness.core.faults import JSON_WORDS, fault_message
from harness.core.text import shorten

Schema = Mapping[str, Any]
ValueType = type[Any] | None
NULL_WORDS = ("none", "null")
"""The texts that mean null, in any case."""
NEW_PATH = "new-path"
"""The format, in a JSON schema, of the path of a file that need not exist."""
_TYPES: dict[str, type] = {
    "integer": int,
    "number": float,
    "boolean": bool,
    "string": str,
    "array": list,
    "object": dict,
}
_WORDS = {int: "whole number", float: "number", bool: "true or false", str: "text", Path: "path", dict: "object"}
_RULES = {
    "minimum": ("ge", "at least {}"),
    "exclusiveMinimum": ("gt", "more than {}"),
    "maximum": ("le", "at most {}"),
    "exclusiveMaximum": ("lt", "less than {}"),
    "multipleOf": ("multiple_of", "a multiple of {}"),
    "minLength": ("min_length", "at least {} characters"),
    "maxLength": ("max_length", "at most {} characters"),
    "pattern": ("pattern", "matching {}"),
    "minItems": ("min_length", "at least {} items"),
    "maxItems": ("max_length", "at most {} items"),
}
"""pydantic's name of each rule of a JSON schema, and the rule in words."""
_MAX_DEPTH, _MAX_MEMBERS = 8, 100


@dataclass(frozen=True)
class Parameter:
    """One parameter or option.

    type, bounds: in words.
    default: as a user types it; None if a value is required, '' if the default is not known.
    choices: the valid values, if they are listed.
    rules: the JSON schema of a value that is not null; empty if values of several types are valid.
    is_nullable: `none` is a valid value.
    hints: the declaration, with those of `harness.core.options.option`.
    """

    name: str
    type: str = ""
    default: str | None = None
    bounds: tuple[str, ...] = ()
    description: str = ""
    choices: tuple[Any, ...] = ()
    rules: Schema = field(default_factory=dict)
    is_nullable: bool = False
    hints: Schema = field(default_factory=dict)

    @property
    def value_type(self) -> ValueType:
        """The Python type of a value that is not null; None if there are several."""
        return type_of(self.rules)

    @property
    def in_words(self) -> str:
        """Type, bounds, default and description in one line."""
        default = "required" if self.default is None else f"default {shorten(self.default) or repr('')}"
        return f"{', '.join((self.type, *self.bounds, default))}. {self.description}".rstrip()

    def as_json(self) -> dict[str, Any]:
        """Return the fields for `harness show ATTACK --json`.

        Keys:
            name (string): Name of the parameter.
            type (string): Type in words.
            default (string?): Default, as a user types it. Null if a value is required.
            bounds (string[]): Bounds in words.
            description (string): Description of the parameter.
        """
        fields = {name: getattr(self, name) for name in ("name", "type", "default", "bounds", "description")}
        return fields | {"default": None if self.default is None else shorten(self.default)}

    def fault(self, text: str) -> str | None:
        """Return the rule that a typed value breaks, in the words of the command; None if only the command can tell.

        pydantic checks the value as it checks the class. Unlike `re`, it needs a bounded time for every pattern.
        """
        name = _TYPES[self.rules["type"]].__name__ if self.value_type else "any"
        schema: Any = {"type": name} | {rule: self.rules[key] for key, (rule, _) in _RULES.items() if key in self.rules}
        if name == "float":
            schema["allow_inf_nan"] = False
        value: Any = text
        if is_json := name in ("list", "dict"):
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


def parameters_in(schema: Schema, values: Schema | None = None) -> tuple[Parameter, ...]:
    """Return the parameters of a JSON schema, in the order of their declaration.

    values: the default values, which a schema lacks if a function makes them.
    """
    definitions, required = _as_mapping(schema.get("$defs")), schema.get("required")
    required = required if isinstance(required, list) else ()
    parameters = []
    for name, declaration in _as_mapping(schema.get("properties")).items():
        hints = _as_mapping(declaration)
        members = _members(hints, definitions)
        not_null = [member for member in members if member.get("type") != "null"]
        rules = not_null[0] if len(not_null) == 1 else {}
        choices = [rules["const"]] if "const" in rules else rules.get("enum")
        default = hints.get("default", (values or {}).get(name, ""))
        parameters.append(
            Parameter(
                name=name,
                type=_type_in_words(members, definitions),
                default=None if "default" not in hints and name in required else setting_text(default),
                bounds=tuple(dict.fromkeys(bound for member in (hints, *members) for bound in _bounds(member))),
                description=str(hints.get("description", "")),
                choices=tuple(choices) if isinstance(choices, list) else (),
                rules=rules,
                is_nullable=len(not_null) < len(members),
                hints=hints,
            )
        )
    return tuple(parameters)


def type_of(rules: object) -> ValueType:
    """Return the Python type of the values of a JSON schema; None if it names none."""
    described = _as_mapping(rules)
    type_ = _TYPES.get(str(described.get("type")))
    return Path if type_ is str and str(described.get("format", "")).endswith("path") else type_


def setting_text(value: Any) -> str:
    """Return a value as a user types it after `--set NAME=`."""
    return "none" if value is None else value if isinstance(value, str) else json.dumps(value)


def settings_from(params: Mapping[str, Any]) -> list[str]:
    """Return parameters in the form of `--set`: NAME=VALUE."""
    return [f"{name}={setting_text(value)}" for name, value in params.items()]


def _as_mapping(value: Any) -> Schema:
    return value if isinstance(value, dict) else {}


def _members(schema: Schema, definitions: Schema) -> list[Schema]:
    """Return the schema itself, or those that its union or reference leads to."""
    return list(islice(_members_within(schema, definitions, _MAX_DEPTH), _MAX_MEMBERS))


def _members_within(schema: Schema, definitions: Schema, depth: int) -> Iterator[Schema]:
    union = schema.get("anyOf", schema.get("oneOf", schema.get("allOf")))
    if "$ref" in schema:
        union = [definitions.get(str(schema["$ref"]).rpartition("/")[2])]
    if not (isinstance(union, list) and union and depth):
        yield schema
        return
    for member in union:
        yield from _members_within(_as_mapping(member), definitions, depth - 1)


def _type_in_words(members: list[Schema], definitions: Schema, depth: int = 4) -> str:
    return " or ".join(dict.fromkeys(word for member in members for word in _words(member, definitions, depth)))


def _words(member: Schema, definitions: Schema, depth: int) -> Iterator[str]:
    type_ = type_of(member)
    if isinstance(member.get("enum"), list):
        yield from (shorten(setting_text(value)) for value in member["enum"])
    elif "const" in member:
        yield shorten(setting_text(member["const"]))
    elif type_ is list:
        items = _as_mapping(member.get("items", {"anyOf": member.get("prefixItems")}))
        inner = _type_in_words(_members(items, definitions), definitions, depth - 1) if items and depth else "values"
        yield f"list of {inner}"
    else:
        yield "none" if member.get("type") == "null" else _WORDS.get(type_ or object, "any value")


def _bounds(member: Schema) -> Iterator[str]:
    if isinstance(length := member.get("minItems"), int) and length == member.get("maxItems"):
        yield f"exactly {length} items"
        return
    for keyword, (_, words) in _RULES.items():
        if keyword in member:
            bound = words.format(shorten(setting_text(member[keyword])))
            yield bound.removesuffix("s") if bound.endswith((" 1 items", " 1 characters")) else bound
