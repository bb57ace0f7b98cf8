"""An attack in an installed package is listed, run and tested like a built-in one, as the documentation describes."""

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.testing import check_attack
from tests.functional.machine import PLUGINS, ROOT, Machine, write_round

PAGE = (ROOT / "docs" / "how-to" / "share-an-attack.md").read_text(encoding="utf-8")


def _run(command: Sequence[str | Path], folder: Path, **environment: str) -> str:
    """Run a command that must succeed, and return what it printed. It finds no clone of the harness by itself."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, env=inherited | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
def test_the_package_in_the_docs_is_listed_run_and_tested(tmp_path: Path) -> None:
    project, environment = tmp_path / "project", tmp_path / "environment"
    package = project / "my_attacks"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    for name, language in (("pyproject.toml", "toml"), ("test_my_idea.py", "python")):
        (block,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
        (project / name).write_text(block)
    Machine(project).run("attacks", "new", "my_idea", "--dir", "my_attacks")
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
    listed = _run([*harness, "attacks"], tmp_path, **homes).splitlines()
    (line,) = (line for line in listed if line.startswith("my_idea "))
    assert "entry point my-attacks" in line and "broken" not in line
    ran = _run([*harness, "run", "my_idea", "--round", "demo", "--limit", "64"], tmp_path, **homes)
    assert ran.startswith("Recall@6: 0.")
    # Outside the project, whose directory would come before the installed package.
    test = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", project / "test_my_idea.py"]
    assert "1 passed" in _run([*test, "--import-mode=importlib"], tmp_path, **homes)


@pytest.fixture
def small_round(tmp_path: Path) -> Path:
    write_round(tmp_path)
    return tmp_path / "round.toml"


def test_an_attack_that_keeps_the_rules_passes_the_check(small_round: Path, tmp_path: Path) -> None:
    before = os.environ.get("HARNESS_HOME")
    run = check_attack("draws", home=tmp_path / "home", round=small_round, params={"pause": 0}, attacks=PLUGINS)
    assert run.directory.parent == tmp_path / "home" / "runs"
    assert run.summary.is_partial and len(run.submission()) > 0
    assert os.environ.get("HARNESS_HOME") == before


UNSEEDED = '''"""Guess random tokens."""
import numpy as np
from harness import Attack, Field, Guesses, Params
class P(Params):
    many: int = Field(1, description="DESCRIPTION")
class A(Attack[P]):
    name = "unseeded"
    uses_target = False
    def run(self, context):
        rng = np.random.default_rng()
        for batch in context.batches():
            guesses = rng.integers(0, 99, (len(batch.ids), context.suffix_length))[: self.params.many * 99]
            yield Guesses(batch.ids[: len(guesses)], guesses, np.zeros(len(guesses)))
'''


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (UNSEEDED, "two runs with the same seed gave different submissions"),
        (UNSEEDED.replace("DESCRIPTION", ""), "parameters without a description: many"),
        (UNSEEDED.replace('"""Guess random tokens."""', ""), "has no docstring"),
        (UNSEEDED.replace("Field(1,", "Field(0,"), "guessed nothing"),
    ],
)
def test_an_attack_that_breaks_a_rule_is_named(small_round: Path, tmp_path: Path, source: str, sentence: str) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "unseeded.py").write_text(source)
    with pytest.raises(AssertionError, match=sentence):
        check_attack("unseeded", home=tmp_path / "home", round=small_round, attacks=tmp_path / "theirs")
