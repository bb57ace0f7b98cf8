"""Text from anywhere, made safe to look at: nothing in it steers a terminal, hides, or shifts what stands beside it."""

import unicodedata

_MARKS = {"\n": "⏎", "\t": "⇥", "\r": "␍"}
_HIDDEN = "�"
# Printable by their category, and yet drawn as nothing, or changing how wide the character before them is.
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_SELECTORS = (range(0x180B, 0x1810), range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))
_MOST_COMBINING = 3


def visible(text: str) -> str:
    """`text` with everything that could steer a terminal (controls, bidi, zero-width) replaced by a mark or U+FFFD.

    So is what is drawn as nothing, and any combining mark beyond three on one character.
    """
    if text.isascii() and text.isprintable():
        return text
    shown, combining = [], 0
    for character in text:
        combining = combining + 1 if unicodedata.category(character).startswith("M") else 0
        if not character.isprintable():
            shown.append(_MARKS.get(character, _HIDDEN))
        elif character in _INVISIBLE or combining > _MOST_COMBINING or _is_selector(character):
            shown.append(_HIDDEN)
        else:
            shown.append(character)
    return "".join(shown)


def _is_selector(character: str) -> bool:
    return any(ord(character) in selectors for selectors in _SELECTORS)
