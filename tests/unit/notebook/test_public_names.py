"""The names that `import harness` offers."""

import importlib
import pkgutil
import subprocess
import sys
from types import FunctionType

import harness


def test_no_public_name_is_that_of_a_module() -> None:
    """Importing the module `harness.NAME` would replace the attribute."""
    modules = {module.name for module in pkgutil.iter_modules(harness.__path__)}
    assert {"runs", "notebook"} <= modules
    assert not modules & set(harness.__all__)


def test_every_public_name_can_be_imported_and_has_a_docstring() -> None:
    assert set(harness.__all__) <= set(dir(harness))
    exported = {name: getattr(harness, name) for name in harness.__all__}
    # An alias of a type cannot have a docstring.
    described = {name: value for name, value in exported.items() if isinstance(value, type | FunctionType)}
    assert {"Attack", "run", "Context"} <= set(described)
    assert [name for name, value in described.items() if not value.__doc__] == []


def test_functions_stay_after_modules_of_similar_names_are_imported() -> None:
    for name in ("harness.runs", "harness.core.scoring", "harness.notebook.runs"):
        importlib.import_module(name)
    assert callable(harness.run) and callable(harness.score) and callable(harness.list_runs)


def test_opening_a_run_loads_no_pandas() -> None:
    code = "import harness, sys; harness.run, harness.open_run, harness.score; print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
