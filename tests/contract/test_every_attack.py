"""What holds for every shipped attack, whichever they are."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.core import paths
from harness.plugins.discovery import AttackFile
from harness.plugins.parameters import parameters_in
from harness.plugins.schema import fetch_schema
from harness.worker.plugin import load_attack
from tests.contract.attacks import SHIPPED, least_settings

every_attack = pytest.mark.parametrize("attack", SHIPPED, ids=lambda attack: attack.name)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))


def test_every_file_beside_the_package_is_a_working_attack() -> None:
    files = {path.name for path in (paths.PACKAGE.parent / "attacks").glob("[!_]*.py")}
    assert {attack.path.name for attack in SHIPPED} == files
    assert {attack.name for attack in SHIPPED} >= {"baseline", "greedy", "replay"}
    assert [attack.error for attack in SHIPPED] == [None] * len(files)


@every_attack
def test_it_says_what_it_does_and_where_that_was_published(attack: AttackFile) -> None:
    assert attack.summary.endswith(".") and len(attack.summary) <= 110
    assert attack.reference
    assert attack.name == attack.path.stem


@every_attack
def test_its_source_declares_what_its_class_holds(attack: AttackFile) -> None:
    loaded = load_attack(attack.path)
    assert (
        loaded.name,
        loaded.reference,
        loaded.control,
        loaded.uses_target,
        loaded.guesses_per_example,
        loaded.requires,
    ) == (
        attack.name,
        attack.reference,
        attack.control,
        attack.uses_target,
        attack.guesses_per_example,
        attack.requires,
    )


@every_attack
def test_its_schema_explains_every_parameter(attack: AttackFile) -> None:
    schema = fetch_schema(attack.path, digest=attack.sha256)
    parameters = parameters_in(schema.schema)
    assert all(parameter.description.endswith(".") for parameter in parameters)
    assert {parameter.name for parameter in parameters} == set(load_attack(attack.path).params_type().model_fields)
    assert (schema.params is None) == any(parameter.default is None for parameter in parameters)


@every_attack
def test_its_defaults_are_values_that_it_would_accept(attack: AttackFile) -> None:
    params = load_attack(attack.path).params_type()
    required = {name: "/any" for name, field in params.model_fields.items() if field.is_required()}
    resolved = params.model_validate(required).model_dump(mode="json")
    assert params.model_validate(resolved).model_dump(mode="json") == resolved


@pytest.mark.slow
@every_attack
def test_it_answers_every_example_of_a_small_run(attack: AttackFile, tmp_path: Path) -> None:
    rows = 4
    command = [sys.executable, "-c", "from harness.cli.app import main; main()", "run", attack.name, "--json"]
    done = subprocess.run(
        [*command, "--round", "demo", "--limit", str(rows), *least_settings(attack.name, tmp_path, rows)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(paths.PACKAGE.parent), "HARNESS_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["status"] == "finished"
    per_example = summary["rows"] / rows
    assert per_example == 1 if attack.guesses_per_example == 1 else per_example >= 1
