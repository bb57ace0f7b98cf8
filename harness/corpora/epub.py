"""Read the text of an EPUB: its chapters in reading order, without markup. The archive and its files are untrusted."""

import html
import io
import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from harness.core.files import open_regular
from harness.corpora.text_files import Notes

_MAX_BYTES, _MAX_ENTRY = 64 << 20, 8 << 20
"""Decompressed bytes that are read of one book and of one file in it: novels have less than 4 MB of text."""
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""The methods of compression of the EPUB standard. Others take the memory that the archive asks for."""
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
            container, left = _read(archive, _CONTAINER, left)
            package = next(attributes["full-path"] for tag, attributes in _tags(container) if tag == "rootfile")
            listing, left = _read(archive, package, left)
            items = {attributes["id"]: attributes["href"] for tag, attributes in _tags(listing) if tag == "item"}
            for tag, attributes in _tags(listing):
                if tag == "itemref":
                    chapter = posixpath.join(posixpath.dirname(package), unquote(items[attributes["idref"]]))
                    markup, left = _read(archive, posixpath.normpath(chapter), left)
                    yield from _lines(markup)
    except _DAMAGE:
        notes.add(
            "damaged books",
            f"Skipped the rest of {name}: damaged, encrypted, or larger than {_MAX_BYTES >> 20} MB (a chapter: "
            f"{_MAX_ENTRY >> 20} MB).",
        )


def _read(archive: zipfile.ZipFile, entry: str, left: int) -> tuple[str, int]:
    """Return a text file of the archive, and how many of the `left` bytes may be read after it.

    Raises ValueError if it has more bytes, or is not UTF-8.
    """
    limit = min(left, _MAX_ENTRY)
    if archive.getinfo(entry).compress_type not in _METHODS:
        raise ValueError("another method of compression")
    with archive.open(entry) as stream:
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise ValueError("too long")
    return content.decode("utf-8-sig"), left - len(content)


def _tags(markup: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the name of each opening tag, without its namespace, and its attributes."""
    for match in _PIECE.finditer(_without_comments(markup)):
        if not match[0].startswith("</") and (tag := _NAME.match(match[0])):
            attributes = _ATTRIBUTE.findall(match[0])
            yield tag[1], {name: html.unescape(double or single) for name, double, single in attributes}


def _lines(markup: str) -> Iterator[str]:
    """Yield the text of each block of an XHTML file as a line, and an empty line after it."""
    text, hidden = io.StringIO(), ""
    for match in _PIECE.finditer(_without_comments(markup)):
        tag = _NAME.match(match[0])
        if tag is None:
            if not hidden:
                text.write(html.unescape(match[0]))
        elif hidden:
            hidden = "" if match[0].startswith(f"</{hidden}") else hidden
        elif tag[1] in _HIDDEN and not match[0].endswith("/>"):
            hidden = tag[1]
        elif tag[1] not in _INLINE:
            yield from _block(text.getvalue())
            text = io.StringIO()
    yield from _block(text.getvalue())


def _block(text: str) -> Iterator[str]:
    if line := " ".join(text.split()):
        yield f"{line}\n"
        yield "\n"


def _without_comments(markup: str) -> str:
    start, *comments = markup.split("<!--")
    return start + "".join(comment.partition("-->")[2] for comment in comments)
