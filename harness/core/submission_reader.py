"""Read an untrusted submission CSV: return all of its rows, or each fault with its line.

A row is `ID,"[T,T,…,T]"`. A number is plain ASCII digits without sign, underscore or leading zero. Spaces may follow
the commas inside the list and are allowed nowhere else. All lines end like the first one, in LF or in CR LF (which
Python's `csv.writer` writes, as in the official baseline and example); the last line may lack its end. Python's csv
module and `int`, which the scorer of the organizers uses, read every accepted file in the same way. They also accept
some files that are refused here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO

import numpy as np

from harness.core.arrays import Tokens, token_dtype
from harness.core.errors import HarnessError
from harness.core.submission_block import SubmissionRows, parse_block
from harness.core.submission_line import header_fault, line_end_fault, longest_line, parse_line, quoted_start

_BLOCK_BYTES = 1 << 20
_GPT2_VOCABULARY = 50257
MAX_FAULTS = 20


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


class SubmissionFault(HarnessError):
    """A fault in one line of a submission. `line` counts from 1, which is the header."""

    def __init__(self, name: str, line: int, what: str) -> None:
        super().__init__(f"{name}, line {line}: {what}.")
        self.line = line
        self.what = what


def read_submission(path: Path, rules: SubmissionRules) -> SubmissionRows:
    """Return the rows of the submission at `path`. A file with only a header has no rows.

    The rules bound the memory used, whatever the file. Raises SubmissionFault for the first fault, and HarnessError if
    the file cannot be read.
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
    try:
        with path.open("rb") as file:
            yield from _parts_of(file, path.name, rules)
    except OSError as error:
        raise HarnessError(f"{path}: cannot be read ({error.strerror}).") from None


def _parts_of(file: IO[bytes], name: str, rules: SubmissionRules) -> Iterator[SubmissionRows | SubmissionFault]:
    longest = longest_line(rules.suffix_length)
    header = file.readline(longest)
    if (what := header_fault(header)) is not None:
        yield SubmissionFault(name, 1, what)
    if b"\0" in header:
        return
    if len(header) == longest and not header.endswith(b"\n"):
        return
    line_end = b"\r\n" if header.endswith(b"\r\n") else b"\n"
    line, unread = 2, b""
    while True:
        data = file.read(_BLOCK_BYTES)
        at_end = not data
        unread += data
        if at_end and unread:
            unread = unread.removesuffix(b"\r") + line_end
        whole = unread.rfind(b"\n") + 1
        block, unread = unread[:whole], unread[whole:]
        yield from _parts_of_block(block, name, line, rules, line_end)
        line += block.count(b"\n")
        # A row beyond the cap was already reported with its block.
        if at_end or b"\0" in block or line - 2 > rules.row_cap:
            return
        if len(unread) > longest or b"\0" in unread:
            yield SubmissionFault(name, line, _unreadable(unread, longest))
            return


def _parts_of_block(
    block: bytes, name: str, first_line: int, rules: SubmissionRules, line_end: bytes
) -> Iterator[SubmissionRows | SubmissionFault]:
    """Yield the rows or the faults of complete lines, the first of which is line `first_line`."""
    if not block:
        return
    room = rules.row_cap - (first_line - 2)
    rows = parse_block(block, rules.suffix_length, line_end)
    if rows is not None and len(rows.ids) <= room and _are_in_range(rows, rules):
        yield SubmissionRows(rows.ids, rows.suffixes.astype(token_dtype(rules.vocabulary)))
        return
    longest = longest_line(rules.suffix_length)
    found: list[list[int]] = []
    for number, text in enumerate(block[:-1].split(b"\n"), first_line):
        if number - first_line >= room:
            yield SubmissionFault(name, number, f"a row beyond the {rules.row_cap:,} that a submission may have")
            return
        if len(text) >= longest or b"\0" in text:
            yield SubmissionFault(name, number, _unreadable(text, longest))
            if b"\0" in text:
                return
            continue
        what = line_end_fault(text, line_end)
        row = what or parse_line(
            text.removesuffix(b"\r"),
            examples=rules.examples,
            suffix_length=rules.suffix_length,
            vocabulary=rules.vocabulary,
        )
        if isinstance(row, str):
            yield SubmissionFault(name, number, row)
        else:
            found.append(row)
    table = np.array(found, np.int64).reshape(len(found), 1 + rules.suffix_length)
    yield SubmissionRows(table[:, 0], table[:, 1:].astype(token_dtype(rules.vocabulary)))


def _are_in_range(rows: SubmissionRows, rules: SubmissionRules) -> bool:
    return bool(rows.ids.max(initial=0) < rules.examples and rows.suffixes.max(initial=0) < rules.vocabulary)


def _unreadable(text: bytes, longest: int) -> str:
    if b"\0" in text[:longest]:
        return f"expected CSV text, found binary data: {quoted_start(text)}"
    return f"longer than any row ({longest:,} bytes): {quoted_start(text)}"
