"""The recipes of CONTRIBUTING.md, followed in a copy of the repository."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.core.text import format_number
from tests.functional.machine import ROOT, homes

pytestmark = pytest.mark.long
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def section(heading: str) -> str:
    """Return the text below a heading, up to the next one."""
    (found,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    return str(found)


def insert(file: Path, before: str, text: str) -> None:
    """Insert text before the one place of `file` that contains `before`."""
    content = file.read_text(encoding="utf-8")
    assert content.count(before) == 1, (file, before)
    file.write_text(content.replace(before, text + before), encoding="utf-8")


class Clone:
    """A copy of the repository, in which commands are run as a contributor types them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "clone"
        ignored = shutil.ignore_patterns("__pycache__")
        for name in ("harness", "attacks", "tests", "docs/reference"):
            shutil.copytree(ROOT / name, self.folder / name, ignore=ignored)
        shutil.copy(ROOT / "pyproject.toml", self.folder)
        # The copy comes before the installed package; compiled modules are not worth the time.
        self._environment = {**os.environ, **homes(folder), "PYTHONPATH": str(self.folder), "COLUMNS": "200"}

    def run(self, *command: str, code: int = 0) -> str:
        """Run a module of Python and return its output."""
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=self.folder, env=self._environment, capture_output=True, text=True
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def write_blocks(self, heading: str) -> None:
        """Write each block of code in a section to the file that is named before it."""
        parts = re.findall(r"`(harness/[\w/]+\.py)`[^`]*?```python\n(.*?)```", section(heading), re.DOTALL)
        assert parts
        for name, code in parts:
            (self.folder / name).write_text(code, encoding="utf-8")


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


def test_an_attack_is_written_run_and_passes_the_contract(clone: Clone) -> None:
    assert "harness new attack mine" in section("Add an attack")
    clone.run("harness", "new", "attack", "mine")
    summary = json.loads(clone.run("harness", "run", "mine", "--round", "demo", "--limit", "100", "--json"))
    assert summary["status"] == "finished" and summary["recall_at_cap"] > 0
    file = clone.folder / "attacks" / "mine.py"
    source = re.sub(r'\A""".*', '"""Sample at a low temperature.', file.read_text(encoding="utf-8"))
    source, count = re.subn(r'^    reference = "".*$', '    reference = "new here"', source, flags=re.MULTILINE)
    assert count == 1
    file.write_text(source, encoding="utf-8")
    assert " passed" in clone.run("pytest", "tests/contract", "-q", "-k", "mine", "-p", "no:cacheprovider")


def test_an_audit_of_one_file_and_one_entry_runs(clone: Clone) -> None:
    clone.write_blocks("Add an audit")
    (entry,) = re.findall(r'`("surprise": AuditEntry.*?)`', section("Add an audit"), re.DOTALL)
    insert(clone.folder / "harness/audits/registry.py", "}\n\n\ndef audit_named", f"    {' '.join(entry.split())},\n")
    found = json.loads(clone.run("harness", "audit", "surprise", "--limit", "100", "--out", "page", "--json"))
    (loss,) = found["measures"]
    assert loss["measure"] == "mean_loss" and loss["of"] == 100 and 0 < loss["low"] < loss["value"] < loss["high"] < 10
    page = (clone.folder / "page" / "index.html").read_text(encoding="utf-8")
    assert f"A loss of {format_number(loss['value'])}" in page
    clone.run("ruff", "check", "--no-cache", "harness/audits/surprise.py")
    clone.run("ruff", "format", "--no-cache", "--check", "harness/audits/surprise.py")


def test_a_command_of_one_file_and_one_entry_passes_its_tests(clone: Clone) -> None:
    clone.write_blocks("Add a command")
    entry = '        "hello": ("hello:hello", "Print a greeting."),\n'
    insert(clone.folder / "harness/cli/app.py", '        "demo": (', entry)
    (entry_of_object,) = re.findall(r"``(Section\(.*?\),)``", section("Add a command"))
    printed = clone.folder / "tests/reference/printed.py"
    insert(printed, "from harness.core.findings import", "from harness.cli import hello\n")
    insert(printed, '    Section("`harness compare`"', f"    {entry_of_object}\n")
    assert clone.run("harness", "hello") == "hello\n"
    assert json.loads(clone.run("harness", "hello", "--json"))["greeting"] == "hello"
    assert "Print a greeting." in clone.run("harness", "--help")
    clone.run("pytest", "tests/unit/cli/test_app.py", "-q", "-p", "no:cacheprovider")
    clone.run("tests.reference")
    assert "| `greeting` | string | A greeting. |" in (clone.folder / "docs/reference/json.md").read_text()
