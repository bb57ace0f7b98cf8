"""The reference of the documentation is current, and has the keys, variables, files and public names of the code."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import harness
from harness.cli.app import PANELS
from harness.core.errors import HarnessError
from harness.core.rounds import Round, load_round
from harness.core.settings import Settings, read_settings
from harness.runs.folder import RunFolder
from harness.sweeps.file import SWEEP_FILE, read_sweep_file
from tests.functional.walkthrough import steps_in
from tests.reference.pages import MARK, PAGES, TEXTS, filled
from tests.unit.cli.test_app import DOCS, commands

ROOT = Path(__file__).parents[2]
GENERATED = [path for path in PAGES if "<!-- generated" in path.read_text(encoding="utf-8")]


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.stem)
def test_a_generated_page_is_current(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # A page is the same on every machine, whatever its terminal, its settings and its directories are.
    (tmp_path / "config.toml").write_text('round = "satml-dev"\ndevice = "cpu"\n')
    for name, value in {"COLUMNS": "40", "HARNESS_CONFIG": str(tmp_path), "HARNESS_HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    text = path.read_text(encoding="utf-8")
    assert filled(text) == text, "Run: make reference"
    assert str(ROOT) not in text


def test_every_text_is_on_a_page_and_between_two_marks() -> None:
    texts = [path.read_text(encoding="utf-8") for path in GENERATED]
    assert {mark["text"] for text in texts for mark in MARK.finditer(text)} == set(TEXTS)
    assert sum(text.count("<!-- generated") for text in texts) == sum(len(MARK.findall(text)) for text in texts)


def test_a_changed_page_is_written_again() -> None:
    text = page("sweep-files.md")
    assert filled(text.replace("| key |", "| old key |")) == text


def test_the_command_line_reference_has_every_command_and_option() -> None:
    text = page("command-line.md")
    headings = re.findall(r"^##(#?) (.*)$", text, re.MULTILINE)
    assert [name for level, name in headings if not level] == ["Common options", *PANELS, "Exit codes"]
    assert {path for path, _ in commands()} <= {name for level, name in headings if level}
    sections = dict(re.findall(r"^### (.*?)\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL))
    for path, command in commands():
        names = [name for parameter in command.params for name in parameter.opts if name.startswith("--")]
        assert [name for name in names if not re.search(rf"`[^`]*{name}[ `/]", sections[path])] == []


@pytest.mark.parametrize(
    ("name", "model"),
    [("run-files.md", Settings), ("round-files.md", Round), ("sweep-files.md", SWEEP_FILE)],
)
def test_every_key_of_a_toml_file_is_explained(name: str, model: type[BaseModel]) -> None:
    (part,) = (mark[0] for mark in MARK.finditer(page(name)))
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", part, re.MULTILINE))
    assert set(rows) == set(model.model_fields) - {"source"}
    assert all(rows.values())


@pytest.mark.parametrize(
    ("name", "read", "needed"),
    [
        ("run-files.md", lambda _: read_settings(), {}),
        ("round-files.md", load_round, dict.fromkeys(("name", "title", "prefix_file", "target"), "demo")),
        ("sweep-files.md", lambda path: read_sweep_file(Path(path)), {"attacks": ["greedy"]}),
    ],
    ids=["settings", "round", "sweep"],
)
def test_a_default_in_the_reference_is_what_the_loader_uses(
    name: str, read: Callable[[str], BaseModel], needed: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CONFIG", str(tmp_path))
    file = tmp_path / "config.toml"

    def read_with(values: dict[str, Any]) -> BaseModel:
        file.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items()))
        return read(str(file))

    (part,) = (mark[0] for mark in MARK.finditer(page(name)))
    cells = dict(re.findall(r"^\| `(\w+)` \| .*? \| (required|`.*?`|) \|", part, re.MULTILINE))
    assert {key for key, cell in cells.items() if cell == "required"} == set(needed)
    for key, cell in cells.items():
        if cell == "required":
            with pytest.raises(HarnessError, match=f"{key}: is required"):
                read_with({other: value for other, value in needed.items() if other != key})
        elif cell:
            assert read_with(needed | {key: _in_json(cell.strip("`"))}) == read_with(needed), key


def _in_json(text: str) -> Any:
    """Return a default of the reference as a value: JSON, or else text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def test_every_attack_is_listed_with_its_parameters() -> None:
    text = page("attacks.md")
    assert set(re.findall(r"^## (\w+)$", text, re.MULTILINE)) == {path.stem for path in (ROOT / "attacks").glob("*.py")}
    assert re.search(r"^\| `trials` \| whole number, at least 1 \| `100` \| Suffixes sampled", text, re.MULTILINE)


def test_a_method_is_described_with_its_types_and_its_names() -> None:
    text = page("attack-api.md")
    assert "def select(rows: Ints) -> None" in text and "\n- `view`: how the prefixes are shown." in text


def test_every_environment_variable_is_explained() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "harness").rglob("*.py"))
    used = set(re.findall(r"\bHARNESS_[A-Z_]+\b", sources))
    assert used - set(re.findall(r"\bHARNESS_[A-Z_]+\b", page("run-files.md") + str(Settings.model_fields))) == set()


def test_every_file_of_a_run_is_explained(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "abcd-run")
    properties = [name for name, value in vars(RunFolder).items() if hasattr(value, "__get__") and not callable(value)]
    values = [getattr(folder, name) for name in properties if not name.endswith("spec") and name != "record"]
    names = {path.name for path in values if isinstance(path, Path)}
    assert names > {"run.db", "spec.json", "lock"}
    assert {name for name in names if f"`{name}" not in page("run-files.md")} == set()


def test_the_page_of_figures_counts_the_worked_example(tmp_path: Path) -> None:
    """The blocks of Python alone: the audits between them run with the tutorials."""
    text = (ROOT / "docs" / "development" / "sources.md").read_text(encoding="utf-8")
    (section,) = re.findall(r"^## Sequence extraction.*?(?=^## )", text, re.MULTILINE | re.DOTALL)
    records, counts = steps_in(re.sub(r"^harness .*\n", "", section, flags=re.MULTILINE))[:2]
    command = ["bash", "-euc", f"PATH={Path(sys.executable).parent}:$PATH\n{records.script}{counts.script}"]
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == (*counts.outputs, "")


def test_every_public_name_has_a_reference() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in DOCS.glob("*-api.md"))
    names = set(harness.__all__) - {"__version__"}
    assert {name for name in names if f"\n### harness.{name}\n" not in pages} == set()
