"""Rates, tests and the answer of a sequence audit, against scipy and small cases worked out by hand."""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.audits.report import share_of
from harness.audits.sequence.comparison import TOO_SHORT, Measurements, Setting
from harness.audits.sequence.completion import State
from harness.audits.sequence.conclusion import sequence_conclusion
from harness.audits.sequence.dataset import Control, Dataset, ReadCounts
from harness.audits.sequence.findings import _tables_and_charts
from harness.audits.sequence.results import (
    CORPUS,
    P_VALUE,
    PASSED,
    SIDES,
    THRESHOLDS_PASSED,
    TOO_SHORT_SUFFIX,
    measure_sides,
    run_p_value,
)
from harness.audits.sequence.thresholds import Threshold
from harness.core.findings import Conclusion
from harness.core.measures import MeasureRow, MeasureTable

COUNTS = ReadCounts(0, 0, 0, 0, 0)
WHOLE = "No evidence for the corpus as a whole"
"""The answer if single paragraphs are continued word for word."""


def measurements(verdicts: list[int], runs: list[int], is_compared: list[bool] | None = None) -> Measurements:
    compared = np.array(is_compared or [True] * len(verdicts))
    same = dict.fromkeys(Threshold, np.array(verdicts, np.int64))
    measured = {"is_compared": compared, "run_words": np.array(runs), "run_characters": np.array(runs)}
    return {**same, **measured, "edit_similarity": np.zeros(len(runs))}


def dataset(is_control: list[bool], is_shared: list[bool] | None = None) -> Dataset:
    number = len(is_control)
    texts, zeros = ["x"] * number, np.zeros(number, np.int64)
    shared = np.array(is_shared or [False] * number)
    return Dataset(texts, texts, ["d"], zeros, zeros, zeros, np.array(is_control), shared, [COUNTS], 35)


def setting(
    own: Measurements, permuted: Measurements, data: Dataset | None = None, states: Sequence[State | None] = ()
) -> Setting:
    """Return the results of one model, by default of paragraphs without a control that were not requested."""
    number = len(own["is_compared"])
    texts = [""] * number
    data = data or dataset([False] * number)
    return Setting("model", data, [*states] or [None] * number, texts, texts, own, permuted)


def measured(data: Dataset, own: Measurements, permuted: Measurements) -> MeasureTable:
    return MeasureTable(measure_sides(setting(own, permuted, data)))


def passed(table: MeasureTable, side: str) -> tuple[float, int]:
    """Return how many completions of a side pass the trigrams, and how many are judged."""
    share = table.get(PASSED, side=side, case="trigrams")
    return round(share.value * share.of), share.of


def test_the_paired_test_is_mcnemars_exact_test() -> None:
    from scipy.stats import binom

    own = measurements([1, 1, 1, 1, 0, 0, TOO_SHORT, 1], [0] * 8)
    chance = measurements([0, 0, 0, 1, 1, 0, 0, TOO_SHORT], [0] * 8)
    table = measured(dataset([False] * 8), own, chance)
    # Four verdicts differ, three of them in favour of the own suffix.
    assert table.get(P_VALUE, side="corpus", case="trigrams").value == pytest.approx(binom.sf(2, 4, 0.5))
    assert passed(table, "corpus") == (5, 7) and table.get(TOO_SHORT_SUFFIX, side="corpus").value == 1
    assert passed(table, "corpus, in pairs") == (4, 6) and passed(table, "permuted suffixes, in pairs") == (2, 6)


def test_equal_verdicts_have_a_p_value_of_one() -> None:
    own = measurements([1, 0], [3, 3])
    assert measured(dataset([False] * 2), own, own).get(P_VALUE).value == 1.0
    assert run_p_value(setting(own, own)) == 1.0


def test_the_unpaired_test_is_fishers_exact_test_without_shared_paragraphs() -> None:
    from scipy.stats import hypergeom

    own = measurements([1, 1, 0, 1, 0, 0, 1], [0] * 7)
    nothing = measurements([TOO_SHORT] * 7, [0] * 7, [False] * 7)
    data = dataset([False] * 4 + [True] * 3, [False, False, False, True, False, False, True])
    table = measured(data, own, nothing)
    assert table.get(P_VALUE, side="corpus, unshared").value == pytest.approx(hypergeom.sf(1, 5, 2, 3))
    assert [passed(table, side)[1] for side in ("corpus", "corpus, unshared", "control")] == [4, 3, 2]
    assert run_p_value(setting(own, nothing)) is None


@settings(max_examples=10)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=8))
def test_the_test_of_few_runs_tries_all_signs(runs: list[tuple[int, int]]) -> None:
    from scipy.stats import PermutationMethod, wilcoxon

    own, chance = ([pair[side] for pair in runs] for side in range(2))
    found = run_p_value(setting(*(measurements([0] * len(runs), side) for side in (own, chance))))
    if own == chance:
        assert found == 1.0
    else:
        differences = np.subtract(own, chance)
        exact = wilcoxon(differences, alternative="greater", method=PermutationMethod(n_resamples=10**6))
        assert found == pytest.approx(exact.pvalue)


