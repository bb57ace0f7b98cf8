"""Mask an API key in the answers of a server that repeats it, so that it is not stored with them."""

import base64
import re
from typing import Any

MASK = "[API key]"
_SHORTEST_KEY = 8
"""Characters. A shorter key is a placeholder, such as `EMPTY`, which may be a word of an answer."""


class KeyMask:
    """Replaces a key: as it is, or escaped as in URLs, JSON and HTML, in base64 or in hexadecimal digits."""

    def __init__(self, key: str | None) -> None:
        self._pattern = None
        if key is not None and len(key) >= _SHORTEST_KEY:
            self._pattern = re.compile("|".join([_escaped(key), key.encode().hex(), *_in_base64(key)]), re.IGNORECASE)

    def masked(self, value: Any) -> Any:
        """Return a value of JSON with `[API key]` in place of the key in each text and each name."""
        if self._pattern is None:
            return value
        if isinstance(value, str):
            return self._pattern.sub(MASK, value)
        if isinstance(value, list):
            return [self.masked(each) for each in value]
        if isinstance(value, dict):
            return {self.masked(name): self.masked(each) for name, each in value.items()}
        return value


def _escaped(key: str) -> str:
    """Return a pattern of `key` in which any character may be escaped."""
    characters = []
    for character in key:
        code = ord(character)
        forms = [character, f"\\{character}", f"%{code:02x}", f"\\u{code:04x}", f"\\x{code:02x}"]
        characters.append("|".join([*map(re.escape, forms), f"&#0*{code};", f"&#x0*{code:x};"]))
    return "".join(f"(?:{forms})" for forms in characters)


def _in_base64(key: str) -> list[str]:
    """Return patterns of `key` in base64, in both alphabets, for each number of bytes before it."""
    patterns = []
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + key.encode()).decode().rstrip("=")
        # The first and the last characters depend on the bytes beside the key.
        patterns.append(re.escape(encoded[(before * 4 + 2) // 3 : len(key.encode() + bytes(before)) * 4 // 3]))
    return [pattern.replace(r"\+", "[-+]").replace("/", "[_/]") for pattern in patterns]
