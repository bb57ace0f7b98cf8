"""The checklist before packaging: which checks refuse packaging, and which can be accepted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.core.files import file_sha256
from harness.submit.checklist import Check, checklist, refusal, uses_training_rows
from harness.submit.team import description_length
from tests.records import change_spec, recorded_run

MET = Check("met", True, "all is well")
HARD = Check("hard", False, "this is wrong", "correct it")
SOFT = Check("soft", False, "this is doubtful", "look at it", True)


@pytest.fixture
def checks(home: Path) -> Callable[..., dict[str, Check]]:
    """Return the checks of a run without a sandbox whose spec has these changes, by name."""
    (folder := home / "other").mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    (home / "before.npy").write_bytes(b"pre-prefixes")
    recorded = recorded_run(home)
    recorded.event("worker", sandbox="none")
    recorded.finish(range(2), spent=1.5, elapsed=2.5)

    def changed(**changes: Any) -> dict[str, Check]:
        change_spec(recorded.folder, **changes)
        return {check.name: check for check in checklist(recorded.folder, team=None, description=None)}

    return changed


def path(file: Path) -> dict[str, dict[str, str]]:
    """Return the record of the parameter `file`."""
    return {"file": {"path": str(file), "sha256": "0"}}


def test_a_run_that_breaks_a_rule_fails_the_check_of_this_rule(home: Path, checks: Callable[..., Any]) -> None:
    before, model = home / "before.npy", path(home / "other")
    read = {"round": {"preprefix_file": str(before)}, "data_sha256": {str(before): file_sha256(before)}}
    rows = [
        ({}, "sandbox", "the attack ran without a sandbox, so its file accesses are unknown", True),
        ({"round": {"budget": 1.0}}, "budget", "the run spent 0:02, its budget of 1:00 exceeds the round's 0:01", True),
        ({"paths": model}, "models", "the parameter file contains a model (model.safetensors) that the attack", True),
        ({"paths": path(before)} | read, "preprefixes", "the parameter file contains the pre-prefixes", True),
        ({"versions": {"numpy": "1.0"}}, "inputs", f"numpy is {np.__version__}, was 1.0", False),
    ]
    for changes, name, words, can_be_accepted in rows:
        check = checks(**changes)[name]
        assert (check.is_met, check.can_be_accepted) == (False, can_be_accepted), check
        assert words in check.sentence and check.fix
    with (home / "small.toml").open("a") as file:
        file.write('forbidden_models = ["*/other"]\n')
    check = checks(paths=model)["models"]
    assert (check.sentence, check.can_be_accepted) == ("the round forbids the model other", False)


def test_met_checks_are_not_refused() -> None:
    assert refusal([MET, MET], frozenset()) is None


def test_the_error_describes_the_first_failed_check_and_names_the_others() -> None:
    assert (
        str(refusal([MET, HARD, SOFT], frozenset()))
        == "hard: this is wrong. Correct it. 1 more: soft; --check lists them."
    )


def test_the_error_says_how_to_accept_a_check() -> None:
    assert (
        str(refusal([SOFT], frozenset()))
        == "soft: this is doubtful. Look at it, or package it despite this with --accept soft."
    )


def test_only_acceptable_checks_can_be_accepted() -> None:
    assert refusal([MET, SOFT], frozenset({"soft"})) is None
    assert str(refusal([HARD, SOFT], frozenset({"hard", "soft"}))).startswith("hard: ")


@pytest.mark.parametrize(
    ("source", "reads"),
    [
        ("for batch in context.batches(over=context.train): pass", True),
        ("rows = self.context.train.suffixes", True),
        ("train = 1", False),
        ("model.train()", True),
        ("# context.train\n'context.train'", False),
        ("", False),
    ],
)
def test_use_of_training_rows_is_found_in_the_source(source: str, reads: bool) -> None:
    assert uses_training_rows(source.encode()) is reads


TABLE = "| a | b |\n|---|---|\n" + "| many words here | and more |\n" * 300
QUOTE = "> quoted words\n" * 300
CODE = "```\n" + "some output\n" * 300 + "```\n"


@pytest.mark.parametrize(
    ("markdown", "words", "is_short"),
    [
        ("We sample.", 2, True),
        ("# What is new\n\n" + "word " * 397, 400, False),
        ("word " * 399, 399, True),
        (f"{TABLE}\n\n{QUOTE}\n\n{CODE}\n\n- one *two*\n  1. three\n", 3, True),
        ("1. 2 -- … 3\n\n= %% 7\n", 0, True),
        ("<!-- " + "hidden " * 500 + "-->\n", 0, True),
    ],
)
def test_words_of_a_description_are_counted_outside_tables_and_examples(
    tmp_path: Path, markdown: str, words: int, is_short: bool
) -> None:
    (path := tmp_path / "description.md").write_text(markdown)
    sentence, found = description_length(path)
    assert sentence.startswith(f"the description has {words} word") and found is is_short
    assert ("outside tables and examples; two to five pages have at least 400" in sentence) is is_short


def test_each_state_of_a_check_has_its_own_sign() -> None:
    assert [check.sign for check in (MET, MET._replace(is_note=True), SOFT)] == ["✓", "·", "✗"]
