"""Names and docstrings in the code say what they describe."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGES = ("harness", "attacks")
EMPTY = {"found", "one", "each", "mine", "given", "some", "other", "others", "beside", "here", "own", "what", "which"}
FRAGMENT = re.compile(r"\s*(Of|As|At|By|For|From|In|On|How|What|When|Where|Whether|Which|Who|Whose|Why)\b")


def _named(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield every name that the code defines, and its line."""
    comparisons = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "__eq__"]
    conventional = {argument for node in comparisons for argument in node.args.args}
    for node in ast.walk(tree):
        if node in conventional:
            continue
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name, node.lineno
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, node.lineno


@pytest.mark.parametrize("package", PACKAGES)
def test_no_name_is_a_pronoun(package):
    root = Path(__file__).parents[2] / package
    empty = [
        f"{path.relative_to(root)}:{line} {name}"
        for path in sorted(root.rglob("*.py"))
        for name, line in _named(ast.parse(path.read_text()))
        if name.strip("_") in EMPTY
    ]
    assert not empty


@pytest.mark.parametrize("package", PACKAGES)
def test_no_docstring_is_a_clause_without_its_noun(package):
    """This includes the strings under fields."""
    root = Path(__file__).parents[2] / package
    fragments = [
        f"{path.relative_to(root)}:{node.lineno} {text}"
        for path in sorted(root.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and FRAGMENT.match(text := str(node.value.value))
    ]
    assert not fragments
