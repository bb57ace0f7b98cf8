"""Read an untrusted submission CSV: return all of its rows, or each fault with its line.

A row is `ID,"[T,T,…,T]"`. A number is plain ASCII digits without sign, underscore or leading zero. Spaces may follow
the commas inside the list and are allowed nowhere else. All lines end like the first one, in LF or in CR LF (which
Python's `csv.writer` writes, as in the official baseline and example); the last line may lack its end. Python's csv
module and `int`, which the scorer of the organizers uses, read every accepted file in the same way. They also accept
some files that are refused here.

A pattern is the grammar of a row, numpy reads the numbers of the lines that match, and `line_fault` names the fault of
one that does not. With them reading, checking and scoring 100,000 rows takes 0.28 of the time of the official csv
loop, and with the csv module and `int` as long as that loop (`python -m tests.bench.scorer`; the bar is 1/2).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from harness.core.arrays import Ints, Tokens, token_dtype
from harness.core.errors import HarnessError
from harness.core.files import file_errors, open_regular
from harness.core.submission import HEADER
from harness.core.text import pluralize, shorten

_PLAIN = re.compile(rb"0|[1-9][0-9]*")
_MAX_DIGITS = 10  # of a number below 2^32
_BLOCK_BYTES = 1 << 20
_GPT2_VOCABULARY = 50257
MAX_FAULTS = 20


class SubmissionRows(NamedTuple):
    """Rows of a submission, in its order. ids: [rows] int64; suffixes: [rows, suffix length] of an integer type."""

    ids: Ints
    suffixes: Tokens


@dataclass(frozen=True)
class SubmissionRules:
    """The limits of a submission: ids in 0..examples-1, and suffixes of `suffix_length` tokens below `vocabulary`."""

    examples: int
    suffix_length: int
    vocabulary: int
    row_cap: int = 100_000


def vocabulary_of(answers: Tokens) -> int:
    """Return the vocabulary of a file of answers: that of GPT-2, or the largest one if a token is not in GPT-2's."""
    return _GPT2_VOCABULARY if int(answers.max(initial=0)) < _GPT2_VOCABULARY else 1 << 32


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
    stripped = line.strip()
    if stripped.replace(b" ", b"") == HEADER.strip().replace(b" ", b""):
        expected += ", without spaces around the comma"
    return f"{expected}, found {quoted_start(stripped) if stripped else 'an empty line'}"


def row_pattern(suffix_length: int, line_end: bytes) -> re.Pattern[bytes]:
    """Return the pattern of a line, cut before its LF, whose numbers have at most ten digits."""
    number = rb"(?:0|[1-9][0-9]{0,%d})" % (_MAX_DIGITS - 1)
    suffix = number + rb"(?:, *%b){%d}" % (number, suffix_length - 1)
    return re.compile(number + rb',"\[' + suffix + rb'\]"' + re.escape(line_end.removesuffix(b"\n")))


def line_fault(line: bytes, rules: SubmissionRules, line_end: bytes) -> str | None:
    """Return a clause that describes the fault of a row without its LF, or None; lines end in `line_end`."""
    longest = longest_line(rules.suffix_length)
    if b"\0" in line[:longest]:
        return f"expected CSV text, found binary data: {quoted_start(line)}"
    if len(line) >= longest:
        return f"longer than any row ({longest:,} bytes): {quoted_start(line)}"
    if line.endswith(b"\r") != (line_end == b"\r\n"):
        ends = ("CR LF", "LF") if line_end == b"\n" else ("LF", "CR LF")
        return f"ends in {ends[0]}, but the header ends in {ends[1]}"
    line = line.removesuffix(b"\r")
    if not line.strip():
        return "expected a row, found an empty line"
    example, comma, rest = line.partition(b",")
    if not comma:
        return f"expected 2 columns, found 1: {quoted_start(line)}"
    if not _PLAIN.fullmatch(example):
        return f"the example id {quoted_start(example)} is not a plain integer"
    if len(example) > _MAX_DIGITS or int(example) >= rules.examples:
        return f"the example id {quoted_start(example)} is not in 0..{rules.examples - 1}"
    tokens = _parse_list(rest)
    if isinstance(tokens, str):
        return tokens
    for token in tokens:
        if not _PLAIN.fullmatch(token):
            return f"the token {quoted_start(token)} is not a plain integer"
    if len(tokens) != rules.suffix_length:
        return f"expected a suffix of {pluralize(rules.suffix_length, 'token')}, found {len(tokens)}"
    for token in tokens:
        if len(token) > _MAX_DIGITS or int(token) >= rules.vocabulary:
            return f"the token {quoted_start(token)} is not in 0..{rules.vocabulary - 1}"
    return None


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
    first, *further = inner[1:-1].split(b",")
    return [first, *(cell.lstrip(b" ") for cell in further)]


