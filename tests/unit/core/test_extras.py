"""Missing extras are named with the command that installs them, and so is a distribution that owns `harness` too."""

import importlib.metadata
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from harness.core import extras
from harness.core.extras import EXTRAS, MissingExtraError, clash_sentence, extra_of, missing_module, require_extra
from tests.functional.machine import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_extras_install_what_their_modules_need() -> None:
    owners = importlib.metadata.packages_distributions()
    assert EXTRAS.keys() == PROJECT["optional-dependencies"].keys()
    for extra, lines in PROJECT["optional-dependencies"].items():
        assert {owners[module][0] for module in EXTRAS[extra]} == {Requirement(line).name for line in lines}


def test_no_dependency_of_the_light_installation_needs_torch() -> None:
    pending = [Requirement(line).name for line in PROJECT["dependencies"]]
    found: set[str] = set()
    while pending:
        name = pending.pop()
        if name in found:
            continue
        found.add(name)
        for line in importlib.metadata.requires(name) or []:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                pending.append(requirement.name)
    assert not found & {"torch", "transformers", "safetensors", "optuna", "ray", "mlflow-skinny"}


def test_a_missing_extra_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    require_extra("torch", "it")
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert (missing_module("torch"), extra_of("transformers"), extra_of("json")) == ("transformers", "torch", None)
    with pytest.raises(MissingExtraError) as refused:
        require_extra("torch", "the attack greedy", instead="use replay")
    assert str(refused.value) == (
        "transformers is not installed: the attack greedy needs it. "
        "Install it from the clone: pip install -e '.[torch]', or use replay"
    )


def other_distribution(site: Path) -> Path:
    """Install a distribution `other-thing` that has a package `harness` into the directory `site`."""
    (site / "harness").mkdir(parents=True)
    (site / "harness" / "__init__.py").write_text("")
    info = site / "other_thing-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-thing\nVersion: 1.0\n")
    (info / "RECORD").write_text("harness/__init__.py,,\nother_thing-1.0.dist-info/METADATA,,\n")
    return site


def test_another_distribution_with_a_package_harness_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert clash_sentence() is None
    monkeypatch.syspath_prepend(other_distribution(tmp_path))
    sentence = clash_sentence()
    assert sentence is not None
    assert sentence.startswith("other-thing has a package `harness` too")
    assert "Run in the clone: pip uninstall other-thing; pip install --force-reinstall --no-deps -e ." in sentence


def test_a_replaced_package_file_gives_the_name_of_the_other_distribution(tmp_path: Path) -> None:
    site = other_distribution(tmp_path / "site")
    # As pip leaves it if the other distribution was installed later: one folder, with a foreign __init__.py.
    for part in ("cli", "core"):
        (site / "harness" / part).symlink_to(ROOT / "harness" / part)
    done = subprocess.run(
        [sys.executable, "-c", "from harness.cli.entry import main; main()"],
        env=os.environ | {"PYTHONPATH": str(site)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("harness: other-thing has a package `harness` too") and done.stderr.count("\n") == 1


def test_the_distribution_has_the_name_in_pyproject() -> None:
    assert PROJECT["name"] == extras.DISTRIBUTION
