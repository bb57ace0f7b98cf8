"""An attack in an installed package is listed and run like a built-in one, as the documentation describes."""

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.functional.machine import ROOT, Machine

PAGE = (ROOT / "docs" / "how-to" / "write-an-attack.md").read_text(encoding="utf-8")


def _run(command: Sequence[str | Path], folder: Path, **environment: str) -> str:
    """Run a command that must succeed, and return what it printed. It finds no clone of the harness by itself."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, env=inherited | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
def test_the_package_in_the_docs_is_listed_and_run(tmp_path: Path) -> None:
    project, environment = tmp_path / "project", tmp_path / "environment"
    package = project / "my_attacks"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (project / "pyproject.toml").write_text(block)
    Machine(project).run("new", "attack", "my_idea", "--dir", "my_attacks")
    _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel"], project)
    (wheel,) = (project / "dist").glob("*.whl")
    _run([sys.executable, "-m", "venv", "--without-pip", environment], tmp_path)
    python = environment / "bin" / "python"
    own_site = _run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], tmp_path).strip()
    # Dependencies are those of the environment of the tests, and the harness is that of the clone.
    (Path(own_site) / "tests.pth").write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n")
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    _run([*pip, "install", "--no-deps", "--no-index", wheel], tmp_path)
    homes = {name: value for name, value in Machine(tmp_path).env().items() if name.startswith("HARNESS_")}
    # A sandbox would hide the packages of the tests, because the editable harness is among them.
    homes["HARNESS_SANDBOX"] = "none"
    harness = [python, "-m", "harness"]
    listed = _run([*harness, "list", "attacks"], tmp_path, **homes).splitlines()
    (line,) = (line for line in listed if line.startswith("my_idea "))
    assert "entry point my-attacks" in line and "broken" not in line
    ran = _run([*harness, "run", "my_idea", "--round", "demo", "--limit", "64"], tmp_path, **homes)
    assert ran.startswith("Recall@6: 0.")
