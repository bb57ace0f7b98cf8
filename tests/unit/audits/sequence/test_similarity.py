"""Verbatim runs, edit similarity and marked stretches, against their definitions."""

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from harness.audits.sequence.similarity import (
    edit_similarity,
    longest_character_run,
    longest_word_run,
    mark_common_runs,
)
from tests.unit.audits.sequence.worked_example import S2, SUFFIX

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
