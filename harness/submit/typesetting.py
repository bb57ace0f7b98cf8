"""Escape text for Typst, and compile Typst source to a PDF whose bytes depend on the source alone."""

import re
from collections.abc import Sequence
from pathlib import Path
from unicodedata import category

import typst

from harness.core.errors import HarnessError
from harness.core.text import sanitize, shorten
from harness.figures.glyphs import drawable_characters

_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")
_WORD = re.compile(r"\S{50,}")
_PIECE = re.compile(r"\S{10}(?=\S)")
_ZERO_WIDTH_SPACE = "\u200b"


def markup(text: str) -> str:
    """Return `text` as Typst markup. All ASCII punctuation is escaped, so it cannot start code, markup or a comment.

    Line ends and other control characters are made visible. Because `(`, `[` and `.` are escaped too, the text cannot
    continue a call that precedes it.
    """
    return _PUNCTUATION.sub(r"\\\g<0>", _safe(text))


def string(text: str) -> str:
    """Return `text` as a Typst string literal. Line ends stay, other control characters are made visible."""
    return _literal("\n".join(_safe(line) for line in text.split("\n")))


def content(text: str) -> str:
    """Return `text` as a Typst content block for code mode."""
    return f"[{markup(text)}]"


def array(items: Sequence[str]) -> str:
    """Return a Typst array of `items`, which are code. The last comma makes a single item an array too."""
    return f"({''.join(f'{item}, ' for item in items).rstrip()})" if items else "()"


def link(address: str, shown: str) -> str:
    """Return a link around the markup `shown`, or only `shown` if this is not a web or mail address."""
    if not address.startswith(("https://", "http://", "mailto:")):
        return shown
    return f"#link({_literal(sanitize(address))})[{shown}];"


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _safe(text: str) -> str:
    """Return `text` with plain spaces, visible control characters, and line breaks allowed in long words.

    Typst omits a character that no available font contains, so it is replaced with its code point.
    """
    spaced = "".join(" " if character == "\t" or category(character) == "Zs" else character for character in text)
    drawable = drawable_characters()
    drawn = "".join(
        character if ord(character) in drawable else f"⟨U+{ord(character):04X}⟩" for character in sanitize(spaced)
    )
    return _WORD.sub(lambda word: _PIECE.sub(rf"\g<0>{_ZERO_WIDTH_SPACE}", word.group()), drawn)


def typeset(source: Path) -> tuple[bytes, int]:
    """Compile a Typst file with the fonts of the typst package alone. Return the bytes of the PDF and its pages.

    The file may read files in its folder, and must attach its number of pages as metadata with the label `<pages>`.
    Raises HarnessError if it cannot be compiled.
    """
    fonts = typst.Fonts(include_system_fonts=False)
    try:
        compiler = typst.Compiler(source, root=source.parent, font_paths=fonts, ignore_system_fonts=True)
        pdf = compiler.compile(format="pdf", timestamp=0)
        pages = int(compiler.query("<pages>", field="value", one=True))
    except typst.TypstError as error:
        raise HarnessError(f"{source}: cannot be typeset ({shorten(sanitize(error.message), 200)}).") from None
    assert isinstance(pdf, bytes)  # Only image formats give several files.
    return pdf, pages
