"""Names and docstrings in the code say what they describe."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGES = ("harness", "attacks")
EMPTY = {"found", "one", "each", "mine", "given", "some", "other", "others", "beside", "here", "own", "what", "which"}
FRAGMENT = re.compile(r"\s*(Of|As|At|By|For|From|In|On|How|What|When|Where|Whether|Which|Who|Whose|Why)\b")


@functools.cache
def _nodes(package: str) -> dict[Path, list[ast.AST]]:
    """Return all nodes of the syntax tree of each file of a package, by its path in the package."""
    root = Path(__file__).parents[2] / package
    return {path.relative_to(root): [*ast.walk(ast.parse(path.read_text()))] for path in sorted(root.rglob("*.py"))}


def _named(nodes: list[ast.AST]) -> Iterator[tuple[str, int]]:
    """Yield every name that the code defines, and its line."""
    comparisons = [node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == "__eq__"]
    conventional = {argument for node in comparisons for argument in node.args.args}
    for node in nodes:
        if node in conventional:
            continue
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name, node.lineno
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, node.lineno


@pytest.mark.parametrize("package", PACKAGES)
def test_no_name_is_a_pronoun(package):
    empty = [
        f"{path}:{line} {name}"
        for path, nodes in _nodes(package).items()
        for name, line in _named(nodes)
        if name.strip("_") in EMPTY
    ]
    assert not empty


@pytest.mark.parametrize("package", PACKAGES)
def test_no_docstring_is_a_clause_without_its_noun(package):
    """This includes the strings under fields."""
    fragments = [
        f"{path}:{node.lineno} {text}"
        for path, nodes in _nodes(package).items()
        for node in nodes
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and FRAGMENT.match(text := str(node.value.value))
    ]
    assert not fragments
