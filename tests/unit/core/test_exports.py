"""CSV files for people are safe to print and to open, and redacted texts identify equal texts."""

import csv
import hashlib
import io
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.exports import csv_cell, redact_suffix, write_rows
from tests.functional.machine import ROOT

OTHER_WRITERS = {
    "core/exports.py": "writes the CSV files for people",
    "submit/wheel.py": "writes RECORD, which an installer reads",
}
HOSTILE = st.text() | st.text(alphabet="=+-@ \t\r\n\v\f\0\x1b\x85\xa0\u200b\u202e\u2028\ufeff\uff1da1'\"\ud800")


def _read(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


@given(st.lists(st.lists(HOSTILE, min_size=1, max_size=4), max_size=4))
def test_no_cell_steers_a_terminal_or_is_a_formula(rows: list[list[str]]) -> None:
    write_rows(text := io.StringIO(newline=""), rows)
    text.getvalue().encode()
    assert all(character.isprintable() or character == "\n" for character in text.getvalue())
    assert text.getvalue().count("\n") == len(rows)
    for row, written in zip(rows, _read(text.getvalue()), strict=True):
        assert len(row) == len(written)
        assert not any(cell.lstrip(" \ufffd⏎⇥␍").startswith(("=", "+", "-", "@", "\uff1d")) for cell in written)


@pytest.mark.parametrize("text", ["=1", " =1", "\n=1", "\ufeff=1", "\t+1", "\u200b-1", "\xa0@x", "\uff1d1", "\0=1"])
def test_a_formula_is_quoted_whatever_precedes_it(text: str) -> None:
    assert csv_cell(text).startswith("'")


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("a b", "a b"),
        ("é", "é"),
        (None, ""),
        (True, "true"),
        (-1, "-1"),
        (0.1, "0.1"),
        ([1.5, "\x1b"], '[1.5, "\\u001b"]'),
    ],
)
def test_other_cells_are_unchanged(value: Any, cell: str) -> None:
    assert csv_cell(value) == cell


def test_every_csv_file_for_people_is_written_here() -> None:
    writers = {
        file.relative_to(ROOT / "harness").as_posix()
        for file in (ROOT / "harness").rglob("*.py")
        if re.search(r"csv\.(writer|DictWriter)\(|\.to_csv\(", file.read_text(encoding="utf-8"))
    }
    assert writers == set(OTHER_WRITERS)


def test_the_hash_covers_the_stored_bytes() -> None:
    expected = hashlib.sha256(b"\x01\x00\xff\x01").hexdigest()[:12]
    assert redact_suffix(np.array([1, 511], np.uint16), 50257) == f"2 tokens, sha256 {expected}"


def test_a_large_vocabulary_uses_four_bytes_per_token() -> None:
    expected = hashlib.sha256(b"\x01\x00\x00\x00\xff\x01\x00\x00").hexdigest()[:12]
    assert redact_suffix(np.array([1, 511], np.uint32), 1 << 17).endswith(expected)


@pytest.mark.parametrize("dtype", [np.int64, np.uint32, ">u2"])
def test_equal_suffixes_have_equal_redactions(dtype: object) -> None:
    tokens = [5, 300, 50256]
    assert redact_suffix(np.array(tokens, dtype), 50257) == redact_suffix(np.array(tokens, np.uint16), 50257)