def test_longer_runs_beside_the_own_suffix_have_a_small_p_value() -> None:
    generator = np.random.default_rng(0)
    chance = generator.integers(0, 4, 200).tolist()
    longer = [run + int(more) for run, more in zip(chance, generator.integers(0, 9, 200), strict=True)]
    verdicts = [0] * 200
    assert run_p_value(setting(measurements(verdicts, longer), measurements(verdicts, chance))) < 1e-9
    assert run_p_value(setting(measurements(verdicts, chance), measurements(verdicts, longer))) > 0.99


def test_a_side_without_verdicts_has_no_p_value() -> None:
    nothing = measurements([TOO_SHORT] * 2, [0] * 2, [False] * 2)
    table = measured(dataset([False] * 2), nothing, nothing)
    assert np.isnan(table.get(P_VALUE).value)
    assert np.isnan(table.get(PASSED, side="corpus").value) and table.get(PASSED, side="corpus").of == 0


def test_the_number_of_thresholds_is_a_distribution_over_what_all_four_judge() -> None:
    own = measurements([1, 1, 1, 1, 0], [0] * 5)
    own = {**own, Threshold.START_10: np.array([1, 0, TOO_SHORT, 0, 0]), Threshold.OVERLAP: np.array([1, 1, 1, 0, 0])}
    table = measured(dataset([False] * 5), own, own)
    shares = [table.get(THRESHOLDS_PASSED, side="corpus", at=number) for number in range(5)]
    assert [(share.value, share.of) for share in shares] == [(0.25, 4), (0, 4), (0.25, 4), (0.25, 4), (0.25, 4)]


PARAGRAPHS = 30


def concluded(of_model: Setting) -> Conclusion:
    return sequence_conclusion([of_model], MeasureTable(measure_sides(of_model)))


def against_control(passed: int, passed_of_control: int, *, pending: int = 0) -> Conclusion:
    """Return the conclusion on 30 paragraphs of a corpus and 30 of an unseen control."""
    verdicts = [int(place < passed) for place in range(PARAGRAPHS)]
    verdicts += [int(place < passed_of_control) for place in range(PARAGRAPHS)]
    own = measurements(verdicts, [7] * 2 * PARAGRAPHS)
    nothing = measurements([TOO_SHORT] * 2 * PARAGRAPHS, [0] * 2 * PARAGRAPHS, [False] * 2 * PARAGRAPHS)
    data = replace(
        dataset([False] * PARAGRAPHS + [True] * PARAGRAPHS),
        readings=[COUNTS, COUNTS],
        documents=[f"text-{number}" for number in range(2 * PARAGRAPHS)],
        document=np.arange(2 * PARAGRAPHS),
    )
    states: list[State | None] = [State.COMPLETED] * (2 * PARAGRAPHS - pending)
    return concluded(setting(own, nothing, data, [*states, *[None] * pending]))


def against_chance(own: list[int], chance: list[int]) -> Conclusion:
    """Return the conclusion on paragraphs that are compared with each other's suffixes."""
    sides = (measurements(own, [7] * len(own)), measurements(chance, [0] * len(own)))
    return concluded(setting(*sides, states=[State.COMPLETED] * len(own)))


@pytest.mark.parametrize(("passed", "answer"), [(30, "Probably"), (9, "Possibly"), (4, WHOLE), (0, "No evidence")])
def test_the_answer_depends_on_the_corrected_p_value(passed: int, answer: str) -> None:
    conclusion = against_control(passed, 1)
    assert conclusion.sentence.startswith(f"Was this corpus in the training data? {answer}: ")
    assert "corrected for 4 thresholds" in conclusion.evidence


def test_a_large_difference_depends_on_the_control() -> None:
    conclusion = against_control(30, 0)
    assert conclusion.evidence.startswith(
        "100 % of its completions pass the threshold “trigrams”, 0 % of the control's (p < 0.0001, corrected for 4 "
        "thresholds). 30 of 30 paragraphs are continued word for word"
    )
    assert "assumes that the control is text of the same kind" in conclusion.caveat
    figures = {figure.name: (figure.value, figure.details) for figure in conclusion.key_figures}
    assert figures["corpus: trigrams"][0] == "1.000" and figures["p-value"][0] == "< 0.0001"
    assert figures["longest verbatim run"] == ("7 words", "in 30 completions")


def test_the_absence_of_evidence_is_not_evidence_of_absence() -> None:
    assert "does not show that the corpus was not in the training data" in against_control(2, 2).caveat


