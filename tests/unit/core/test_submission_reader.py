"""The strict reader returns all rows of a valid submission and reports the faults of an invalid one by line."""

import csv
import io
import resource
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.core import submission_reader
from harness.core.errors import HarnessError
from harness.core.submission import write_submission
from harness.core.submission_reader import (
    SubmissionFault,
    SubmissionRules,
    read_submission,
    submission_faults,
    vocabulary_of,
)

HEADER = b"Example ID,Suffix Guess\n"
RULES = SubmissionRules(examples=10, suffix_length=3, vocabulary=100, row_cap=5)
GOOD = b'7,"[1,2,3]"'


@pytest.fixture
def read(tmp_path: Path):
    def read_content(content: bytes, rules: SubmissionRules = RULES):
        path = tmp_path / "guesses.csv"
        path.write_bytes(content)
        return read_submission(path, rules)

    return read_content


@pytest.fixture
def faults(tmp_path: Path):
    def find_faults(content: bytes, rules: SubmissionRules = RULES, **options):
        path = tmp_path / "guesses.csv"
        path.write_bytes(content)
        return submission_faults(path, rules, **options)

    return find_faults


FAULTY_ROWS = {
    "no comma": (b"7", "expected 2 columns, found 1"),
    "three columns": (b'7,"[1,2,3]",9', "expected 2 columns, found 3"),
    "unquoted list": (b"7,[1,2,3]", "expected 2 columns with the suffix in quotes, found 4"),
    "unquoted token": (b"7,5", "not a quoted list"),
    "space before the quote": (b'7, "[1,2,3]"', 'spaces before the suffix: expected a row such as 8,"[3,6,9]"'),
    "text after the quote": (b'7,"[1,2,3]"x', "follows the closing quote"),
    "no brackets": (b'7,"1,2,3"', "not a quoted list"),
    "open quote": (b'7,"[1,2,3]', "the closing quote is missing"),
    "word as id": (b'seven,"[1,2,3]"', "example id 'seven' is not a plain integer"),
    "NaN as id": (b'nan,"[1,2,3]"', "example id 'nan' is not a plain integer"),
    "decimal id": (b'7.0,"[1,2,3]"', "'7.0' is not a plain integer"),
    "signed id": (b'+7,"[1,2,3]"', "'+7' is not a plain integer"),
    "negative id": (b'-1,"[1,2,3]"', "'-1' is not a plain integer"),
    "padded id": (b'07,"[1,2,3]"', "'07' is not a plain integer"),
    "blank id": (b',"[1,2,3]"', "'' is not a plain integer"),
    "id out of range": (b'10,"[1,2,3]"', "example id '10' is not in 0..9"),
    "huge id": (b"9" * 30 + b',"[1,2,3]"', "is not in 0..9"),
    "short suffix": (b'7,"[1,2]"', "expected a suffix of 3 tokens, found 2"),
    "long suffix": (b'7,"[1,2,3,4]"', "expected a suffix of 3 tokens, found 4"),
    "one token": (b'7,"[1]"', "expected a suffix of 3 tokens, found 1"),
    "empty suffix": (b'7,"[]"', "expected a suffix of 3 tokens, found 0"),
    "token out of the vocabulary": (b'7,"[1,100,3]"', "token '100' is not in 0..99"),
    "huge token": (b'7,"[1,1000000000000000000000000000000,3]"', "is not in 0..99"),
    "numpy scalar": (b'7,"[1,np.int64(3),3]"', "token 'np.int64(3)' is not a plain integer"),
    "NaN token": (b'7,"[1,nan,3]"', "token 'nan' is not a plain integer"),
    "underscore": (b'7,"[1,1_0,3]"', "token '1_0' is not a plain integer"),
    "signed token": (b'7,"[1,+5,3]"', "token '+5' is not a plain integer"),
    "minus zero": (b'7,"[1,-0,3]"', "token '-0' is not a plain integer"),
    "leading zero": (b'7,"[1,02,3]"', "token '02' is not a plain integer"),
    "full-width digit": ('7,"[1,５,3]"'.encode(), "token '５' is not a plain integer"),
    "no token between commas": (b'7,"[1,,3]"', "token '' is not a plain integer"),
    "trailing comma": (b'7,"[1,2,3,]"', "token '' is not a plain integer"),
    "spaces in place of commas": (b'7,"[1 2 3]"', "token '1 2 3' is not a plain integer"),
    "space before a comma": (b'7,"[1 ,2,3]"', "token '1 ' is not a plain integer"),
    "tab after a comma": (b'7,"[1,\t2,3]"', r"token '\t2' is not a plain integer"),
    "empty line": (b"", "expected a row, found an empty line"),
    "blank line": (b"   ", "expected a row, found an empty line"),
    "CR LF after LF": (b'7,"[1,2,3]"\r', "ends in CR LF, but the header ends in LF"),
    "binary": (b"\x00\x01\x02", "expected CSV text, found binary data"),
    "code": (b"7,\"[__import__('os').getpid(),2,3]\"", "is not a plain integer"),
    "endless cells": (b'7,"[1,' + b" " * 200 + b'2,3]"', "longer than any row"),
}


