"""The recipe for conda-forge says the same as pyproject.toml."""

import tomllib
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from harness import __version__
from tests.functional.machine import ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RECIPE: dict[str, Any] = yaml.safe_load((ROOT / ".conda" / "recipe.yaml").read_text(encoding="utf-8"))
CONDA_NAMES = {
    "huggingface-hub": "huggingface_hub",
    "matplotlib": "matplotlib-base",
    "ray": "ray-default",
    "torch": "pytorch",
    "typst": "typst-py",
}
"""The names of distributions that conda-forge has under another name."""
NOT_ON_CONDA_FORGE = {"infini-gram"}


def declared(lines: list[str]) -> dict[str, SpecifierSet]:
    requirements = [Requirement(line) for line in lines]
    return {CONDA_NAMES.get(one.name, one.name): one.specifier for one in requirements}


def of_recipe(lines: list[str]) -> dict[str, SpecifierSet]:
    pairs = (line.partition(" ") for line in lines if not line.startswith(("python ", "__")))
    return {name: SpecifierSet(bounds) for name, _, bounds in pairs}


def test_it_requires_what_the_project_requires() -> None:
    requirements = RECIPE["requirements"]
    assert of_recipe(requirements["run"]) == declared(PROJECT["dependencies"])
    optional = [
        line
        for extra, lines in PROJECT["optional-dependencies"].items()
        if extra not in NOT_ON_CONDA_FORGE
        for line in lines
    ]
    assert of_recipe(requirements["run_constraints"]) == declared(optional)
    minimum = RECIPE["context"]["python_min"]
    assert PROJECT["requires-python"] == f">={minimum}"
    assert "python >=${{ python_min }}" in requirements["run"]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (RECIPE["context"]["version"], __version__),
        (RECIPE["context"]["name"], PROJECT["name"]),
        (RECIPE["about"]["summary"], PROJECT["description"]),
        (RECIPE["about"]["license"], PROJECT["license"]),
        (RECIPE["about"]["homepage"], PROJECT["urls"]["Homepage"]),
        (RECIPE["about"]["documentation"], PROJECT["urls"]["Documentation"]),
        (
            set(RECIPE["build"]["python"]["entry_points"]),
            {f"{name} = {target}" for name, target in PROJECT["scripts"].items()},
        ),
    ],
)
def test_it_repeats_the_metadata(found: object, expected: object) -> None:
    assert found == expected
