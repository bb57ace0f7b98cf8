"""Words, paragraphs, and the cut between prompt and suffix."""

import io

from harness.audits.sequence.words import MOST_CHARACTERS, cut_after, cut_at, first_words, paragraphs_of


def test_blank_lines_separate_paragraphs_and_line_breaks_do_not() -> None:
    assert list(paragraphs_of(io.StringIO("one\ntwo\r\n\r\n \t \nthree\n\n\n", newline=None))) == ["one\ntwo", "three"]
    assert list(paragraphs_of([" \n", "\n"])) == []


def test_a_line_in_pieces_is_one_line() -> None:
    assert list(paragraphs_of(["one ", "  ", "two\n", "\n", "three"])) == ["one   two", "three"]


def test_an_endless_paragraph_is_cut() -> None:
    stream = io.StringIO("word " * 1_000_000 + "\n\nnext")
    first, second = paragraphs_of(iter(lambda: stream.readline(1 << 16), ""))
    assert len(first) <= MOST_CHARACTERS + (1 << 16)
    assert second == "next"


def test_a_cut_keeps_whitespace() -> None:
    assert cut_after(" a  b\nc\td ", 2, 10) == ("a  b", "c\td")
    assert cut_after("a b c d", 2, 1) == ("a b", "c")


def test_a_paragraph_needs_a_word_after_its_prompt() -> None:
    assert cut_after("a b", 2, 10) is None
    assert cut_after("a b c", 2, 10) == ("a b", "c")
    assert cut_after("", 1, 10) is None


def test_cut_at_drops_words_that_may_be_incomplete() -> None:
    assert cut_at("alpha beta gamma del", 8, 10) == ("alpha", "beta gamma")
    assert cut_at("alpha beta gamma ", 10, 10) == ("alpha beta", "gamma")
    assert cut_at("alpha", 3, 10) is None


def test_first_words_end_with_a_word() -> None:
    assert first_words(" a b  c d", 3) == " a b  c"
    assert first_words("a", 3) == "a"
    assert first_words("a b", 0) == ""
