"""The text of compiled Markdown, without spaces."""

import shutil
from html.parser import HTMLParser
from pathlib import Path

import typst

from harness.submit.description import TEMPLATES
from harness.submit.typst import markdown_to_typst, typeset

_BREAK = "\u200b"
_PLAIN_TABLE = "#let team-table(columns, alignment, ..cells) = table(columns: columns, ..cells)"
"""The template's version is centred, and Typst's HTML export omits centred content."""


class _Words(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self._is_body = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._is_body = self._is_body or tag == "body"

    def handle_data(self, data: str) -> None:
        if self._is_body:
            self.text.append(data)


def packed(text: str) -> str:
    """Return `text` without spaces and without zero-width spaces."""
    return "".join(text.replace(_BREAK, "").split())


def typeset_text(markdown: str, folder: Path) -> str:
    """Return the packed text of `markdown`, which must also compile to a PDF in the real template."""
    shutil.copyfile(TEMPLATES / "description.typ", folder / "template.typ")
    source = markdown_to_typst(markdown)
    whole = folder / "whole.typ"
    whole.write_text(f'#import "template.typ": *\n#show: description\n{source}', encoding="utf-8")
    assert typeset(whole)[1] >= 1
    alone = folder / "alone.typ"
    alone.write_text(f"{_PLAIN_TABLE}\n{source}", encoding="utf-8")
    words = _Words()
    page = typst.compile(alone, format="html", ignore_system_fonts=True)
    assert isinstance(page, bytes)
    words.feed(page.decode())
    return packed("".join(words.text))
