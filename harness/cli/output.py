"""How commands print: data on stdout, talk on stderr, hostile text made visible."""

import json
import sys
from typing import Any


def print_json(value: Any) -> None:
    """One line of JSON on stdout."""
    print(json.dumps(value, allow_nan=False, ensure_ascii=True, separators=(", ", ": ")))


def say(sentence: str) -> None:
    """A line of talk, on stderr."""
    print(sentence, file=sys.stderr, flush=True)


def visible(text: str) -> str:
    """`text` with everything that could steer a terminal (controls, bidi, zero-width) replaced by U+FFFD or escapes."""
    return "".join(_visible_character(character) for character in text)


def _visible_character(character: str) -> str:
    if character.isprintable():
        return character
    return {"\n": "⏎", "\t": "⇥", "\r": "␍"}.get(character, "�")
