"""`harness attacks new --package`: the project is built, installed, listed, run and tested like any other package."""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from harness.plugins.scaffold import new_package
from harness.testing import check_attack
from tests.functional.machine import PLUGINS, ROOT, Machine, write_round

FILES = {
    ".github/workflows/test.yml",
    ".gitignore",
    "README.md",
    "pyproject.toml",
    "src/harness_attack_my_idea/__init__.py",
    "src/harness_attack_my_idea/my_idea.py",
    "src/harness_attack_my_idea/py.typed",
    "tests/test_my_idea.py",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_package("my_idea", tmp_path_factory.mktemp("project"))


def _run(command: Sequence[str | Path], folder: Path, **environment: str) -> str:
    """Run a command that must succeed, and return what it printed. It finds no clone of the harness by itself."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, env=inherited | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_command_writes_a_project_once(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    done = machine.run("attacks", "new", "my_idea", "--package")
    project = tmp_path / "harness-attack-my-idea"
    assert done.stdout == "harness-attack-my-idea\n"
    assert done.stderr == "next: pip install --editable harness-attack-my-idea && harness run my_idea --round demo\n"
    assert {str(path.relative_to(project)) for path in project.rglob("*") if path.is_file()} == FILES
    assert "@" not in "".join((project / name).read_text() for name in FILES - {".github/workflows/test.yml"})
    (project / "README.md").write_text("mine")
    again = machine.run("attacks", "new", "my_idea", "--package", code=1)
    assert again.stderr == ("harness: harness-attack-my-idea already exists. Choose another name or another --dir.\n")
    assert (project / "README.md").read_text() == "mine"
    elsewhere = machine.json("attacks", "new", "my_idea", "--package", "--dir", "deep/er")
    assert elsewhere["path"] == str(tmp_path / "deep" / "er" / "harness-attack-my-idea")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("My-Idea", "is not a valid name"),
        ("../out", "is not a valid name"),
        ("class", "is a keyword of Python"),
        ("window", "is an attack of the harness"),
    ],
)
def test_an_invalid_name_writes_nothing(tmp_path: Path, name: str, sentence: str) -> None:
    done = Machine(tmp_path).run("attacks", "new", name, "--package", code=2)
    assert sentence in done.stderr and len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.glob("harness-attack-*"))


def test_a_directory_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = Machine(tmp_path).run("attacks", "new", "my_idea", "--package", "--dir", "file", code=1)
    assert done.stderr == "harness: file/harness-attack-my-idea cannot be created (Not a directory).\n"


def test_the_code_of_a_project_is_formatted_and_linted(project: Path) -> None:
    ruff = [sys.executable, "-m", "ruff"]
    _run([*ruff, "format", "--check", "--no-cache"], project)
    _run([*ruff, "check", "--no-cache"], project)


def test_the_workflow_is_valid(project: Path) -> None:
    workflow = project / ".github" / "workflows" / "test.yml"
    _run([Path(sys.executable).parent / "actionlint", workflow], project)
    steps = yaml.safe_load(workflow.read_text())["jobs"]["test"]["steps"]
    assert [step["run"] for step in steps if "run" in step][-3:] == ["ruff check", "mypy", "pytest"]


@pytest.mark.slow
def test_a_project_has_strict_types(project: Path) -> None:
    _run([sys.executable, "-m", "mypy", "--cache-dir", os.devnull], project, PYTHONPATH=str(ROOT))


@pytest.mark.slow
def test_an_installed_package_is_listed_run_and_tested(project: Path, tmp_path: Path) -> None:
    site, environment = sysconfig.get_path("purelib"), tmp_path / "environment"
    _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel"], project)
    (wheel,) = (project / "dist").glob("*.whl")
    _run([sys.executable, "-m", "venv", "--without-pip", environment], tmp_path)
    python = environment / "bin" / "python"
    own_site = _run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], tmp_path).strip()
    # Dependencies are those of the environment of the tests, and the harness is that of the clone.
    (Path(own_site) / "tests.pth").write_text(f"{ROOT}\n{site}\n")
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    _run([*pip, "install", "--no-deps", "--no-index", wheel], tmp_path)
    machine = Machine(tmp_path)
    homes = {name: value for name, value in machine.env().items() if name.startswith("HARNESS_")}
    # A sandbox would hide the packages of the tests, because the editable harness is among them.
    homes["HARNESS_SANDBOX"] = "none"
    harness = [python, "-m", "harness"]
    (listed,) = (
        line for line in _run([*harness, "attacks"], tmp_path, **homes).splitlines() if line.startswith("my_idea ")
    )
    assert "entry point harness-attack-my-idea" in listed and "broken" not in listed
    ran = _run([*harness, "run", "my_idea", "--round", "demo", "--limit", "64"], tmp_path, **homes)
    assert ran.startswith("Recall@6: 0.")
    tested = _run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider"], project, **homes)
    assert "1 passed" in tested


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
