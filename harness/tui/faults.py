"""What is amiss in a value as it was typed, in one short clause: the screen's first look, before the attack's own."""

import json
import math
import operator
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import SchemaError, SchemaValidator, core_schema

from harness.core.errors import HarnessError
from harness.core.paths import expand_home
from harness.core.rounds import load_round
from harness.core.text import shorten
from harness.core.times import format_duration, parse_duration
from harness.plugins.parameters import parameters_in
from harness.tui.form import Field, Kind

PATH_KINDS = (Kind.PATH, Kind.FILE, Kind.DESTINATION)
DISK_KINDS = (Kind.ROUND, *PATH_KINDS)
_ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    "minimum": operator.ge,
    "exclusiveMinimum": operator.gt,
    "maximum": operator.le,
    "exclusiveMaximum": operator.lt,
}
_TEXT_SIZE = {"minLength": operator.ge, "maxLength": operator.le}
_LIST_SIZE = {"minItems": operator.ge, "maxItems": operator.le}


def fault_in(field: Field, text: str) -> str | None:
    """Why the attack or the command would refuse `text`, as a clause; None when nothing is known against it.

    The default is never at fault. Fields of `DISK_KINDS` are looked up on disk, which may take a while.
    """
    value = field.given(text)
    if value is None:
        return "required" if field.default is None else None
    if field.is_optional and value.strip().lower() in ("none", "null"):
        return None
    if field.choices:
        return None if value in field.choices else f"one of {shorten(', '.join(field.choices))}"
    check = _CHECKS.get(field.kind)
    return None if check is None else check(value, field.rules)


def round_in_words(name: str) -> str:
    """What the round called `name` is, as a clause. Raises HarnessError when it cannot be loaded."""
    round_ = load_round(name)
    words = (round_.title, f"budget {format_duration(round_.budget)}", *(("blind",) if round_.is_blind else ()))
    return ", ".join(words)


def _whole_number(text: str, rules: Mapping[str, Any]) -> str | None:
    try:
        value = int(text) if text.isascii() else None
    except ValueError:
        value = None
    if value is None:
        return "a whole number"
    step = rules.get("multipleOf")
    if type(step) is int and step > 0 and value % step:
        return _clause("multipleOf", rules)
    return _broken(_ORDER, value, rules)


def _number(text: str, rules: Mapping[str, Any]) -> str | None:
    try:
        value = float(text) if text.isascii() else math.nan
    except ValueError:
        value = math.nan
    return _broken(_ORDER, value, rules) if math.isfinite(value) else "a number"


def _text(text: str, rules: Mapping[str, Any]) -> str | None:
    pattern = rules.get("pattern")
    if isinstance(pattern, str) and not _matches(pattern, text):
        return _clause("pattern", rules)
    return _broken(_TEXT_SIZE, len(text), rules)


def _matches(pattern: str, text: str) -> bool:
    # The engine that the attack's own check uses; unlike `re` its time is bounded, whatever the pattern.
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern)).isinstance_python(text)
    except SchemaError:
        return True


def _json(text: str, rules: Mapping[str, Any]) -> str | None:
    kinds: dict[str, tuple[type, str]] = {"array": (list, "a list"), "object": (dict, "an object")}
    kind, words = kinds.get(str(rules.get("type")), (object, ""))
    if kind is object:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, kind):
        return f"{words}, written as JSON"
    return _broken(_LIST_SIZE, len(value), rules) if isinstance(value, list) else None


def _path(text: str, rules: Mapping[str, Any]) -> str | None:
    try:
        return None if expand_home(text).exists() else "no such file or folder"
    except (HarnessError, OSError, ValueError):
        return "not a path of this machine"


def _file(text: str, rules: Mapping[str, Any]) -> str | None:
    try:
        path = expand_home(text)
        if path.is_dir():
            return "a folder, not a file"
        return None if path.exists() else "no such file"
    except (HarnessError, OSError, ValueError):
        return "not a path of this machine"


def _destination(text: str, rules: Mapping[str, Any]) -> str | None:
    """A .zip or a folder, neither of which need be there: what is made on the way must be possible."""
    try:
        path = expand_home(text).absolute()
        if path.suffix == ".zip":
            if path.is_dir():
                return "a folder, not a .zip"
            path = path.parent
        there = next(place for place in (path, *path.parents) if place.exists())
        if not there.is_dir():
            return f"{shorten(there.name)} is a file, not a folder"
        return None if os.access(there, os.W_OK | os.X_OK) else f"{shorten(str(there))} may not be written to"
    except (HarnessError, OSError, ValueError):
        return "not a path of this machine"


def _round_fault(text: str, rules: Mapping[str, Any]) -> str | None:
    try:
        prefixes = load_round(text).prefix_file
        return None if prefixes.exists() else f"{prefixes.name} is not here: harness data status says how to get it"
    except HarnessError as error:
        return str(error).rstrip(".")


def _duration(text: str, rules: Mapping[str, Any]) -> str | None:
    try:
        parse_duration(text)
    except HarnessError:
        return "a duration such as 24h, 90m or 1h30m"
    return None


def _device(text: str, rules: Mapping[str, Any]) -> str | None:
    return None if re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", text) else "auto, cpu, cuda, cuda:N or mps"


def _switch(text: str, rules: Mapping[str, Any]) -> str | None:
    return None if text in ("true", "false") else "true or false"


def _broken(keywords: Mapping[str, Callable[[Any, Any], bool]], value: float, rules: Mapping[str, Any]) -> str | None:
    for keyword, holds in keywords.items():
        limit = rules.get(keyword)
        if isinstance(limit, int | float) and not isinstance(limit, bool) and not holds(value, limit):
            return _clause(keyword, rules)
    return None


def _clause(keyword: str, rules: Mapping[str, Any]) -> str:
    """The bound called `keyword` in the words that describe it everywhere."""
    (parameter,) = parameters_in({"properties": {"": {keyword: rules[keyword]}}})
    return parameter.bounds[0]


_CHECKS: dict[Kind, Callable[[str, Mapping[str, Any]], str | None]] = {
    Kind.INTEGER: _whole_number,
    Kind.NUMBER: _number,
    Kind.SWITCH: _switch,
    Kind.TEXT: _text,
    Kind.PATH: _path,
    Kind.FILE: _file,
    Kind.DESTINATION: _destination,
    Kind.JSON: _json,
    Kind.ROUND: _round_fault,
    Kind.DURATION: _duration,
    Kind.DEVICE: _device,
}
