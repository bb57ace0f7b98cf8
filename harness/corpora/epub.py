"""Read the text of an EPUB: its chapters in reading order, without markup. The archive and its files are untrusted."""

import html
import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from harness.core.files import open_regular
from harness.corpora.text_files import Notes

_MAX_BYTES = 64 << 20
"""Decompressed bytes that are read of one book: novels have less than 4 MB of text."""
_CONTAINER = "META-INF/container.xml"
_PIECE = re.compile(r"<[^<>]*>|[^<]+|<")
_ATTRIBUTE = re.compile(r"""(?<![\w:.-])([\w:.-]+)=(?:"([^"]*)"|'([^']*)')""")
_NAME = re.compile(r"</?(?:[\w.-]+:)?([\w.-]*)")
_HIDDEN = frozenset({"head", "script", "style"})
_INLINE = frozenset(
    {"a", "abbr", "b", "cite", "code", "em", "i", "q", "s", "small", "span", "strong", "sub", "sup", "u"}
)
_DAMAGE = (OSError, ValueError, LookupError, StopIteration, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)


def pieces_of_epub(file: Path, name: str, notes: Notes) -> Iterator[str]:
    """Yield the lines of each chapter: its paragraphs and empty lines between them. A note says what is damaged."""
    try:
        with open_regular(file) as stream, zipfile.ZipFile(stream) as archive:
            left = _MAX_BYTES
            container = _read(archive, _CONTAINER, left)
            package = next(attributes["full-path"] for tag, attributes in _tags(container) if tag == "rootfile")
            tags = _tags(_read(archive, package, left))
            items = {attributes["id"]: attributes["href"] for tag, attributes in tags if tag == "item"}
            for tag, attributes in tags:
                if tag == "itemref":
                    chapter = posixpath.join(posixpath.dirname(package), unquote(items[attributes["idref"]]))
                    markup = _read(archive, posixpath.normpath(chapter), left)
                    left -= len(markup)
                    yield from f"{_text(markup)}\n\n".splitlines(keepends=True)
    except _DAMAGE:
        notes.add(
            "damaged books", f"Skipped the rest of {name}: damaged, encrypted, or larger than {_MAX_BYTES >> 20} MB."
        )


def _read(archive: zipfile.ZipFile, entry: str, limit: int) -> str:
    """Return a text file of the archive. Raises ValueError if it is longer than `limit` bytes or not UTF-8."""
    with archive.open(entry) as stream:
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise ValueError("too long")
    return content.decode("utf-8-sig")


def _tags(markup: str) -> list[tuple[str, dict[str, str]]]:
    """Return the name of each opening tag, without its namespace, and its attributes."""
    return [
        (tag[1], {name: html.unescape(double or single) for name, double, single in _ATTRIBUTE.findall(piece)})
        for piece in _PIECE.findall(_without_comments(markup))
        if not piece.startswith("</") and (tag := _NAME.match(piece))
    ]


def _text(markup: str) -> str:
    """Return the text of an XHTML file, a paragraph for each block."""
    paragraphs: list[list[str]] = [[]]
    hidden = ""
    for piece in _PIECE.findall(_without_comments(markup)):
        tag = _NAME.match(piece)
        if tag is None:
            if not hidden:
                paragraphs[-1].append(html.unescape(piece))
        elif hidden:
            hidden = "" if piece.startswith(f"</{hidden}") else hidden
        elif tag[1] in _HIDDEN and not piece.endswith("/>"):
            hidden = tag[1]
        elif tag[1] not in _INLINE:
            paragraphs.append([])
    texts = (" ".join("".join(paragraph).split()) for paragraph in paragraphs)
    return "\n\n".join(filter(None, texts))


def _without_comments(markup: str) -> str:
    start, *comments = markup.split("<!--")
    return start + "".join(comment.partition("-->")[2] for comment in comments)
