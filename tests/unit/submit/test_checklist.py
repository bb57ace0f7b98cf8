"""The checklist before packaging: which checks refuse packaging, and which can be accepted."""

import pytest

from harness.submit.checklist import Check, refusal, uses_training_rows

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
