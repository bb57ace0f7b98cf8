"""Sanitized text contains no control characters and no invisible characters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from harness.core.text import sanitize


@given(st.text())
def test_sanitized_text_is_printable_and_keeps_its_length(text: str) -> None:
    shown = sanitize(text)
    assert shown.isprintable() and len(shown) == len(text)


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"], max_codepoint=0x2000)))
def test_sanitizing_twice_changes_nothing(text: str) -> None:
    assert sanitize(sanitize(text)) == sanitize(text)


@pytest.mark.parametrize("hidden", ["\ufe0f", "\u3164", "\u115f", "\u2800", "\u202e", "\u200b", "\x1b", "\U000e0100"])
def test_invisible_characters_are_marked(hidden: str) -> None:
    assert sanitize(f"a{hidden}b") == "a�b"


def test_combining_marks_are_limited_to_three() -> None:
    assert sanitize("e" + "\u0301" * 10) == "e" + "\u0301" * 3 + "�" * 7
    assert cell_len(sanitize("e\u0301")) == 1


@pytest.mark.parametrize("text", ["naïve", "你好", "नमस्ते", "→ ✓ ⏎", "plain [/ text"])
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert sanitize(text) == text
