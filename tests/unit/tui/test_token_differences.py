"""Underlining of the differences between a suffix and its answer."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from harness.analysis.decoded_text import TokenText
from harness.tui.guess_search import highlight, suffix_spans

FILE = Path(__file__).parents[3] / "harness" / "demo" / "weights" / "tokenizer.json"
TOKENIZER = Tokenizer.from_file(str(FILE))
TEXT = TokenText(FILE)

token_ids = st.lists(st.integers(0, TOKENIZER.get_vocab_size() - 1), max_size=40)


@given(token_ids, st.data())
def test_exactly_the_differing_tokens_are_underlined(ids: list[int], data: st.DataObject) -> None:
    answer = [data.draw(st.sampled_from([token, (token + 1) % 256])) for token in ids]
    spans = suffix_spans(TEXT, np.array(ids, np.uint16), np.array(answer, np.uint16))
    assert "".join(text for text, _ in spans) == TEXT.text(ids)
    differing = [
        piece for piece, token, expected in zip(TEXT.pieces(ids), ids, answer, strict=True) if token != expected
    ]
    assert [text for text, meaning in spans if "underline" in meaning] == differing
    assert {meaning for _, meaning in spans} <= ({"dim", "bad underline"} if differing else {"good"})


def test_nothing_is_marked_without_an_answer() -> None:
    assert {meaning for _, meaning in suffix_spans(TEXT, np.array([1, 2, 3], np.uint16), None)} == {""}


@given(token_ids, st.text("ab ", min_size=1, max_size=3))
def test_a_search_highlights_every_occurrence_and_changes_no_text(ids: list[int], query: str) -> None:
    spans = suffix_spans(TEXT, np.array(ids, np.uint16), None, query=query)
    text = "".join(part for part, _ in spans)
    assert text == TEXT.text(ids)
    marked = "".join(part for part, meaning in spans if "reverse" in meaning)
    assert marked.casefold() == query.casefold() * text.casefold().count(query.casefold())


@pytest.mark.parametrize(
    ("text", "query", "marked"),
    [
        ("abc", "", ""),
        ("Straße x", "x", "x"),
        ("Straße axb", "b", "b"),
        ("STRASSE", "straße", "STRASSE"),
        ("Straße", "s", "Sß"),
    ],
)
def test_letters_that_fold_to_several_do_not_shift_the_mark(text: str, query: str, marked: str) -> None:
    # Each letter is a piece.
    spans = highlight([(letter, "") for letter in text], query)
    assert "".join(part for part, _ in spans) == text
    assert "".join(part for part, meaning in spans if "reverse" in meaning) == marked
