"""The four thresholds: the worked example, the limits, and texts that are too short."""

from functools import partial

import pytest

from harness.audits.sequence.thresholds import (
    Threshold,
    equal_start,
    overlap,
    trigram,
    verdicts,
)
from harness.audits.sequence.words import cut_after, words_of
from tests.unit.audits.sequence.worked_example import PREFIX, S1, S2, SUFFIX


def judged(completion: str, suffix: str) -> list[bool | None]:
    return [verdicts(words_of(completion), words_of(suffix))[threshold] for threshold in Threshold]


def test_the_worked_example_has_34_words_before_a_suffix_of_18() -> None:
    assert len(words_of(PREFIX)) == 34
    assert cut_after(f"{PREFIX} {SUFFIX}", 34, 250) == (PREFIX, SUFFIX)
    assert [len(words_of(text)) for text in (SUFFIX, S1, S2)] == [18, 13, 18]


def test_the_first_completion_of_the_worked_example_passes_nothing() -> None:
    assert judged(S1, SUFFIX) == [False, False, False, False]


def test_the_second_completion_as_printed_passes_all_four() -> None:
    assert judged(S2, SUFFIX) == [True, True, True, True]
    assert words_of(S2)[:10] == words_of(SUFFIX)[:10]
    assert words_of(S2)[10] != words_of(SUFFIX)[10]


def test_after_35_words_the_verdicts_equal_the_papers_table() -> None:
    cut = cut_after(f"{PREFIX} {SUFFIX}", 35, 250)
    assert cut is not None
    assert cut.suffix == SUFFIX.removeprefix("I ")
    assert judged(S2.removeprefix("I "), cut.suffix) == [True, True, False, True]
    assert judged(S1, cut.suffix) == [False, False, False, False]


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
