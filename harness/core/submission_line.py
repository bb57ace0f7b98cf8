"""Parse one line of a submission CSV: return its numbers, or describe its fault in a clause."""

import re

from harness.core.submission import HEADER
from harness.core.text import pluralize, shorten

_PLAIN = re.compile(rb"0|[1-9][0-9]*")
_MAX_DIGITS = 10  # of a number below 2^32


def longest_line(suffix_length: int) -> int:
    """Return the maximum number of bytes of a line with its end: ten digits, a comma and five spaces per token."""
    return 64 + 16 * suffix_length


def header_fault(line: bytes) -> str | None:
    """Return the fault of the first line, which includes its line end, or None."""
    if line in (HEADER, HEADER[:-1], HEADER[:-1] + b"\r\n"):
        return None
    expected = f"expected the header {HEADER[:-1].decode()!r}"
    if not line:
        return f"{expected}, found an empty file"
    if b"\0" in line:
        return f"expected CSV text, found binary data: {quoted_start(line)}"
    if line.startswith(b"\xef\xbb\xbf"):
        return "starts with a byte order mark: save the file as plain UTF-8"
    found = line.strip()
    if found.replace(b" ", b"") == HEADER.strip().replace(b" ", b""):
        expected += ", without spaces around the comma"
    return f"{expected}, found {quoted_start(found) if found else 'an empty line'}"


def line_end_fault(line: bytes, line_end: bytes) -> str | None:
    """Return the fault in the end of a line that was cut before its LF, or None; the header ends in `line_end`."""
    if line.endswith(b"\r") == (line_end == b"\r\n"):
        return None
    if line_end == b"\n":
        return "ends in CR LF, but the header ends in LF"
    return "ends in LF, but the header ends in CR LF"


def parse_line(line: bytes, *, examples: int, suffix_length: int, vocabulary: int) -> list[int] | str:
    """Return the example id and tokens of a row without its line end, or a clause that describes its fault."""
    if not line.strip():
        return "expected a row, found an empty line"
    example, comma, rest = line.partition(b",")
    if not comma:
        return f"expected 2 columns, found 1: {quoted_start(line)}"
    if not _PLAIN.fullmatch(example):
        return f"the example id {quoted_start(example)} is not a plain integer"
    if len(example) > _MAX_DIGITS or int(example) >= examples:
        return f"the example id {quoted_start(example)} is not in 0..{examples - 1}"
    tokens = _parse_list(rest)
    if isinstance(tokens, str):
        return tokens
    for token in tokens:
        if not _PLAIN.fullmatch(token):
            return f"the token {quoted_start(token)} is not a plain integer"
    if len(tokens) != suffix_length:
        return f"expected a suffix of {pluralize(suffix_length, 'token')}, found {len(tokens)}"
    for token in tokens:
        if len(token) > _MAX_DIGITS or int(token) >= vocabulary:
            return f"the token {quoted_start(token)} is not in 0..{vocabulary - 1}"
    return [int(example), *map(int, tokens)]


def quoted_start(text: bytes) -> str:
    """Return the start of a line for printing: shortened, quoted, and with unprintable bytes escaped."""
    return shorten(repr(text[:60].decode("utf-8", "backslashreplace") + ("…" if len(text) > 60 else "")), 80)


def _parse_list(column: bytes) -> list[bytes] | str:
    """Return the cells of a quoted `"[…]"`, or a clause that describes its fault."""
    if not column.startswith(b'"'):
        if column.lstrip(b" ").startswith(b'"'):
            return 'spaces before the suffix: expected a row such as 8,"[3,6,9]"'
        columns = 2 + column.count(b",")
        if columns > 2:
            return f"expected 2 columns with the suffix in quotes, found {columns}: {quoted_start(column)}"
        return f'the suffix {quoted_start(column)} is not a quoted list such as "[1,2,3]"'
    inner, quote, rest = column[1:].partition(b'"')
    if not quote:
        return f"the closing quote is missing: {quoted_start(column)}"
    if rest.startswith(b","):
        return f"expected 2 columns, found {2 + rest.count(b',')}: {quoted_start(rest)} follows the suffix"
    if rest:
        return f"{quoted_start(rest)} follows the closing quote"
    if not (len(inner) >= 2 and inner.startswith(b"[") and inner.endswith(b"]")):
        return f'the suffix {quoted_start(column)} is not a quoted list such as "[1,2,3]"'
    if not inner[1:-1].strip():
        return []
    first, *others = inner[1:-1].split(b",")
    return [first, *(cell.lstrip(b" ") for cell in others)]
