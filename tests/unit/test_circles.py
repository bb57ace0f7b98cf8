"""No modules of the package import each other in a circle, not even inside functions or for types alone."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "harness"


def imported_names(source: str) -> Iterator[str]:
    """Yield the full name of everything that `source` imports, wherever the statement is."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names):
                yield from (f"{module}.{alias.name}" for alias in names)


def test_no_modules_import_each_other_in_a_circle() -> None:
    names = {file: ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts) for file in PACKAGE.rglob("*.py")}
    modules = {name.removesuffix(".__init__"): file for file, name in names.items()}
    graph = {
        module: {
            home
            for name in imported_names(file.read_text())
            if (home := name if name in modules else name.rpartition(".")[0]) in modules
        }
        for module, file in modules.items()
    }
    assert len(graph) > 300
    circle: list[str] = []
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle = error.args[1]
    assert not circle, " imports ".join(reversed(circle))


def test_imports_in_functions_and_for_types_are_found() -> None:
    source = "import a.b\nif TYPE_CHECKING:\n    from a import c\ndef f():\n    from a.d import e as g"
    assert list(imported_names(source)) == ["a.b", "a.c", "a.d.e"]
