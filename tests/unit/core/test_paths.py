"""Directories of the harness, and the names of models."""

from harness.core.paths import model_names


def test_models_are_named_without_their_directories() -> None:
    assert model_names(["EleutherAI/pythia-160m", "/data/a/base", "./b/base", "demo", "base"]) == [
        "EleutherAI/pythia-160m",
        "base",
        "base (2)",
        "demo",
        "base (3)",
    ]
