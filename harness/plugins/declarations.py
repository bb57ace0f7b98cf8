"""Read the declaration of an attack from the syntax tree of its source, without running it."""

import ast
import functools
import inspect
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from harness.core.errors import HarnessError
from harness.core.extras import installed_version
from harness.core.text import shorten

# CPython before 3.11.7 and 3.12.1 keeps the recursion depth of the parser in one place for all threads, so that two
# threads that parse at once can end in a SystemError (python/cpython#106905).
_PARSER_LOCK = threading.Lock()
NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_DISTRIBUTION = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


def syntax_tree(source: bytes | str) -> ast.Module:
    """Return the syntax tree of `source`.

    Raises SyntaxError, ValueError, RecursionError or MemoryError if it is not a program.
    """
    with _PARSER_LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source)
        except SystemError:
            # The lock does not stop other libraries, which may have been parsing at the same time.
            return ast.parse(source)


@dataclass(frozen=True)
class Declaration:
    """The class attributes of an attack, and the first line of the docstring of its module or else of its class."""

    name: str
    summary: str = ""
    """First line of the documentation."""
    reference: str = ""
    """Paper or code that the attack implements."""
    control: bool = False
    uses_target: bool = True
    """True if the attack uses the target."""
    reference_model: str = ""
    """Hub id or directory of the reference model. Empty: no model, unless `--reference` names one."""
    guesses_per_example: int = 1
    """Guesses per example in the submission. 0: any number."""
    requires: tuple[str, ...] = ()
    """Distributions that the attack imports."""
    models: tuple[str, ...] = ()
    """Models that the attack loads in addition to the target."""


def _is_tuple_of_text(value: object) -> bool:
    return isinstance(value, tuple | list) and all(isinstance(item, str) for item in value)


_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "name": (
        lambda value: isinstance(value, str) and NAME.fullmatch(value) is not None,
        "lower-case letters, digits and underscores",
    ),
    "reference": (lambda value: isinstance(value, str), "text"),
    "control": (lambda value: isinstance(value, bool), "True or False"),
    "uses_target": (lambda value: isinstance(value, bool), "True or False"),
    "reference_model": (lambda value: isinstance(value, str), "text"),
    "guesses_per_example": (lambda value: type(value) is int and value >= 0, "a whole number (0: no limit)"),
    "requires": (
        lambda value: _is_tuple_of_text(value) and all(map(_DISTRIBUTION.fullmatch, value)),
        "a tuple of distribution names, such as ('scikit-learn',)",
    ),
    "models": (lambda value: _is_tuple_of_text(value) and all(map(str.strip, value)), "a tuple of model names"),
}
"""Checks of the attributes' values, and what each expects."""


@functools.lru_cache(maxsize=256)
def declaration_in(source: bytes) -> Declaration:
    """Return the declaration of the only attack in `source`: a class derived from Attack that sets `name`.

    Raises HarnessError if the source does not parse, defines no attack or several, or gives an attribute a value that
    is not a literal of the right type. The message does not contain the name of the file.
    """
    tree = _parse(source)
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    origins = _imported_names(tree)
    attacks = [node for node in classes.values() if _is_attack(node, classes, origins) and "name" in _assignments(node)]
    if len(attacks) != 1:
        if attacks:
            raise HarnessError("several attacks found. Move each into a file of its own.")
        raise HarnessError("no attack found. Expected a class that derives from Attack and sets `name`.")
    assigned: dict[str, ast.expr] = {}
    for node in reversed(_lineage(attacks[0], classes)):
        assigned |= _assignments(node)
    values = {name: _literal(name, value) for name, value in assigned.items()}
    docstring = ast.get_docstring(tree) or ast.get_docstring(attacks[0]) or ""
    return _declaration(values, summary=docstring.strip().partition("\n")[0].strip())


def _parse(source: bytes) -> ast.Module:
    try:
        return syntax_tree(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line, message = (error.lineno, error.msg) if isinstance(error, SyntaxError) else (None, str(error))
        where = f"line {line}: " if line else ""
        raise HarnessError(f"{where}invalid Python ({shorten(' '.join(message.split()), 120)}).") from None


def _imported_names(tree: ast.Module) -> dict[str, str]:
    """Return the original name of each name that the module imports."""
    return {
        alias.asname or alias.name: alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def _bases(node: ast.ClassDef) -> Iterator[str]:
    """Yield the names of the base classes, without their type parameters and modules."""
    for base in node.bases:
        while isinstance(base, ast.Subscript):
            base = base.value
        if isinstance(base, ast.Attribute):
            yield base.attr
        elif isinstance(base, ast.Name):
            yield base.id


def _lineage(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> list[ast.ClassDef]:
    """Return `node` and its base classes in this file, each class before its bases."""
    lineage = [node]
    for derived in lineage:
        lineage += [classes[base] for base in _bases(derived) if base in classes and classes[base] not in lineage]
    return lineage


def _is_attack(node: ast.ClassDef, classes: dict[str, ast.ClassDef], origins: dict[str, str]) -> bool:
    """Return True if `node` derives from Attack, or from an imported class such as `RankedAttack`."""
    imported = (
        base
        for derived in _lineage(node, classes)
        for base in _bases(derived)
        if base not in classes or base == derived.name
    )
    return any(origins.get(base, base).endswith("Attack") for base in imported)


def _assignments(node: ast.ClassDef) -> dict[str, ast.expr]:
    """Return the attributes of an attack that the class body sets."""
    values: dict[str, ast.expr] = {}
    for statement in node.body:
        if isinstance(statement, ast.Assign):
            values |= {target.id: statement.value for target in statement.targets if isinstance(target, ast.Name)}
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
            values[statement.target.id] = statement.value
    return {name: value for name, value in values.items() if name in _CHECKS}


def _literal(name: str, value: ast.expr) -> Any:
    try:
        return ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise HarnessError(
            f"line {value.lineno}: `{name}` is not a literal. Write its value out: the file is read, not run."
        ) from None


def _declaration(values: dict[str, Any], *, summary: str) -> Declaration:
    for attribute, value in values.items():
        is_valid, expected = _CHECKS[attribute]
        if not is_valid(value):
            raise HarnessError(f"`{attribute}` must be {expected}, not {shorten(repr(value))}.")
    declared = Declaration(**values, summary=summary)
    if declared.reference_model and not declared.uses_target:
        raise HarnessError("`reference_model` needs a target, but `uses_target` is False. Remove one of them.")
    return replace(
        declared,
        reference=inspect.cleandoc(declared.reference),
        requires=tuple(declared.requires),
        models=tuple(declared.models),
    )


def missing_distribution(requires: tuple[str, ...]) -> str | None:
    """Return the first of these distributions that is not installed, None if all are."""
    return next((distribution for distribution in requires if installed_version(distribution) is None), None)
