"""The reference of the documentation names what the code has: keys, variables, files and public names."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
from pydantic import BaseModel

import harness
from harness.cli.app import PANELS
from harness.core.rounds import Round
from harness.core.settings import Settings
from harness.runs.folder import RunFolder
from harness.sweeps.file import SweepFile
from tests.unit.cli.test_app import DOCS, commands

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def extension() -> ModuleType:
    """The extension of the site, which generates a part of the reference."""
    spec = importlib.util.spec_from_file_location("site_extension", ROOT / "docs" / "site_extension.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def test_every_mark_of_a_page_has_a_text_and_every_text_a_mark(extension: ModuleType) -> None:
    marks = [mark for file in DOCS.parent.rglob("*.md") for mark in extension.MARK.findall(file.read_text())]
    assert sorted(marks) == sorted(extension.TEXTS)


def test_the_command_line_reference_has_every_command_and_option(extension: ModuleType) -> None:
    text = "\n\n".join(extension.TEXTS["commands"]())
    headings = re.findall(r"^##(#?) (.*)$", text, re.MULTILINE)
    assert [name for level, name in headings if not level] == ["Common options", *PANELS]
    assert {path for path, _ in commands()} <= {name for level, name in headings if level}
    sections = dict(re.findall(r"^### (.*?)\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL))
    for path, command in commands():
        names = [name for parameter in command.params for name in parameter.opts if name.startswith("--")]
        assert [name for name in names if not re.search(rf"`[^`]*{name}[ `/]", sections[path])] == []


@pytest.mark.parametrize(("mark", "model"), [("settings", Settings), ("round", Round), ("sweep", SweepFile)])
def test_every_key_of_a_toml_file_is_explained(extension: ModuleType, mark: str, model: type[BaseModel]) -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", "\n".join(extension.TEXTS[mark]()), re.MULTILINE))
    assert set(rows) == set(model.model_fields) - {"source"}
    assert all(rows.values())


def test_every_attack_is_listed_with_its_parameters(extension: ModuleType) -> None:
    text = "\n\n".join(extension.TEXTS["attacks"]())
    files = {path.stem for path in (ROOT / "attacks").glob("*.py")}
    assert set(re.findall(r"^## (\w+)$", text, re.MULTILINE)) == files
    assert re.search(r"^\| `trials` \| whole number, at least 1 \| `100` \| Suffixes sampled", text, re.MULTILINE)


def test_every_environment_variable_is_explained() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "harness").rglob("*.py"))
    used = set(re.findall(r"\bHARNESS_[A-Z_]+\b", sources))
    assert (
        used - set(re.findall(r"\bHARNESS_[A-Z_]+\b", page("configuration.md") + str(Settings.model_fields))) == set()
    )


def test_every_file_of_a_run_is_explained(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "abcd-run")
    properties = [name for name, value in vars(RunFolder).items() if isinstance(value, property)]
    values = [getattr(folder, name) for name in properties if not name.endswith("spec") and name != "record"]
    names = {path.name for path in values if isinstance(path, Path)}
    assert names > {"run.db", "spec.json", "lock"}
    assert {name for name in names if f"`{name}" not in page("run-files.md")} == set()


def test_every_public_name_has_a_reference() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in DOCS.glob("*-api.md"))
    names = set(harness.__all__) - {"__version__"}
    assert {name for name in names if not re.search(rf"(::|\}}) .*\b{name}\b", pages)} == set()
