"""Describe and validate the parameters of a plugin: `python -m harness.worker.schema FILE`, request as JSON on stdin.

The answer is JSON on stdout. Everything that the plugin prints goes to stderr.
"""

import contextlib
import inspect
import json
import os
import sys
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path, PurePath
from typing import Annotated, Any, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from harness.core.attack import Params
from harness.core.errors import HarnessError
from harness.core.faults import JSON_WORDS, fault_message, shown_value, value_clause
from harness.core.parameters import NULL_WORDS
from harness.worker.plugin import describe_exception, load_attack


def main(path: Path) -> None:
    """Answer the request on stdin and exit at once, even if the plugin started a thread."""
    answers = os.dup(1)  # not inheritable, so that children of the plugin cannot write an answer
    os.dup2(2, 1)
    request = json.load(sys.stdin)
    try:
        answer = answer_request(path, request["set"], whole=bool(request.get("validate")))
        text = json.dumps(answer, allow_nan=False)
    except HarnessError as error:
        text = json.dumps({"error": str(error)})
    except Exception as error:
        text = json.dumps({"error": f"{path}: its parameters cannot be described ({describe_exception(path, error)})."})
    with os.fdopen(answers, "w", encoding="utf-8") as output:
        output.write(text)
    sys.stderr.flush()
    os._exit(0)


def answer_request(path: Path, settings: Mapping[str, Any], *, whole: bool) -> dict[str, Any]:
    """Return the schema of the attack at `path`, and its parameters with the values `given` as text.

    With `whole`, a missing parameter is a fault. `params` is null if there is any fault. `changed` lists the given
    parameters whose value is not the default.
    """
    attack = load_attack(path)
    params = attack.params_type()
    fields = params.model_fields
    values = {name: _parse(fields[name], value) for name, value in settings.items() if name in fields}
    resolved = None
    try:
        resolved = params.model_validate(values, by_alias=False, by_name=True).model_dump(mode="json")
    except ValidationError as error:
        details = error.errors(include_url=False)
        faults = [*_faults([detail for detail in details if whole or not _is_missing(detail)])]
    else:
        faults = [*_not_finite(resolved)]
    return {
        "schema": params.model_json_schema(by_alias=False),
        "doc": inspect.cleandoc(sys.modules[attack.__module__].__doc__ or attack.__doc__ or ""),
        "params": None if faults else resolved,
        "path_params": [name for name, field in params.model_fields.items() if _holds_path(field.annotation)],
        "faults": faults,
        "unknown": [name for name in settings if name not in params.model_fields],
        "changed": [] if faults or resolved is None else _changed(params, values, resolved),
    }


def _changed(params: type[Params], values: Mapping[str, Any], resolved: Mapping[str, Any]) -> list[str]:
    """Return the names of `values` that are required, or whose `resolved` value is not the default."""
    required = {name: value for name, value in values.items() if params.model_fields[name].is_required()}
    try:
        defaults = params.model_validate(required, by_alias=False, by_name=True).model_dump(mode="json")
    except ValidationError:
        # The defaults of this attack do not fit together.
        return list(values)
    return [name for name in resolved if name in values and (name in required or resolved[name] != defaults[name])]


def _parse(field: FieldInfo, value: Any) -> Any:
    """Return the value that a text of the command line means for `field`; an invalid text is returned unchanged.

    `none` and `null` are None if the field allows it. Then the type of the field is tried, then JSON.
    """
    if not isinstance(value, str):
        return value
    annotation: Any = Annotated[field.annotation, field]
    adapter = TypeAdapter(annotation)
    with contextlib.suppress(ValidationError):
        if value.lower() in NULL_WORDS:
            return adapter.validate_python(None)
    with contextlib.suppress(ValidationError):
        return adapter.validate_strings(value)
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        return value
    with contextlib.suppress(ValidationError):
        return adapter.validate_python(parsed)
    return parsed if isinstance(parsed, list | dict) else value


def _faults(details: list[ErrorDetails]) -> Iterator[str]:
    """Yield the parameter, the rule and the given value of each refused place.

    A value that fits no member of a union has an error for each of them.
    """
    for (field, place), group in groupby(details, key=lambda detail: _place(detail["loc"])):
        group_of_place = list(group)
        messages = dict.fromkeys(fault_message(detail, JSON_WORDS) for detail in group_of_place)
        first, value = group_of_place[0], ""
        if field and not _is_missing(first):
            value = value_clause(first) or shown_value(first["input"])
        yield f"{field and f'{field}: '}{place}{' or '.join(messages)}{value}"


def _place(location: tuple[int | str, ...]) -> tuple[str, str]:
    field, *inside = location or ("",)
    # Names in a location are pydantic's names of union members; integers are positions in the user's value.
    positions = ".".join(str(step) for step in inside if isinstance(step, int))
    return str(field), f"item {positions} " if positions else ""


def _is_missing(detail: ErrorDetails) -> bool:
    return detail["type"] == "missing" and len(detail["loc"]) == 1


def _not_finite(resolved: dict[str, Any]) -> Iterator[str]:
    """Yield a sentence about each parameter that JSON cannot hold."""
    for name, value in resolved.items():
        try:
            json.dumps(value, allow_nan=False)
        except ValueError:
            yield f"{name}: must be finite{shown_value(value)}"


def _holds_path(annotation: Any) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, PurePath):
        return True
    return any(_holds_path(argument) for argument in get_args(annotation))


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
