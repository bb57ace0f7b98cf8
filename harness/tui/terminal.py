"""Replacements of the characters that a terminal without braille cannot draw.

Every screen passes one filter, so no widget knows about it. A font of the Linux console has 256 or 512 glyphs. The
usual ones are those of code page 437: halves of a block and thin lines, but no braille and no eighths of a block.
"""

import os
import sys

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_UPPER, _LOWER, _LEFT = 0b00011011, 0b11100100, 0b01000111
"""The dots of a braille character in its upper half, its lower half and its left column."""
_SPECIAL = "▁▂▃▅▆▇▔▏▎▍▋▊▉▕╭╮╰╯━┃┏┓┗┛┣┫┳┻╋╸╺╹╻●◆★▶◀▸▾◌◐◑⧗✓✗⭘…–−×⏎⇥⇧⌫‹›“”‘’"
_USUAL = "__▄▄██─▌▌▌▌██▐┌┐└┘─│┌┐└┘├┤┬┴┼──││•♦*►◄►▼°oo%√xo»--x◄→^◄<>\"\"''"


def _blocks(dots: int) -> str:
    """Return the halves of a block in which a braille character has dots; a line if they are above each other."""
    if dots & _UPPER and dots & _LOWER:
        return "│" if dots & _LEFT in (0, dots) else "█"
    return "▀" if dots & _UPPER else "▄" if dots & _LOWER else " "


class UsualGlyphs(LineFilter):
    """Replaces characters that the terminal cannot draw, cell by cell."""

    _GLYPHS = str.maketrans(_SPECIAL, _USUAL) | {0x2800 + dots: _blocks(dots) for dots in range(256)}

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments with usual characters."""
        return [Segment(text.translate(self._GLYPHS), style, control) for text, style, control in segments]


def has_braille() -> bool:
    """Return False on the Linux console, and in a locale without Unicode."""
    # For LANG=C, Python sets LC_CTYPE to C.UTF-8 (PEP 538).
    locale = os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE", "").replace("C.UTF-8", "") or os.environ.get("LANG")
    return os.environ.get("TERM") != "linux" and locale not in ("C", "POSIX") and "utf" in sys.stdout.encoding.lower()
