"""A directory with the name of a built-in target is not read by that name, and a sentence says so."""

from pathlib import Path

import pytest

from harness.cli.resolving import model_records, name_hidden_directory, resolve_run
from harness.core.run_request import ModelOptions, RunRequest
from harness.core.spec import BUILT_IN_TARGETS
from harness.demo import REFERENCE, SIZES

CPU = ModelOptions(device="cpu", threads=1)


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory. What was said before in this process does not count."""
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    place = tmp_path / "work"
    place.mkdir()
    monkeypatch.chdir(place)
    name_hidden_directory.cache_clear()
    return place


@pytest.mark.parametrize("name", BUILT_IN_TARGETS)
def test_a_directory_with_the_name_of_a_built_in_target_is_named_once(
    name: str, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (directory / name).mkdir()
    for _ in range(2):
        records = model_records([name], CPU, revision="main")
    sentence = f"{name} is the built-in target, not the directory of this name. Write ./{name} to name the directory.\n"
    assert capsys.readouterr().err == sentence
    assert records[0].path in {size.weights for size in (*SIZES, REFERENCE)}


def test_a_run_and_a_served_target_say_it_too(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (directory / "demo").mkdir()
    resolve_run(RunRequest(attack="greedy", round="demo", device="cpu", threads=1))
    assert capsys.readouterr().err.count("demo is the built-in target") == 1
    name_hidden_directory.cache_clear()
    model_records(["demo"], CPU, revision="main", is_first_served=True)
    assert capsys.readouterr().err.count("demo is the built-in target") == 1


def test_nothing_is_said_without_such_a_directory(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (directory / "demo-tiny").write_text("a file is no target")
    model_records(["demo-tiny"], CPU, revision="main")
    assert capsys.readouterr().err == ""
