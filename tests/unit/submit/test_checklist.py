"""The checklist before packaging: which checks refuse packaging, and which can be accepted."""

from pathlib import Path

import pytest

from harness.submit.checklist import Check, refusal, uses_training_rows
from harness.submit.team import description_length

MET = Check("met", True, "all is well")
HARD = Check("hard", False, "this is wrong", "correct it")
SOFT = Check("soft", False, "this is doubtful", "look at it", True)


def test_met_checks_are_not_refused() -> None:
    assert refusal([MET, MET], frozenset()) is None


def test_the_error_describes_the_first_failed_check_and_names_the_others() -> None:
    assert str(refusal([MET, HARD, SOFT], frozenset())) == "hard: this is wrong. Correct it. (1 more: soft)"


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
