"""The declarations of a file come before its first function or class."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]


def seams(source: str) -> list[str]:
    """Return the names declared below the first function or class although they need no definition above them.

    A second `__all__` and a TYPE_CHECKING block below a definition or above an import count too.
    """
    return list(_seams(ast.parse(source).body))


def _seams(statements: list[ast.stmt]) -> Iterator[str]:
    definitions: set[str] = set()
    has_exports = False
    for place, statement in enumerate(statements):
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                definitions.add(name)
            case ast.Assign() | ast.AnnAssign():
                names = {node.id: type(node.ctx) for node in ast.walk(statement) if isinstance(node, ast.Name)}
                targets = [name for name, context in names.items() if context is ast.Store]
                if targets == ["__all__"]:
                    yield from targets if has_exports else ()
                    has_exports = True
                elif definitions & set(names):
                    definitions.update(targets)
                elif definitions:
                    yield ", ".join(targets) or ast.unparse(statement).partition(" =")[0]
            case ast.If(test=test) if "TYPE_CHECKING" in ast.unparse(test):
                below = statements[place + 1 :]
                if definitions or any(isinstance(following, ast.Import | ast.ImportFrom) for following in below):
                    yield "TYPE_CHECKING"


def test_declarations_come_before_definitions() -> None:
    files = [path for package in ("harness", "attacks") for path in sorted((ROOT / package).rglob("*.py"))]
    names = {str(path.relative_to(ROOT)): seams(path.read_text()) for path in files}
    bad = {file: found for file, found in names.items() if found}
    assert not bad, "\n".join(["", *(f"{file}: {', '.join(found)}" for file, found in bad.items())])


def test_seams_are_found() -> None:
    first = "def f(): ...\n"
    assert seams(first + "A = 1\nB: int = 2") == ["A", "B"]
    assert seams(first + "A = f()\nB = A + 1\nC: list[f] = []") == []
    assert seams("__all__ = ['f']\n" + first + "__all__ = ['g']") == ["__all__"]
    assert seams(first + "if TYPE_CHECKING:\n    import a") == ["TYPE_CHECKING"]
    assert seams("import a\nif TYPE_CHECKING:\n    import b\nimport c") == ["TYPE_CHECKING"]
    assert seams("import a\nA = 1\nif TYPE_CHECKING:\n    import b\n" + first) == []
