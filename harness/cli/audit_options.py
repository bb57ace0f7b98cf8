"""The options of the commands that start an audit, as data from which the screen makes a form."""

import inspect
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.audit_book import book
from harness.cli.audit_compare import compare
from harness.cli.audit_entities import entities
from harness.cli.audit_leakage import leakage
from harness.cli.audit_membership import membership
from harness.cli.audit_sequence import sequence
from harness.cli.options import Json
from harness.cli.output import align_columns, print_json
from harness.cli.typer_classes import one_option_per_field
from harness.core.errors import unknown_name

AUDITS: dict[str, Callable[..., None]] = {
    "sequence": sequence,
    "leakage": leakage,
    "entities": entities,
    "book": book,
    "compare": compare,
    "membership": membership,
}
_NO_FIELD = ("json", "detach", "out", "redact")
_TYPES = {int: "integer", float: "number", bool: "switch", Path: "path"}


def options(
    audit: Annotated[str, typer.Argument(metavar="AUDIT", help="Name of an audit.")], json: Json = False
) -> None:
    """Print the options of an audit."""
    if audit not in AUDITS:
        raise unknown_name("audit", audit, AUDITS, see="harness audit --help")
    parameters = inspect.signature(one_option_per_field(AUDITS[audit])).parameters.values()
    fields = [_as_json(parameter) for parameter in parameters if parameter.name not in _NO_FIELD]
    if not json:
        print(align_columns([(f"--{field['name']}", field["help"]) for field in fields]))
        return
    print_json({"audit": audit, "help": inspect.getdoc(AUDITS[audit]) or "", "options": fields})


def _as_json(parameter: inspect.Parameter) -> dict[str, Any]:
    """Return an option: its name, type, default (None without one), help, least value, and how it is written."""
    annotation, info = typing.get_args(parameter.annotation)[:2]
    members = typing.get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
    (kind,) = (member for member in members if member is not types.NoneType)
    is_repeatable = typing.get_origin(kind) is list
    if is_repeatable:
        (kind,) = typing.get_args(kind)
    name = parameter.name.rstrip("_").replace("_", "-")
    return {
        "name": name,
        "type": "round" if name.endswith("round") else _TYPES.get(kind, "text"),
        "default": None if parameter.default is inspect.Parameter.empty else parameter.default,
        "help": info.help or "",
        "minimum": info.min,
        "is_argument": isinstance(info, typer.models.ArgumentInfo),
        "is_repeatable": is_repeatable,
    }
