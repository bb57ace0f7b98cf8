"""The request in the record of a run: as it was asked for, and valid in every directory."""

import shutil
from pathlib import Path

import pytest
import typer

from harness.cli.resolving import resolve_run
from harness.cli.run import request_like
from harness.core.run_request import RunRequest
from harness.demo import SIZES
from harness.runs.folder import RunFolder
from harness.runs.specs import AttackSpec
from tests.functional.machine import PLUGINS, write_round

TINY = next(size for size in SIZES if size.name == "demo-tiny")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def recorded(**fields: object) -> AttackSpec:
    return resolve_run(RunRequest.checked(**{"attack": "lookup", "round": "demo", **fields})).spec


@pytest.mark.parametrize("name", ["demo", "demo:fold1of5"])
def test_a_built_in_round_keeps_its_name(name: str) -> None:
    assert recorded(round=name).request.round == name


def test_files_and_directories_become_absolute(folder: Path) -> None:
    write_round(folder)
    shutil.copytree(TINY.weights, folder / "model")
    shutil.copytree(PLUGINS, folder / "mine", ignore=shutil.ignore_patterns("__pycache__"))
    request = recorded(attack="draws", round="round.toml", attacks=Path("mine")).request
    assert (request.round, request.attacks) == (str(folder / "round.toml"), folder / "mine")
    models = {"target": "./model", "reference": "model"}
    request = recorded(attack="greedy", device="cpu", threads=1, **models).request
    assert request.target == request.reference == str(folder / "model")


def test_what_was_not_set_stays_unset_and_auto_stays_auto() -> None:
    spec = recorded(attack="greedy", target="demo-tiny", limit=5)
    assert spec.request == RunRequest(attack="greedy", round="demo", target="demo-tiny", limit=5)
    assert spec.target is not None and spec.target.device != "auto" and spec.budget == spec.round.budget


def test_a_run_for_a_cluster_keeps_its_request_and_needs_no_device_here() -> None:
    request = RunRequest(attack="greedy", round="demo", target="demo-tiny", device="cuda")
    spec = resolve_run(request, on_cluster=True).spec
    assert (spec.request, spec.shares_device) == (request, False)
    assert spec.target is not None and (spec.target.device, spec.target.threads) == ("cpu", 1)


@pytest.mark.parametrize("place", [{"device": "cuda:1"}, {"devices": "cpu:2"}])
def test_a_cluster_chooses_the_devices(place: dict[str, str]) -> None:
    with pytest.raises(typer.BadParameter, match="which numbers its GPUs itself"):
        resolve_run(RunRequest(attack="greedy", round="demo", **place), on_cluster=True)


def test_a_directory_of_attacks_that_is_gone_is_replaced_by_the_recorded_source(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(PLUGINS, folder / "mine", ignore=shutil.ignore_patterns("__pycache__"))
    run = RunFolder.of("abcd-draws")
    run.code.mkdir(parents=True)
    shutil.copy(PLUGINS / "draws.py", run.code)
    run.spec_file.write_text(recorded(attack="draws", attacks=folder / "mine").model_dump_json())
    shutil.rmtree(folder / "mine")
    request = request_like(run, RunRequest.checked(round="demo", seed=3))
    assert (request.attack, request.attacks, request.seed) == ("draws", run.code, 3)
    assert "attack draws was not found, so the source that abcd-draws ran is used" in capsys.readouterr().err
