"""Turn values into text for people: safe model text, shortened text, counts, ordinals, aligned columns, names."""

import unicodedata
from collections.abc import Sequence

_MARKS = {"\n": "⏎", "\t": "⇥", "\r": "␍"}
_REPLACEMENT = "\ufffd"
# These characters count as printable, but they are drawn as nothing or change the width of the character before them.
_VARIATION_SELECTORS = (range(0x180B, 0x1810), range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | {
    chr(code) for codes in _VARIATION_SELECTORS for code in codes
}
_MAX_COMBINING = 3


def sanitize(text: str) -> str:
    """Return `text` with everything that could steer a terminal replaced by a visible mark or U+FFFD.

    Replaced are control, bidirectional and zero-width characters, printable characters that are drawn as nothing,
    and every combining mark after the third on one character.
    """
    if text.isascii() and text.isprintable():
        return text
    characters, combining = [], 0
    for character in text:
        combining = combining + 1 if unicodedata.category(character).startswith("M") else 0
        if not character.isprintable():
            characters.append(_MARKS.get(character, _REPLACEMENT))
        elif character in _INVISIBLE or combining > _MAX_COMBINING:
            characters.append(_REPLACEMENT)
        else:
            characters.append(character)
    return "".join(characters)


def shorten(text: str, limit: int = 60) -> str:
    """Return `text` cut to at most `limit` characters, with an ellipsis where it was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def shorten_middle(text: str, limit: int) -> str:
    """Return `text` cut to at most `limit` characters in its middle, because paths differ in their last part."""
    return text if len(text) <= limit else f"{text[: limit // 2]}…{text[1 - limit // 2 :]}"


def pluralize(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 row` or `2,000 rows`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def ordinal(number: int) -> str:
    """Return a positive number as `1st`, `2nd`, `3rd`, `4th`."""
    is_teen = number % 100 in (11, 12, 13)
    return f"{number:,}{'th' if is_teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def align_columns(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of equally many cells as lines of text. Each column is as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def display_name(attack: str, *, is_control: bool) -> str:
    """Return the name of an attack as people see it. A control is marked because it may not be submitted."""
    return f"{attack} (control)" if is_control else attack
