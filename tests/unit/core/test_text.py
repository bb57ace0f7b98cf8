"""Text from anywhere: nothing in it steers, hides, or shifts what stands beside it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from harness.core.text import sanitize


@given(st.text())
def test_what_is_shown_can_be_printed_and_has_as_many_characters(text: str) -> None:
    shown = sanitize(text)
    assert shown.isprintable() and len(shown) == len(text)


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"], max_codepoint=0x2000)))
def test_what_was_shown_stays_as_it_is(text: str) -> None:
    assert sanitize(sanitize(text)) == sanitize(text)


@pytest.mark.parametrize("hidden", ["\ufe0f", "\u3164", "\u115f", "\u2800", "\u202e", "\u200b", "\x1b", "\U000e0100"])
def test_what_is_drawn_as_nothing_is_marked(hidden: str) -> None:
    assert sanitize(f"a{hidden}b") == "a�b"


def test_a_pile_of_marks_is_cut_to_three() -> None:
    assert sanitize("e" + "\u0301" * 10) == "e" + "\u0301" * 3 + "�" * 7
    assert cell_len(sanitize("e\u0301")) == 1


@pytest.mark.parametrize("text", ["naïve", "你好", "नमस्ते", "→ ✓ ⏎", "plain [/ text"])
def test_what_people_write_stays(text: str) -> None:
    assert sanitize(text) == text
