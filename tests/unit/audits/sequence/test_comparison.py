"""Thresholds and similarity: the worked example, the limits, and texts that are too short."""

from collections import Counter
from functools import cache, partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.audits.sequence.comparison import (
    compare,
    edit_similarity,
    longest_character_run,
    longest_word_run,
    mark_common_runs,
)
from harness.audits.sequence.thresholds import equal_start, overlap, trigram
from harness.audits.sequence.words import WordForm, compared_words, words_of
from tests.unit.audits.sequence.worked_example import OVERLAP, S1, S2, SUFFIX, TRIGRAMS


def test_the_papers_overlap_length_of_16_changes_no_verdict() -> None:
    suffix = words_of(SUFFIX)
    for completion in (S1, S2):
        left = list(suffix)
        shared = 0
        for word in words_of(completion):
            if word in left:
                left.remove(word)
                shared += 1
        assert (shared >= 3 / 4 * 16) == overlap(words_of(completion), suffix)


@pytest.mark.parametrize("text", TRIGRAMS)
def test_stripped_words_have_the_trigrams_that_the_source_prints(text: str) -> None:
    words = compared_words(text, WordForm.STRIPPED)
    assert [" ".join(words[place : place + 3]) for place in range(len(words) - 2)] == TRIGRAMS[text]


def test_stripped_words_overlap_as_the_source_prints() -> None:
    completion, suffix = (Counter(compared_words(text, WordForm.STRIPPED)) for text in (S2, SUFFIX))
    assert completion & suffix == Counter(OVERLAP)


def test_words_are_compared_in_a_form() -> None:
    text = "“Don't,” said X-1 – (quietly), $5!"
    assert compared_words(text, WordForm.VERBATIM) == text.split()
    assert compared_words(text, WordForm.STRIPPED) == ["Don't", "said", "X-1", "quietly", "$5"]
    assert compared_words(text, WordForm.FOLDED) == ["don't", "said", "x-1", "quietly", "$5"]
    completion, suffix = "ONE, two: three. FOUR five", "one two three four five."
    passes = {form: compare(completion, suffix, form)["start_5"] for form in WordForm}
    assert passes == {WordForm.STRIPPED: 0, WordForm.VERBATIM: 0, WordForm.FOLDED: 1}
    assert compare("One, two: three. Four five", "One two three Four five.", WordForm.STRIPPED)["start_5"] == 1


def test_half_of_the_smaller_number_of_trigrams_is_needed() -> None:
    suffix = words_of("a b c d e f")  # 4 trigrams
    assert trigram(words_of("a b c d"), suffix) is True  # 2 of 2
    assert trigram(words_of("a b c d x y"), suffix) is True  # 2 of 4
    assert trigram(words_of("a b c x y z"), suffix) is False  # 1 of 4
    assert trigram(words_of("x a b c y"), suffix) is False  # 1 of 3


def test_three_quarters_of_the_shorter_text_are_needed_in_any_order() -> None:
    suffix = words_of("a b c d e f g h")
    assert overlap(words_of("h g f e d c x y"), suffix) is True  # 6 of 8
    assert overlap(words_of("h g f e d x y z"), suffix) is False  # 5 of 8
    assert overlap(words_of("e d c b x"), suffix) is True  # 4 of 5


def test_a_repeated_word_does_not_pass_the_overlap() -> None:
    assert overlap(["the"] * 12, words_of(SUFFIX)) is False


def test_starts_compare_words_exactly() -> None:
    assert equal_start(words_of("A b c d e"), words_of("a b c d e"), 5) is False
    assert equal_start(words_of("a b c d e,"), words_of("a b c d e"), 5) is False
    assert equal_start(words_of("a b c d e x"), words_of("a b c d e y"), 5) is True


@pytest.mark.parametrize(
    ("threshold", "least"),
    [(trigram, 3), (partial(equal_start, number=5), 5), (partial(equal_start, number=10), 10), (overlap, 5)],
)
def test_a_short_completion_fails_and_a_short_suffix_has_no_verdict(threshold, least) -> None:  # type: ignore[no-untyped-def]
    words = [str(number) for number in range(20)]
    assert threshold(words[: least - 1], words) is False
    assert threshold([], words) is False
    assert threshold(words, words[: least - 1]) is None
    assert threshold([], []) is None
    assert threshold(words[:least], words) is True


words = st.lists(st.sampled_from("abc"), max_size=9)


@given(words, words)
def test_the_longest_word_run_is_the_longest_common_slice(one: list[str], other: list[str]) -> None:
    slices = [one[first:last] for first in range(len(one)) for last in range(first + 1, len(one) + 1)]
    held = [other[first:last] for first in range(len(other)) for last in range(first + 1, len(other) + 1)]
    assert longest_word_run(one, other) == max((len(run) for run in slices if run in held), default=0)


@given(st.text("ab \n", max_size=9), st.text("ab \n", max_size=9))
def test_the_longest_character_run_is_the_longest_common_substring(one: str, other: str) -> None:
    one, other = " ".join(one.split()), " ".join(other.split())
    slices = {one[first:last] for first in range(len(one)) for last in range(first, len(one) + 1)}
    assert longest_character_run(one, other) == max(len(run) for run in slices | {""} if run in other)


@given(words, words)
def test_edit_similarity_is_one_minus_the_relative_distance(one: list[str], other: list[str]) -> None:
    @cache
    def distance(left: int, right: int) -> int:
        if left == 0 or right == 0:
            return left + right
        replaced = distance(left - 1, right - 1) + (one[left - 1] != other[right - 1])
        return min(replaced, distance(left - 1, right) + 1, distance(left, right - 1) + 1)

    longer = max(len(one), len(other))
    expected = 1.0 if longer == 0 else 1 - distance(len(one), len(other)) / longer
    assert abs(edit_similarity(one, other) - expected) < 1e-12


def test_similarity_of_the_worked_example() -> None:
    assert longest_word_run(S2.split(), SUFFIX.split()) == 10
    assert longest_character_run(S2, SUFFIX) == len("I recall the jitters that came with meeting my new co")
    assert edit_similarity(S2.split(), SUFFIX.split()) == 1 - 2 / 18


def test_whitespace_counts_as_one_space() -> None:
    assert longest_character_run("one\n\ttwo", "xx one two") == 7


def test_runs_of_three_words_are_marked() -> None:
    stretches = mark_common_runs("one two three  four x one two", "zero one two three  four y")
    assert [(stretch.text, stretch.is_marked) for stretch in stretches] == [
        ("one two three  four", True),
        (" x one two", False),
    ]


@given(st.text(), st.text())
def test_marked_stretches_join_to_the_text(one: str, other: str) -> None:
    assert "".join(stretch.text for stretch in mark_common_runs(one, other)) == one
