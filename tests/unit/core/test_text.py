"""Sanitized text contains no control characters and no invisible characters, and numbers have one format."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from harness.core.text import (
    format_interval,
    format_number,
    format_p_value,
    format_percent,
    format_score,
    sanitize,
    shorten,
    shorten_middle,
)


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


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.3694, "0.369"),
        (12.345, "12.3"),
        (99.96, "100"),
        (0.9996, "1.00"),
        (1234.6, "1,235"),
        (12_345_678, "12,345,678"),
        (0.00123, "0.0012"),
        (9.717e-153, "< 0.0001"),
        (-1e-9, "> -0.0001"),
        (-2.5, "-2.50"),
        (0.0, "0"),
        (None, "–"),
        (float("nan"), "–"),
        (float("-inf"), "-∞"),
    ],
)
def test_a_number_has_three_significant_digits(value: float | None, text: str) -> None:
    assert format_number(value) == text


@given(st.floats())
def test_no_number_is_written_in_scientific_notation(value: float) -> None:
    for text in (format_number(value), format_percent(value), format_score(value)):
        assert "e" not in text


@given(st.floats(1e-2, 1e15))
def test_a_number_is_rounded_to_three_digits(value: float) -> None:
    assert abs(float(format_number(value).replace(",", "")) - value) <= 0.00501 * value


def test_scores_have_three_decimals_and_shares_in_sentences_are_percentages() -> None:
    assert [format_score(0.0412), format_score(0.028, is_signed=True), format_score(None)] == ["0.041", "+0.028", "–"]
    assert format_interval(0.3384, 0.4) == "[0.338, 0.400]"
    assert [format_percent(share) for share in (0.369, 1.0, 0.0, 2e-5)] == ["36.9 %", "100 %", "0 %", "< 0.01 %"]
    assert [format_p_value(p) for p in (5e-8, 0.0584, 1)] == ["p < 0.0001", "p = 0.0584", "p = 1.00"]


@pytest.mark.parametrize("cut", [shorten, shorten_middle])
@given(text=st.text(max_size=12), limit=st.integers(0, 12))
def test_a_shortened_text_is_never_longer_than_its_limit(cut, text, limit):
    assert len(cut(text, limit)) <= limit
    assert len(text) > limit or cut(text, limit) == text
