"""Text as Typst source that can only ever be text, and Typst source as a PDF whose bytes depend on it alone.

Knows nothing of runs and Markdown.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from unicodedata import category

import typst

from harness.core.errors import HarnessError
from harness.core.text import sanitize, shorten
from harness.figures.glyphs import drawable_characters

_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")
_LONGEST_LINK = 1000
_WORD = re.compile(r"\S{50,}")
_BREAK_EVERY = 10
_ZERO_WIDTH_SPACE = "\u200b"


def markup(text: str) -> str:
    """`text` in Typst's markup: every ASCII punctuation mark is escaped, so that none begins code, markup or a comment.

    Line ends and other controls are made visible first: a call that ends before the text is not continued by it either,
    since `(`, `[` and `.` are among the escaped.
    """
    return _PUNCTUATION.sub(r"\\\g<0>", _safe(text))


def string(text: str) -> str:
    """`text` as a Typst string literal, for code mode; line ends stay, other controls are made visible."""
    return _literal("\n".join(_safe(line) for line in text.split("\n")))


def content(text: str) -> str:
    """`text` as a content block, for code mode."""
    return f"[{markup(text)}]"


def array(items: Sequence[str]) -> str:
    """A Typst array of `items`, which are code; the comma behind the last makes one of a single item too."""
    return f"({''.join(f'{item}, ' for item in items).rstrip()})" if items else "()"


def link(address: str, shown: str) -> str:
    """A link to a web or mail address around `shown`, which is markup; only `shown` where the address is another."""
    if not address.startswith(("https://", "http://", "mailto:")) or len(address) > _LONGEST_LINK:
        return shown
    return f"#link({_literal(sanitize(address))})[{shown}];"


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _safe(text: str) -> str:
    """`text` as it can be drawn: spaces of every kind are spaces, controls are visible, and no word outgrows a line.

    A character that no font at hand draws would be missing without a word: it is told by its number.
    """
    spaced = "".join(" " if character == "\t" or category(character) == "Zs" else character for character in text)
    drawable = drawable_characters()
    drawn = "".join(
        character if ord(character) in drawable else f"⟨U+{ord(character):04X}⟩" for character in sanitize(spaced)
    )
    return _WORD.sub(lambda word: _ZERO_WIDTH_SPACE.join(_pieces(word.group())), drawn)


def _pieces(word: str) -> list[str]:
    return [word[start : start + _BREAK_EVERY] for start in range(0, len(word), _BREAK_EVERY)]


class Typeset:
    """A Typst file as it comes out: `pdf`, and its number of `pages`."""

    def __init__(self, source: Path) -> None:
        """Typeset `source`, which may read files beside it, with the fonts in the typst wheel alone.

        The file must label its number of pages `<pages>` (`metadata`). Raises HarnessError where it does not compile.
        """
        fonts = typst.Fonts(include_system_fonts=False)
        try:
            compiler = typst.Compiler(source, root=source.parent, font_paths=fonts, ignore_system_fonts=True)
            pdf = compiler.compile(format="pdf", timestamp=0)
            self.pages = int(compiler.query("<pages>", field="value", one=True))
        except typst.TypstError as error:
            raise HarnessError(f"{source}: cannot be typeset ({shorten(sanitize(error.message), 200)}).") from None
        assert isinstance(pdf, bytes)  # several files are made of pictures alone
        self.pdf = pdf
