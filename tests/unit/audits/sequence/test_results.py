"""Rates, tests and the answer of a sequence audit, against scipy and small cases worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, hypergeom

from harness.audits.sequence.comparison import TOO_SHORT, Measurements, Results, Threshold
from harness.audits.sequence.completion import State
from harness.audits.sequence.dataset import Dataset, ReadCounts
from harness.audits.sequence.results import contrast_sides, run_p_value, sequence_conclusion
from harness.core.findings import Conclusion

COUNTS = ReadCounts(0, 0, 0, 0, 0)


def measurements(verdicts: list[int], runs: list[int], is_compared: list[bool] | None = None) -> Measurements:
    compared = np.array(is_compared or [True] * len(verdicts))
    same = dict.fromkeys(Threshold, np.array(verdicts, np.int64))
    return Measurements(compared, same, np.array(runs), np.array(runs), np.zeros(len(runs)))


def dataset(is_control: list[bool], is_shared: list[bool] | None = None) -> Dataset:
    number = len(is_control)
    texts, zeros = ["x"] * number, np.zeros(number, np.int64)
    shared = np.array(is_shared or [False] * number)
    return Dataset(texts, texts, ["d"], zeros, zeros, zeros, np.array(is_control), shared, COUNTS, None, 35)


def results(own: Measurements, permuted: Measurements) -> Results:
    number = len(own.is_compared)
    return Results([None] * number, [""] * number, [""] * number, own, permuted)


def test_the_paired_test_is_mcnemars_exact_test() -> None:
    own = measurements([1, 1, 1, 1, 0, 0, TOO_SHORT, 1], [0] * 8)
    chance = measurements([0, 0, 0, 1, 1, 0, 0, TOO_SHORT], [0] * 8)
    found = contrast_sides(Threshold.TRIGRAM, dataset([False] * 8), results(own, chance))
    # Four verdicts differ, three of them in favour of the own suffix.
    assert found.p_value == pytest.approx(binom.sf(2, 4, 0.5))
    assert (found.corpus.passed, found.corpus.judged, found.corpus.too_short) == (5, 7, 1)
    assert (found.tested_corpus.judged, found.tested_control.passed) == (6, 2)


def test_equal_verdicts_have_a_p_value_of_one() -> None:
    own = measurements([1, 0], [3, 3])
    found = contrast_sides(Threshold.OVERLAP, dataset([False] * 2), results(own, own))
    assert found.p_value == 1.0
    assert run_p_value(dataset([False] * 2), results(own, own)) == 1.0


def test_the_unpaired_test_is_fishers_exact_test_without_shared_paragraphs() -> None:
    own = measurements([1, 1, 0, 1, 0, 0, 1], [0] * 7)
    nothing = measurements([TOO_SHORT] * 7, [0] * 7, [False] * 7)
    data = dataset([False] * 4 + [True] * 3, [False, False, False, True, False, False, True])
    found = contrast_sides(Threshold.START_5, data, results(own, nothing))
    assert found.p_value == pytest.approx(hypergeom.sf(1, 5, 2, 3))
    assert (found.corpus.judged, found.tested_corpus.judged, found.control.judged) == (4, 3, 2)
    assert run_p_value(data, results(own, nothing)) is None


def test_longer_runs_beside_the_own_suffix_have_a_small_p_value() -> None:
    generator = np.random.default_rng(0)
    chance = generator.integers(0, 4, 200).tolist()
    longer = [run + int(more) for run, more in zip(chance, generator.integers(0, 9, 200), strict=True)]
    data, verdicts = dataset([False] * 200), [0] * 200
    assert run_p_value(data, results(measurements(verdicts, longer), measurements(verdicts, chance))) < 1e-9
    assert run_p_value(data, results(measurements(verdicts, chance), measurements(verdicts, longer))) > 0.99


def test_a_side_without_verdicts_has_no_p_value() -> None:
    nothing = measurements([TOO_SHORT] * 2, [0] * 2, [False] * 2)
    found = contrast_sides(Threshold.TRIGRAM, dataset([False] * 2), results(nothing, nothing))
    assert found.p_value is None and found.corpus.judged == 0 and np.isnan(found.corpus.share.value)


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