class SubmissionFault(HarnessError):
    """A fault in one line of a submission. `line` counts from 1, which is the header."""

    def __init__(self, name: str, line: int, fault: str) -> None:
        super().__init__(f"{name}, line {line}: {fault}.")
        self.line = line
        self.fault = fault


def read_submission(path: Path, rules: SubmissionRules) -> SubmissionRows:
    """Return the rows of the submission at `path`. A file with only a header has no rows.

    The memory used is bounded by the rules, even for a file that breaks them. Raises SubmissionFault for the first
    fault, and HarnessError if the file cannot be read.
    """
    parts: list[SubmissionRows] = []
    for part in _parts(path, rules):
        if isinstance(part, SubmissionFault):
            raise part
        parts.append(part)
    dtype = token_dtype(rules.vocabulary)
    return SubmissionRows(
        np.concatenate([np.empty(0, np.int64), *(part.ids for part in parts)]),
        np.concatenate([np.empty((0, rules.suffix_length), dtype), *(part.suffixes for part in parts)]),
    )


def submission_faults(path: Path, rules: SubmissionRules, limit: int = MAX_FAULTS) -> list[SubmissionFault]:
    """Return the first `limit` faults of the submission at `path`, at most one per line.

    Reading ends early at a fault that makes the rest pointless: binary content, an endless line, one row too many.
    Raises HarnessError if the file cannot be read.
    """
    return list(islice((part for part in _parts(path, rules) if isinstance(part, SubmissionFault)), limit))


def _parts(path: Path, rules: SubmissionRules) -> Iterator[SubmissionRows | SubmissionFault]:
    """Yield the rows of the file, block by block, and its faults, in the order of their lines."""
    longest = longest_line(rules.suffix_length)
    with file_errors(path), open_regular(path) as file:
        block = rest = file.readline(longest)
        if (fault := header_fault(block)) is not None:
            yield SubmissionFault(path.name, 1, fault)
        line, line_end = 2, b"\r\n" if block.endswith(b"\r\n") else b"\n"
        # What follows binary content, an endless line or one row too many is not read.
        while b"\0" not in block and len(rest.removesuffix(b"\n")) < longest and line - 2 <= rules.row_cap:
            block = file.read(_BLOCK_BYTES)
            rest = file.readline(longest)
            block += rest
            if not block:
                return
            if not block.endswith(b"\n"):
                block = block.removesuffix(b"\r") + line_end
            lines = block[:-1].split(b"\n")
            yield from _parts_of_block(lines, path.name, line, rules, line_end)
            line += len(lines)


def _parts_of_block(
    lines: list[bytes], name: str, first_line: int, rules: SubmissionRules, line_end: bytes
) -> Iterator[SubmissionRows | SubmissionFault]:
    """Yield the rows or the faults of lines without their LF, the first of which is line `first_line`."""
    room = rules.row_cap - (first_line - 2)
    longest, pattern = longest_line(rules.suffix_length), row_pattern(rules.suffix_length, line_end)
    rows = [line for line in lines[:room] if len(line) < longest and pattern.fullmatch(line)]
    cells = b",".join(rows).translate(None, b'"[] \r')
    numbers = np.fromstring(cells or b"0", np.int64, sep=",")[: len(rows) * (1 + rules.suffix_length)]
    numbers = numbers.reshape(len(rows), 1 + rules.suffix_length)
    numbers = numbers[(numbers[:, 0] < rules.examples) & (numbers[:, 1:] < rules.vocabulary).all(1)]
    yield SubmissionRows(numbers[:, 0], numbers[:, 1:].astype(token_dtype(rules.vocabulary)))
    if not (left := len(lines) - len(numbers)):
        return
    for number, text in enumerate(lines, first_line):
        if number - first_line >= room:
            yield SubmissionFault(name, number, f"a row beyond the {rules.row_cap:,} that a submission may have")
            return
        if (fault := line_fault(text, rules, line_end)) is not None:
            yield SubmissionFault(name, number, fault)
            left -= 1
        if b"\0" in text:
            return
    assert not left, "a row is neither read nor refused"
