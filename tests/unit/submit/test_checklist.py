"""The list before packaging: which points refuse, which can be accepted, and how both are told."""

import pytest

from harness.submit.checklist import Check, refusal, uses_training_rows

MET = Check("met", True, "it holds")
HARD = Check("hard", False, "it does not", "mend it")
SOFT = Check("soft", False, "it may not", "see to it", True)


def test_a_list_that_is_met_refuses_nothing() -> None:
    assert refusal([MET, MET], frozenset()) is None


def test_the_first_unmet_point_is_told_with_its_mend_and_the_others_by_name() -> None:
    assert str(refusal([MET, HARD, SOFT], frozenset())) == "hard: it does not; mend it. (1 more: soft)"


def test_a_point_that_can_be_accepted_says_how() -> None:
    told = str(refusal([SOFT], frozenset()))
    assert told == "soft: it may not; see to it; --accept soft packages it all the same and leaves a mark."


def test_what_was_accepted_refuses_no_longer_but_only_where_it_can_be() -> None:
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
def test_an_attack_that_touches_training_examples_is_told_by_its_source(source: str, reads: bool) -> None:
    assert uses_training_rows(source.encode()) is reads
