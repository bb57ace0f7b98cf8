"""Describe the parameters of an attack in words, from their JSON schema.

The schema comes from a process that ran untrusted code, so its structure is not trusted.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.core.text import shorten

_TYPES = {
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "object": "object",
    "null": "none",
}
_BOUNDS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "pattern": "matching {}",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
}
_MAX_DEPTH = 4


@dataclass(frozen=True)
class Parameter:
    """One parameter. type and bounds: in words. default: as a user types it, None if a value is required."""

    name: str
    type: str
    default: str | None
    bounds: tuple[str, ...]
    description: str

    @property
    def in_words(self) -> str:
        """Type, bounds, default and description in one line."""
        default = "required" if self.default is None else f"default {self.default or repr('')}"
        return f"{', '.join((self.type, *self.bounds, default))}. {self.description}".rstrip()


def parameters_in(schema: Mapping[str, Any]) -> tuple[Parameter, ...]:
    """Return the parameters of a JSON schema, in the order of their declaration."""
    definitions = as_mapping(schema.get("$defs"))
    return tuple(
        Parameter(
            name=name,
            type=" or ".join(dict.fromkeys(_types(as_mapping(described), definitions, _MAX_DEPTH))),
            default=typed_value(described["default"]) if "default" in as_mapping(described) else None,
            bounds=tuple(dict.fromkeys(_bounds(as_mapping(described), definitions, _MAX_DEPTH))),
            description=str(as_mapping(described).get("description", "")),
        )
        for name, described in as_mapping(schema.get("properties")).items()
    )


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return `value` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def setting_text(value: Any) -> str:
    """Return a value as a user types it after `--set NAME=`."""
    return "none" if value is None else value if isinstance(value, str) else json.dumps(value)


def settings_from(params: Mapping[str, Any]) -> list[str]:
    """Return parameters in the form of `--set`: NAME=VALUE."""
    return [f"{name}={setting_text(value)}" for name, value in params.items()]


def typed_value(value: Any, limit: int = 60) -> str:
    """Return a value as a user types it, cut to `limit` characters."""
    return shorten(setting_text(value), limit)


def members_of(described: Mapping[str, Any], definitions: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the schemas that a reference or a union refers to; empty if `described` is neither."""
    if "$ref" in described:
        return [as_mapping(definitions.get(str(described["$ref"]).rpartition("/")[2]))]
    choices = described.get("anyOf", described.get("oneOf", described.get("allOf")))
    return [as_mapping(choice) for choice in choices] if isinstance(choices, list) else []


def _types(described: Mapping[str, Any], definitions: Mapping[str, Any], depth: int) -> Iterator[str]:
    members = members_of(described, definitions)
    if members and depth:
        for member in members:
            yield from _types(member, definitions, depth - 1)
    elif isinstance(described.get("enum"), list):
        yield from (typed_value(value) for value in described["enum"])
    elif "const" in described:
        yield typed_value(described["const"])
    elif described.get("type") == "array":
        items = as_mapping(described.get("items"))
        inner = " or ".join(dict.fromkeys(_types(items, definitions, depth - 1))) if items and depth else "values"
        yield f"list of {inner}"
    elif described.get("type") == "string":
        yield "path" if str(described.get("format", "")).endswith("path") else "text"
    else:
        yield _TYPES.get(str(described.get("type")), "any value")


def _bounds(described: Mapping[str, Any], definitions: Mapping[str, Any], depth: int) -> Iterator[str]:
    for keyword, clause in _BOUNDS.items():
        if keyword in described:
            yield clause.format(typed_value(described[keyword]))
    if depth:
        for member in members_of(described, definitions):
            yield from _bounds(member, definitions, depth - 1)
