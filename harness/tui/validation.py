"""Validation of a field's text while it is typed; the attack itself validates again when the run starts."""

import contextlib
import json
import math
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic_core import SchemaError, SchemaValidator

from harness.core.errors import HarnessError
from harness.core.paths import expand_home
from harness.core.rounds import load_round
from harness.core.text import shorten
from harness.core.times import format_duration, parse_duration
from harness.plugins.parameters import parameters_in
from harness.tui.form import Field, FieldKind

PATH_KINDS = (FieldKind.PATH, FieldKind.FILE, FieldKind.DESTINATION)
DISK_KINDS = (FieldKind.ROUND, *PATH_KINDS)
_Rules = Mapping[str, Any]
_ARGUMENTS = {
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


def validation_error(field: Field, text: str) -> str | None:
    """Return why `text` is not valid, as a clause; None if it is, or if only the attack can tell.

    Fields of `DISK_KINDS` read the disk, which may take a while.
    """
    if len(parts := field.alternatives(text)) > 1:
        return next((error for part in parts if (error := validation_error(field, part or "?"))), None)
    value = field.value_of(text)
    if value is None:
        return "required" if field.default is None else None
    if field.is_optional and value.strip().lower() in ("none", "null"):
        return None
    if field.choices:
        return None if value in field.choices else f"expected one of {shorten(', '.join(field.choices))}"
    if field.kind in (FieldKind.INTEGER, FieldKind.NUMBER) and "," in value:
        return "expected digits without commas; for several values write a space after each comma"
    check = _CHECKS.get(field.kind)
    return None if check is None else check(value, field.rules)


def round_description(name: str) -> str:
    """Return the title and the budget of a round as a clause. Raises HarnessError if it cannot be loaded."""
    round_ = load_round(name)
    budget = f"budget {format_duration(round_.budget)}"
    parts = (round_.title, budget, *(("blind",) if round_.is_blind else ()))
    return ", ".join(parts)


def round_values(name: str) -> dict[str, str]:
    """Return the round's own budget and target, by field key. Raises HarnessError if it cannot be loaded."""
    round_ = load_round(name)
    return {"--budget": format_duration(round_.budget), "--target": round_.target}


def _integer(text: str, rules: _Rules) -> str | None:
    try:
        value = int(text) if text.isascii() else None
    except ValueError:
        value = None
    return "expected a whole number" if value is None else _broken_rule("int", value, rules)


def _number(text: str, rules: _Rules) -> str | None:
    try:
        value = float(text) if text.isascii() else math.nan
    except ValueError:
        value = math.nan
    return _broken_rule("float", value, rules) if math.isfinite(value) else "expected a number"


def _text(text: str, rules: _Rules) -> str | None:
    return _broken_rule("str", text, rules)


def _json(text: str, rules: _Rules) -> str | None:
    types: dict[str, tuple[type, str]] = {"array": (list, "a list"), "object": (dict, "an object")}
    if str(rules.get("type")) not in types:
        return None
    type_, words = types[str(rules["type"])]
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, type_):
        return f"expected {words} as JSON"
    return _broken_rule("list", value, rules) if isinstance(value, list) else None


def _checked_path(check: Callable[[Path], str | None]) -> Callable[[str, _Rules], str | None]:
    def checked(text: str, rules: _Rules) -> str | None:
        try:
            return check(expand_home(text))
        except (HarnessError, OSError, ValueError):
            return "not a valid path"

    return checked


def _existing(path: Path) -> str | None:
    return None if path.exists() else "no such file or directory"


def _file(path: Path) -> str | None:
    if path.is_dir():
        return "a directory, not a file"
    return None if path.exists() else "no such file"


def _destination(path: Path) -> str | None:
    """Check a .zip file or a directory that can be created."""
    path = path.absolute()
    if path.suffix == ".zip":
        if path.is_dir():
            return "a directory, not a .zip file"
        path = path.parent
    existing = next(place for place in (path, *path.parents) if place.exists())
    if not existing.is_dir():
        return f"{shorten(existing.name)} is a file, not a directory"
    return None if os.access(existing, os.W_OK | os.X_OK) else f"{shorten(str(existing))} is not writable"


def _round(text: str, rules: _Rules) -> str | None:
    try:
        prefixes = load_round(text).prefix_file
        return None if prefixes.exists() else f"{prefixes.name} is missing: see harness data status"
    except HarnessError as error:
        return str(error).rstrip(".")


def _duration(text: str, rules: _Rules) -> str | None:
    try:
        parse_duration(text)
    except HarnessError:
        return "expected a duration such as 24h, 90m or 1h30m"
    return None


def _device(text: str, rules: _Rules) -> str | None:
    return None if re.fullmatch(r"auto|cpu|cuda(:\d+)?", text) else "expected auto, cpu, cuda or cuda:N"


def _switch(text: str, rules: _Rules) -> str | None:
    return None if text in ("true", "false") else "expected true or false"


def _broken_rule(type_: str, value: Any, rules: _Rules) -> str | None:
    """Return the first rule that `value` breaks, in the words of the parameter's description.

    pydantic checks the attack's parameters too. Unlike `re`, it needs a bounded time for every pattern.
    """
    for keyword in filter(_ARGUMENTS.get, rules):
        schema: Any = {"type": type_, _ARGUMENTS[keyword]: rules[keyword]}
        with contextlib.suppress(SchemaError):  # the rules come from untrusted code
            if not SchemaValidator(schema).isinstance_python(value):
                (parameter,) = parameters_in({"properties": {"": {keyword: rules[keyword]}}})
                return parameter.bounds[0]
    return None


_CHECKS: dict[FieldKind, Callable[[str, _Rules], str | None]] = {
    FieldKind.INTEGER: _integer,
    FieldKind.NUMBER: _number,
    FieldKind.SWITCH: _switch,
    FieldKind.TEXT: _text,
    FieldKind.PATH: _checked_path(_existing),
    FieldKind.FILE: _checked_path(_file),
    FieldKind.DESTINATION: _checked_path(_destination),
    FieldKind.JSON: _json,
    FieldKind.ROUND: _round,
    FieldKind.DURATION: _duration,
    FieldKind.DEVICE: _device,
}
