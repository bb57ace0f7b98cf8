"""Say in one clause which rule a value breaks, from the errors of pydantic."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from harness.core.errors import did_you_mean
from harness.core.text import shorten

_SENTENCES = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "int": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float": "must be a number",
    "bool": "must be true or false",
    "string": "must be text",
    "path": "must be a path, as text",
    **dict.fromkeys(("list", "tuple", "set"), "must be a list in brackets"),
    **dict.fromkeys(("dict", "model"), "must be a table"),
    "string_pattern_mismatch": "must match {pattern}",
    "missing": "is required",
    "extra_forbidden": "unknown field",
    "value_error": "{error}",
    "assertion_error": "{error}",
}
"""The sentence for each type of pydantic's errors, without the endings `_type` and `_parsing`."""
JSON_WORDS = {
    **dict.fromkeys(("list", "tuple", "set"), "must be a list, written as JSON"),
    **dict.fromkeys(("dict", "model"), "must be an object, written as JSON"),
}
"""The sentences that differ for a value of the command line or of a form."""


def fault_message(fault: ErrorDetails, words: Mapping[str, str] = {}) -> str:
    """Return the rule that a value breaks, as a clause such as `must be at least 1`.

    words: sentences that replace those of `_SENTENCES`.
    """
    kind = fault["type"].removesuffix("_type").removesuffix("_parsing")
    if (sentence := {**_SENTENCES, **words}.get(kind)) is not None:
        message = sentence.format_map(fault.get("ctx", {}))
    else:
        message = re.sub(r"^\w+ should ", "must ", fault["msg"]).replace(" after validation", "")
    return shorten(" ".join(message.split()).rstrip("."), 200)


def first_fault(error: ValidationError, words: Mapping[str, str] = {}, fields: Iterable[str] = ()) -> str:
    """Return the first field that failed validation, the reason and the value: `limit: must be at least 1, got 0`.

    An unknown field comes before the others, because it may be the misspelt name of one that is missing.
    words: as in `fault_message`.
    fields: the names of the record's fields, of which the nearest to an unknown one is suggested.
    """
    faults = error.errors(include_url=False)
    fault = next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])
    field = ".".join(str(part) for part in fault["loc"])
    return f"{shorten(field) + ': ' if field else ''}{fault_message(fault, words)}{value_clause(fault, fields)}"


def value_clause(fault: ErrorDetails, fields: Iterable[str] = ()) -> str:
    """Return the clause that repeats a wrong value, or suggests a name for an unknown one; '' if neither helps.

    fields: as in `first_fault`.
    """
    kind, value, hint = fault["type"], fault["input"], ""
    if kind == "extra_forbidden":
        hint = did_you_mean(str(fault["loc"][-1]), fields)
    elif kind in ("literal_error", "enum") and isinstance(value, str):
        hint = did_you_mean(value, re.findall(r"'([^']*)'", fault["ctx"]["expected"]))
    is_shown = kind not in ("extra_forbidden", "missing", "value_error", "assertion_error")
    shown = shown_value(value) if is_shown else ""
    return f"{shown} ({hint})" if hint else shown


def shown_value(value: Any) -> str:
    """Return the clause that repeats a number or a text, cut to 60 characters; '' for other values."""
    return f", got {shorten(repr(value))}" if isinstance(value, str | int | float | bool | None) else ""