@pytest.mark.parametrize("name", FAULTY_ROWS)
def test_a_faulty_row_is_reported_with_line_and_text(name, read):
    row, what = FAULTY_ROWS[name]
    with pytest.raises(SubmissionFault) as raised:
        read(HEADER + GOOD + b"\n" + row + b"\n" + GOOD + b"\n")
    assert raised.value.line == 3
    assert str(raised.value).startswith("guesses.csv, line 3: ")
    assert what in str(raised.value)
    assert len(str(raised.value)) < 200
    assert str(raised.value).isprintable()


@pytest.mark.parametrize(
    ("header", "what"),
    [
        (b"", "an empty file"),
        (b"\n", "found an empty line"),
        (b"Example,Suffix\n", "found 'Example,Suffix'"),
        (
            b"Example ID, Suffix Guess\n",
            "'Example ID,Suffix Guess', without spaces around the comma, found 'Example ID, Suffix",
        ),
        (b"\xef\xbb\xbf" + HEADER, "a byte order mark"),
        (b"PK\x03\x04\x00\x00rubbish", "binary data"),
        (HEADER.decode().encode("utf-16"), "binary data"),
        (b"\xff\xfe\xfd\n", "found"),
    ],
)
def test_a_wrong_header_is_a_fault_of_line_1(header, what, read):
    with pytest.raises(SubmissionFault, match=what) as raised:
        read(header)
    assert raised.value.line == 1


def test_a_header_alone_is_an_empty_submission(read):
    rows = read(HEADER)
    assert rows.ids.shape == (0,)
    assert rows.suffixes.shape == (0, 3)
    assert len(read(HEADER[:-1]).ids) == 0


def test_spaces_after_commas_and_a_missing_last_line_end_are_accepted(read):
    rows = read(HEADER + b'8,"[3, 6,   9]"\n0,"[0,0,99]"')
    assert rows.ids.tolist() == [8, 0]
    assert rows.suffixes.tolist() == [[3, 6, 9], [0, 0, 99]]
    assert rows.suffixes.dtype == np.uint16


@pytest.mark.parametrize("end", [b"\r\n", b"\r", b""])
def test_crlf_line_ends_are_accepted(end, read):
    rows = read(HEADER.strip() + b"\r\n" + GOOD + b"\r\n" + GOOD + end)
    assert rows.ids.tolist() == [7, 7]


def test_a_bare_lf_in_a_crlf_file_is_a_fault(read):
    with pytest.raises(SubmissionFault, match="line 3: ends in LF, but the header ends in CR LF"):
        read(HEADER.strip() + b"\r\n" + GOOD + b"\r\n" + GOOD + b"\n" + GOOD + b"\r\n")


def test_one_row_beyond_the_cap_is_a_fault_and_no_more_is_read(read, faults, monkeypatch):
    monkeypatch.setattr(submission_reader, "_BLOCK_BYTES", 16)
    assert len(read(HEADER + 5 * (GOOD + b"\n")).ids) == 5
    assert [fault.line for fault in faults(HEADER + 9 * (GOOD + b"\n"))] == [7]


def test_faults_are_listed_by_line_up_to_the_limit(faults):
    rules = SubmissionRules(examples=10, suffix_length=3, vocabulary=100)
    content = HEADER + (GOOD + b"\n" + b"bad\n") * 30
    found = faults(content, rules)
    assert [fault.line for fault in found] == list(range(3, 43, 2))
    assert len(faults(content, rules, limit=3)) == 3
    assert faults(HEADER + GOOD, rules) == []


def test_a_wrong_header_does_not_hide_faulty_rows(faults):
    assert [fault.line for fault in faults(b"id,guess\n" + GOOD + b"\nbad\n")] == [1, 3]


def test_faults_in_later_blocks_keep_their_line_numbers(read, monkeypatch):
    monkeypatch.setattr(submission_reader, "_BLOCK_BYTES", 64)
    rules = SubmissionRules(examples=10, suffix_length=3, vocabulary=100)
    rows = read(HEADER + 500 * (GOOD + b"\n"), rules)
    assert len(rows.ids) == 500
    with pytest.raises(SubmissionFault, match="line 402"):
        read(HEADER + 400 * (GOOD + b"\n") + b"x\n" + 100 * (GOOD + b"\n"), rules)


