"""The parameters of an attack from their JSON schema: their description, and the values that a search tries.

The schema comes from a process that ran untrusted code, so its structure is not trusted.
"""

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.core.errors import HarnessError, unknown_name
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
    """One parameter. type and bounds: in words."""

    name: str
    type: str
    default: str | None
    """The text that a user would type, None if a value is required."""
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
            bound = clause.format(typed_value(described[keyword]))
            yield bound.removesuffix("s") if bound.endswith((" 1 items", " 1 characters")) else bound
    if depth:
        for member in members_of(described, definitions):
            yield from _bounds(member, definitions, depth - 1)


@dataclass(frozen=True)
class Span:
    """The values of one parameter: the choices if there are any, else all values from `low` to `high`."""

    low: float = 0.0
    high: float = 0.0
    is_whole: bool = False
    choices: tuple[Any, ...] = ()

    def holds(self, value: Any) -> bool:
        """Return True if `value` is one of these values."""
        if self.choices:
            return value in self.choices
        return isinstance(value, int | float) and self.low <= value <= self.high

    @property
    def in_words(self) -> str:
        """The values as a user types them after `--vary NAME=`."""
        return ",".join(map(str, self.choices)) if self.choices else f"{self.low:g}..{self.high:g}"


def space_of(schema: Mapping[str, Any], fixed: Sequence[str], vary: Sequence[str]) -> dict[str, Span]:
    """Return the parameters to search: those with two bounds or a list of values, and those of `vary`.

    schema: JSON schema of the parameters.
    vary: options `NAME=LOW..HIGH` or `NAME=A,B,C`.
    fixed: settings `NAME=VALUE`, which are not searched.
    Raises HarnessError if a `vary` does not fit the schema, or if no parameter is left.
    """
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    space = {name: span for name, described in properties.items() if (span := _declared_span(described)) is not None}
    for text in vary:
        name, _, values = text.partition("=")
        if name not in properties:
            raise unknown_name("parameter", name, properties, see="harness show ATTACK")
        space[name] = _typed_span(name, values, properties[name])
    for text in fixed:
        space.pop(text.partition("=")[0], None)
    if not space:
        raise HarnessError(
            "nothing to tune: no parameter has two bounds or a list of values. Add --vary NAME=LOW..HIGH."
        )
    return space


def settings_of(space: Mapping[str, Span], params: Mapping[str, Any]) -> list[str]:
    """Return the searched parameters in the form of `--set`: NAME=VALUE."""
    return [f"{name}={_typed(params[name])}" for name in space]


def every_setting(space: Mapping[str, Span]) -> Iterator[list[str]]:
    """Yield all settings if the space is finite (whole numbers and choices), in the form of `--set`; else nothing."""
    if all(span.choices or span.is_whole for span in space.values()):
        values = (span.choices or range(int(span.low), int(span.high) + 1) for span in space.values())
        for chosen in itertools.product(*values):
            yield settings_of(space, dict(zip(space, chosen, strict=True)))


def _declared_span(described: Any) -> Span | None:
    """Return the values that the schema of a parameter allows, None if it has no two bounds."""
    if not isinstance(described, dict):
        return None
    if described.get("type") == "boolean":
        return Span(choices=(False, True))
    if isinstance(described.get("enum"), list) and len(described["enum"]) > 1:
        return Span(choices=tuple(described["enum"]))
    is_whole = described.get("type") == "integer"
    low, high = described.get("minimum"), described.get("maximum")
    if not is_whole and low is None and described.get("exclusiveMinimum") is not None and high is not None:
        # The bound is excluded, so start a thousandth of the range above it.
        low = described["exclusiveMinimum"] + (high - described["exclusiveMinimum"]) / 1000
    if described.get("type") not in ("integer", "number") or low is None or high is None:
        return None
    return Span(float(low), float(high), is_whole)


def _typed_span(name: str, values: str, described: Any) -> Span:
    """Return the values of `--vary NAME=VALUES`."""
    option = f"{name}={shorten(values)}"
    kind = described.get("type") if isinstance(described, dict) else None
    low, dots, high = values.partition("..")
    if dots:
        first, last = _number(low), _number(high)
        if isinstance(first, str) or isinstance(last, str) or first >= last:
            raise HarnessError(f"{option}: not a range. Write LOW..HIGH with two numbers, the lower one first.")
        numbers: tuple[float | int | str, ...] = (first, last)
        span = Span(float(first), float(last), kind == "integer")
    else:
        choices = [value.strip() for value in values.split(",") if value.strip()]
        if len(choices) < 2:
            raise HarnessError(
                f"{option}: not enough values. Write LOW..HIGH, or two values or more with commas between them."
            )
        if kind == "boolean":
            if sorted(choices) != ["false", "true"]:
                raise HarnessError(f"{option}: the parameter is true or false. Write true,false.")
            return Span(choices=(False, True))
        numbers = tuple(_number(choice) for choice in choices)
        span = Span(choices=numbers)
    if kind == "integer" and not all(isinstance(number, int) for number in numbers):
        raise HarnessError(f"{option}: the parameter takes whole numbers only.")
    return span


def _number(text: str) -> float | int | str:
    """Return the finite number that `text` is, or else the text."""
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        if math.isfinite(value):
            return value
    return text.strip()


def _typed(value: Any) -> str:
    """Return a value in the form of `--set`."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.6g}" if isinstance(value, float) else str(value)
