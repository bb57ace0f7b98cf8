"""Text from anywhere, made safe to look at: nothing in it steers a terminal."""

_MARKS = {"\n": "⏎", "\t": "⇥", "\r": "␍"}


def visible(text: str) -> str:
    """`text` with everything that could steer a terminal (controls, bidi, zero-width) replaced by a mark or U+FFFD."""
    return "".join(character if character.isprintable() else _MARKS.get(character, "�") for character in text)
