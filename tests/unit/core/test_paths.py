"""Directories of the harness, and the names of models."""

from pathlib import Path

import pytest

from harness.core.paths import in_home, model_names


def test_models_are_named_without_their_directories() -> None:
    assert model_names(["EleutherAI/pythia-160m", "/data/a/base", "./b/base", "demo", "base"]) == [
        "EleutherAI/pythia-160m",
        "base",
        "base (2)",
        "demo",
        "base (3)",
    ]


@pytest.mark.parametrize(
    ("home", "path", "shown"),
    [
        ("/home/a", "/home/a/runs", "~/runs"),
        ("/home/a", "/home/ab/runs", "/home/ab/runs"),
        ("/home/a", "/home/a/a\nb", "~/a\\nb"),
        ("/home/a/", "/home/a", "~"),
        ("/", "/runs", "~/runs"),
    ],
)
def test_paths_in_the_home_directory_do_not_name_its_user(
    home: str, path: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", home)
    assert in_home(Path(path)) == shown
