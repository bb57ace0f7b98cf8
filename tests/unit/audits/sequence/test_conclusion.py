"""The answer of a sequence audit: how sure it is, and what it says that it cannot conclude."""

from dataclasses import replace

import pytest

from harness.audits.sequence.completion import State
from harness.audits.sequence.conclusion import sequence_conclusion
from harness.audits.sequence.rates import contrast_sides
from harness.audits.sequence.thresholds import Threshold
from harness.core.findings import Conclusion
from tests.unit.audits.sequence.test_rates import TOO_SHORT, dataset, measurements, results

PARAGRAPHS = 30


def against_control(passed: int, passed_of_control: int, *, pending: int = 0) -> Conclusion:
    """Return the conclusion on 30 paragraphs of a corpus and 30 of an unseen control."""
    verdicts = [int(place < passed) for place in range(PARAGRAPHS)]
    verdicts += [int(place < passed_of_control) for place in range(PARAGRAPHS)]
    own = measurements(verdicts, [7] * 2 * PARAGRAPHS)
    nothing = measurements([TOO_SHORT] * 2 * PARAGRAPHS, [0] * 2 * PARAGRAPHS, [False] * 2 * PARAGRAPHS)
    data = replace(dataset([False] * PARAGRAPHS + [True] * PARAGRAPHS), control_counts=dataset([]).corpus_counts)
    states: list[State | None] = [State.COMPLETED] * (2 * PARAGRAPHS - pending)
    found = replace(results(own, nothing), states=[*states, *[None] * pending])
    return sequence_conclusion(data, found, {each: contrast_sides(each, data, found) for each in Threshold})


def against_chance(own: list[int], chance: list[int]) -> Conclusion:
    """Return the conclusion on paragraphs that are compared with each other's suffixes."""
    data = dataset([False] * len(own))
    found = results(measurements(own, [7] * len(own)), measurements(chance, [0] * len(own)))
    found = replace(found, states=[State.COMPLETED] * len(own))
    return sequence_conclusion(data, found, {each: contrast_sides(each, data, found) for each in Threshold})


@pytest.mark.parametrize(("passed", "answer"), [(30, "Probably"), (9, "Possibly"), (4, "No evidence")])
def test_the_answer_depends_on_the_corrected_p_value(passed: int, answer: str) -> None:
    conclusion = against_control(passed, 1)
    assert conclusion.sentence.startswith(f"Was this corpus in the training data? {answer}: ")
    assert "corrected for 4 thresholds" in conclusion.evidence


def test_a_large_difference_depends_on_the_control() -> None:
    conclusion = against_control(30, 0)
    assert conclusion.evidence == (
        "100 % of its completions pass the threshold “trigrams”, 0 % of the control's (p < 0.0001, corrected for 4 "
        "thresholds)"
    )
    assert "assumes that the control is text of the same kind" in conclusion.caveat
    figures = {figure.name: (figure.value, figure.details) for figure in conclusion.key_figures}
    assert figures["corpus: trigrams"][0] == "1.000" and figures["p-value"][0] == "< 0.0001"
    assert figures["longest verbatim run"] == ("7 words", "in 30 completions")


def test_the_absence_of_evidence_is_not_evidence_of_absence() -> None:
    assert "does not show that the corpus was not in the training data" in against_control(2, 2).caveat


def test_without_an_unseen_control_the_answer_is_at_most_possibly() -> None:
    conclusion = against_chance([1] * 30, [0] * 30)
    assert conclusion.answer == "Possibly" and "--control" in conclusion.caveat
    assert against_chance([0] * 30, [0] * 30).answer == "No evidence"


def test_a_single_paragraph_concludes_nothing() -> None:
    conclusion = against_chance([1], [TOO_SHORT])
    assert conclusion.answer == "Cannot be concluded" and "(use more text or --control)" in conclusion.evidence
    assert "too short" in against_chance([1, 1], [TOO_SHORT] * 2).evidence


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (State.NO_ROOM, "did not fit into the model's context (use a smaller --prompt-length and --longest-suffix)"),
        (State.UNANSWERED, "got no answer"),
    ],
)
def test_an_audit_whose_control_was_not_completed_says_why(state: State, why: str) -> None:
    data = dataset([False] * 3 + [True] * 2)
    found = results(measurements([TOO_SHORT] * 5, [0] * 5), measurements([TOO_SHORT] * 5, [0] * 5))
    found = replace(found, states=[State.COMPLETED] * 3 + [state] * 2)
    conclusion = sequence_conclusion(data, found, {each: contrast_sides(each, data, found) for each in Threshold})
    assert conclusion.evidence == f"no paragraph of the control was completed: 2 {why}"


def test_a_partial_audit_says_so() -> None:
    assert against_control(30, 0, pending=12).evidence.endswith("; so far 48 of 60 paragraphs")