def test_next_to_no_evidence_stands_the_smallest_result_that_would_have_changed_it() -> None:
    assert (
        "; with 30 judged paragraphs and 30 of the control, of which 2 pass, at least 10 of 30 would have had to pass "
        "“trigrams”, the threshold that needs the fewest. " in against_control(2, 2).evidence
    )
    assert against_control(10, 2).answer == "Possibly" and "had to" not in against_control(10, 2).evidence
    assert against_control(9, 2).answer == WHOLE
    assert (
        "with 9 paragraphs judged in pairs, of which 1 pass only with another suffix, no result could have changed this"
        in against_chance([0] * 9, [1, *[0] * 8]).evidence
    )
    assert "at least 7 of 30 would have had to pass “trigrams” only" in against_chance([0] * 30, [0] * 30).evidence
    assert against_chance([1] * 7 + [0] * 23, [0] * 30).answer == "Possibly"


def test_no_evidence_about_the_corpus_names_the_texts_that_are_continued_word_for_word() -> None:
    conclusion = against_control(7, 3)
    assert conclusion.answer == WHOLE
    names = ", ".join(f"text-{number}" for number in range(5))
    line = f". 7 of 30 paragraphs are continued word for word for 10 words or more: {names} and 2 more; 3 of 30 of the"
    assert line in conclusion.evidence
    assert "30 of 30 have fewer than 10 words left after the prompt; try --prompt-length 25" in conclusion.evidence
    assert (
        ". 0 of 30 paragraphs are continued word for word for 10 words or more; 3 of" in against_control(0, 3).evidence
    )


VERDICTS = st.sampled_from([0, 0, 0, 1, TOO_SHORT])


@st.composite
def audits(draw: st.DrawFn) -> Setting:
    """An audit of a few paragraphs, each in a document of its own, with or without an unseen control."""
    corpus, control = draw(st.integers(1, 25)), draw(st.integers(0, 25))
    number = corpus + control
    is_compared = draw(st.lists(st.booleans(), min_size=number, max_size=number))
    own, chance = (
        measurements([0] * number, draw(st.lists(st.integers(0, 40), min_size=number, max_size=number)), is_compared)
        for _ in range(2)
    )
    for threshold in Threshold:
        for side in (own, chance):
            verdicts = draw(st.lists(VERDICTS, min_size=number, max_size=number))
            side[threshold] = np.where(is_compared, verdicts, TOO_SHORT)
    data = replace(
        dataset(
            [place >= corpus for place in range(number)],
            draw(st.lists(st.booleans(), min_size=number, max_size=number)),
        ),
        readings=[COUNTS] * (2 if control else 1),
        documents=[f"text-{place}-" for place in range(number)],
        document=np.arange(number),
    )
    return setting(own, chance, data, [State.COMPLETED] * number)


# The exact test of short runs takes up to a second.
@settings(max_examples=15)
@given(st.lists(audits(), min_size=1, max_size=2))
def test_no_answer_hides_texts_that_are_continued_word_for_word(models: list[Setting]) -> None:
    """Whatever the answer for a model is, the texts that it continues are counted, and the longest are named."""
    models = [replace(of_model, model=f"model {place}") for place, of_model in enumerate(models)]
    table = MeasureTable([row for of_model in models for row in measure_sides(of_model)])
    for of_model in models:
        conclusion = sequence_conclusion([of_model], table)
        evidence = conclusion.evidence
        own, is_corpus = of_model.aligned, ~of_model.dataset.is_control
        judged = np.flatnonzero(own["is_compared"] & is_corpus)
        continued = [int(at) for at in judged if own[Threshold.START_10][at] == 1 or own["run_words"][at] >= 10]
        if not len(judged):
            continue
        line = re.search(
            r"(\d+) of (\d+) paragraphs? (?:is|are) continued word for word for 10 words or more", evidence
        )
        assert line and (int(line[1]), int(line[2])) == (len(continued), len(judged))
        named = [int(place) for place in re.findall(r"text-(\d+)-", evidence)]
        runs = own["run_words"]
        assert named == sorted(continued, key=lambda place: -runs[place])[:5]
        assert ("as a whole" in conclusion.answer) == ("No evidence" in conclusion.answer and bool(continued))
        whole = sequence_conclusion(models, table)
        assert ("No evidence" not in whole.answer) or line[0] in whole.evidence


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
    nothing, data = measurements([TOO_SHORT] * 5, [0] * 5), dataset([False] * 3 + [True] * 2)
    conclusion = concluded(setting(nothing, nothing, data, [State.COMPLETED] * 3 + [state] * 2))
    assert conclusion.evidence.startswith(f"no paragraph of the control was completed: 2 {why}. ")


def test_a_partial_audit_says_so() -> None:
    assert against_control(30, 0, pending=12).evidence.split(". ")[0].endswith("; so far 48 of 60 paragraphs")


def test_no_chart_is_drawn_before_the_corpus_has_a_completion() -> None:
    rows = [MeasureRow(PASSED, share_of(1, 4), "m", side, "first 5 words") for side in (CORPUS, SIDES[Control.CORPUS])]
    assert _tables_and_charts(MeasureTable(rows), ["m"])[1]
    tables, charts = _tables_and_charts(MeasureTable(rows[1:]), ["m"])
    assert tables and not charts