@pytest.mark.parametrize("start", [b"", HEADER, HEADER + GOOD + b"\n"])
def test_an_endless_line_is_refused_without_reading_it(start, tmp_path: Path):
    path = tmp_path / "endless.csv"
    with path.open("wb") as file:
        file.write(start + b'7,"[1,')
        file.truncate(1 << 30)  # a sparse file: a gigabyte that takes no disk space
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(SubmissionFault) as raised:
        read_submission(path, RULES)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 100 * 1024  # KiB
    assert raised.value.line == start.count(b"\n") + 1


def test_an_endless_line_of_text_is_one_fault(faults):
    (fault,) = faults(HEADER + b'7,"[' + b"1," * 5_000_000)
    assert "line 2: longer than any row" in str(fault)


@pytest.mark.parametrize("place", ["absent.csv", "."])
def test_an_unreadable_file_is_named(place, tmp_path: Path):
    with pytest.raises(HarnessError, match=r"no such file|cannot be read"):
        read_submission(tmp_path / place, RULES)


def test_tokens_of_a_large_vocabulary_keep_their_value(read):
    rules = SubmissionRules(examples=10, suffix_length=3, vocabulary=1 << 32)
    assert read(HEADER + b'7,"[4294967295,65536,0]"\n', rules).suffixes.tolist() == [[4294967295, 65536, 0]]
    with pytest.raises(SubmissionFault, match="4294967296"):
        read(HEADER + b'7,"[4294967296,65536,0]"\n', rules)


def test_the_vocabulary_of_answers_is_gpt2_or_the_largest():
    assert vocabulary_of(np.array([[0, 50256]])) == 50257
    assert vocabulary_of(np.array([[0, 50257]])) == 1 << 32


@given(
    st.integers(1, 4).flatmap(
        lambda length: st.lists(
            st.tuples(st.integers(0, 999), st.lists(st.integers(0, 50256), min_size=length, max_size=length)),
            min_size=1,
            max_size=20,
        )
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_written_rows_are_read_back(tmp_path: Path, rows):
    ids = np.array([example for example, _ in rows])
    suffixes = np.array([tokens for _, tokens in rows], np.uint16)
    path = tmp_path / "written.csv"
    write_submission(path, ids, suffixes)
    found = read_submission(path, SubmissionRules(1000, suffixes.shape[1], 50257))
    assert found.ids.tolist() == ids.tolist()
    assert found.suffixes.tolist() == suffixes.tolist()


PIECES = st.sampled_from(
    [
        b"0",
        b"7",
        b"10",
        b"99",
        b"007",
        b",",
        b'"',
        b"[",
        b"]",
        b" ",
        b"\n",
        b"\r",
        b"\r\n",
        b"\0",
        b"-",
        b"\xff",
        b"nan",
    ]
    + [GOOD, GOOD + b"\n", b'3,"[0, 10,99]"\n', GOOD + b"\r\n"] * 3
)


@given(st.sampled_from([HEADER, HEADER, HEADER.strip() + b"\r\n", b""]), st.lists(PIECES, max_size=12).map(b"".join))
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_refused_or_read_like_the_csv_module(tmp_path: Path, header, body):
    path = tmp_path / "fuzzed.csv"
    path.write_bytes(header + body)
    faults = submission_faults(path, RULES)
    try:
        rows = read_submission(path, RULES)
    except SubmissionFault as fault:
        assert faults[0].line == fault.line
        return
    assert faults == []
    table = list(csv.DictReader(io.StringIO((header + body).decode(), newline="")))
    assert rows.ids.tolist() == [int(row["Example ID"]) for row in table]
    assert rows.suffixes.tolist() == [list(map(int, row["Suffix Guess"][1:-1].split(","))) for row in table]


@given(st.lists(st.sampled_from([*(row for row, _ in FAULTY_ROWS.values()), GOOD, b'3,"[0, 10,99]"']), max_size=5))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_lines_have_the_same_faults_together_and_alone(tmp_path: Path, lines):
    path = tmp_path / "mixed.csv"
    found = []
    for number, line in enumerate(lines, 2):
        path.write_bytes(HEADER + line + b"\n")
        if submission_faults(path, RULES):
            found.append(number)
            if b"\0" in line:
                break
    path.write_bytes(HEADER + b"".join(line + b"\n" for line in lines))
    assert [fault.line for fault in submission_faults(path, RULES)] == found
