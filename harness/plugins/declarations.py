"""What an attack's source says of it, read from its syntax tree: nothing in the file is run."""

import ast
import importlib.metadata
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from harness.core.errors import HarnessError
from harness.core.syntax import syntax_tree
from harness.core.text import shorten

NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_DISTRIBUTION = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
NETWORKS = ("none", "endpoint")
_ATTRIBUTES = ("name", "reference", "control", "uses_target", "guesses_per_example", "requires", "models", "network")


@dataclass(frozen=True)
class Declaration:
    """The class attributes of an attack, and the first line of its module's docstring, else of its own."""

    name: str
    summary: str = ""
    reference: str = ""
    control: bool = False
    uses_target: bool = True
    guesses_per_example: int = 1
    requires: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    network: str = "none"


def declaration_in(source: bytes) -> Declaration:
    """What the one attack in `source` declares: a class derived from Attack that sets `name`, or inherits it there.

    Raises HarnessError, in a sentence without the file's name, when the source does not parse, holds no attack or
    several, or gives an attribute a value that is no literal of its type.
    """
    tree = _parsed(source)
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    origins = _imported_names(tree)
    named = [node for node in classes.values() if _is_attack(node, classes, origins) and "name" in _assigned(node)]
    if len(named) != 1:
        what = "no attack, which is a class derived from Attack that sets `name`" if not named else "several attacks"
        raise HarnessError(f"defines {what}.")
    values = {name: _literal(name, value) for name, value in _inherited(named[0], classes).items()}
    docstring = ast.get_docstring(tree) or ast.get_docstring(named[0]) or ""
    return _checked(values, summary=docstring.strip().partition("\n")[0].strip())


def _parsed(source: bytes) -> ast.Module:
    try:
        return syntax_tree(source)
    except SyntaxError as error:
        where = f"line {error.lineno}: " if error.lineno else ""
        raise HarnessError(f"{where}does not parse ({shorten(' '.join(error.msg.split()), 120)}).") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise HarnessError(f"does not parse ({shorten(' '.join(str(error).split()), 120)}).") from None


def _imported_names(tree: ast.Module) -> dict[str, str]:
    """Each name that the module imports, to what it is called at home."""
    return {
        alias.asname or alias.name: alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def _bases(node: ast.ClassDef) -> Iterator[str]:
    for base in node.bases:
        while isinstance(base, ast.Subscript):
            base = base.value
        if isinstance(base, ast.Attribute):
            yield base.attr
        elif isinstance(base, ast.Name):
            yield base.id


def _is_attack(
    node: ast.ClassDef, classes: dict[str, ast.ClassDef], origins: dict[str, str], below: tuple[str, ...] = ()
) -> bool:
    """Whether `node` derives from Attack, or from something imported that calls itself one (`RankedAttack`)."""
    for base in _bases(node):
        if base in classes and base != node.name:
            if base not in below and _is_attack(classes[base], classes, origins, (*below, node.name)):
                return True
        elif origins.get(base, base).endswith("Attack"):
            return True
    return False


def _assigned(node: ast.ClassDef) -> dict[str, ast.expr]:
    values: dict[str, ast.expr] = {}
    for statement in node.body:
        if isinstance(statement, ast.Assign):
            values |= {target.id: statement.value for target in statement.targets if isinstance(target, ast.Name)}
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
            values[statement.target.id] = statement.value
    return {name: value for name, value in values.items() if name in _ATTRIBUTES}


def _inherited(
    node: ast.ClassDef, classes: dict[str, ast.ClassDef], below: tuple[str, ...] = ()
) -> dict[str, ast.expr]:
    values: dict[str, ast.expr] = {}
    for base in reversed(list(_bases(node))):
        if base in classes and base not in (*below, node.name):
            values |= _inherited(classes[base], classes, (*below, node.name))
    return values | _assigned(node)


def _literal(name: str, value: ast.expr) -> Any:
    try:
        return ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise HarnessError(f"line {value.lineno}: `{name}` must be a literal, so that it is known unrun.") from None


def _checked(values: dict[str, Any], *, summary: str) -> Declaration:
    name, reference = values["name"], values.get("reference", "")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise HarnessError(f"the name {shorten(repr(name))} is not lower-case letters, digits and underscores.")
    if not isinstance(reference, str):
        raise HarnessError("`reference` must be text.")
    for flag in ("control", "uses_target"):
        if not isinstance(values.get(flag, False), bool):
            raise HarnessError(f"`{flag}` must be True or False.")
    guesses = values.get("guesses_per_example", 1)
    if isinstance(guesses, bool) or not isinstance(guesses, int) or guesses < 0:
        raise HarnessError("`guesses_per_example` must be a whole number, 0 for any.")
    requires = values.get("requires", ())
    if not isinstance(requires, tuple | list):
        raise HarnessError("`requires` must be a tuple of distribution names.")
    for distribution in requires:
        if not isinstance(distribution, str) or not _DISTRIBUTION.fullmatch(distribution):
            raise HarnessError(f"`requires` names distributions, such as 'scikit-learn', not {distribution!r:.60}.")
    models = values.get("models", ())
    if not isinstance(models, tuple | list) or not all(isinstance(model, str) and model.strip() for model in models):
        raise HarnessError("`models` must be a tuple of the names of models.")
    network = values.get("network", "none")
    if network not in NETWORKS:
        raise HarnessError(f"`network` is one of {', '.join(map(repr, NETWORKS))}, not {network!r:.60}.")
    return Declaration(
        name=name,
        summary=summary,
        reference=inspect.cleandoc(reference),
        control=values.get("control", False),
        uses_target=values.get("uses_target", True),
        guesses_per_example=guesses,
        requires=tuple(requires),
        models=tuple(models),
        network=network,
    )


def missing_distribution(requires: tuple[str, ...]) -> str | None:
    """The first of the distributions that is not installed."""
    for distribution in requires:
        try:
            importlib.metadata.distribution(distribution)
        except importlib.metadata.PackageNotFoundError:
            return distribution
    return None
