"""Mangled submissions read twice: by the validator, and as the organizers' scripts read them.

Where their reading accepts a file under the round's rules and the file is in the official layout, ours accepts it, with
the same rows and the same recall at 100 errors. Whatever their reading refuses, ours refuses. Ours is nowhere laxer,
and stricter where it says so, since each of these is how a submission goes wrong without a word:

- numbers other than plain digits (signs, spaces around them, underscores, leading zeros, digits of other scripts):
  readers other than Python's `int` take them for something else, or for nothing;
- brackets that are none, quotes around an id or missing around a suffix, further columns, columns in another order, a
  header that is quoted: the scripts throw away what they do not look at, which may have been the point;
- blank lines, lines of different ends, ends of CR alone, line breaks inside quotes: line numbers would no longer say
  where a fault is;
- a file without the header, which the scripts take for a submission of no rows if it has but one line;
- lines longer than any row can be (a token followed by four thousand spaces), so that memory is bounded;
- NUL bytes, wherever they are.

Every refusal is a sentence: one line, printable, shorter than 200 characters, with a line of the file.
"""

import random
import re
import resource
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.arrays import token_dtype
from harness.core.scoring import correct_rows, recall_at_errors
from harness.core.submission_reader import (
    MAX_FAULTS,
    SubmissionFault,
    SubmissionRules,
    read_submission,
    submission_faults,
)
from tests.soak import official
from tests.soak.laws import Violation
from tests.soak.mutations import Seed, mutated, seed_of

_LONGEST_SENTENCE = 200
_SLOWEST_SECONDS = 5.0
_NUMBER = rb"(?:0|[1-9][0-9]*)"
_ROW = re.compile(rb"%b,\"\[%b(?:, *%b)*\]\"" % (_NUMBER, _NUMBER, _NUMBER))
_HEADER = b"Example ID,Suffix Guess"
_STRICTNESS = {
    "not a plain integer": "a number that is no plain digits",
    "is not in 0..": "a number that is no plain digits",
    "is not a quoted list": "brackets or quotes of another kind",
    "follows the closing quote": "brackets or quotes of another kind",
    "the closing quote is missing": "a line break inside quotes",
    "expected 2 columns, found 1:": "a line break inside quotes",
    "expected 2 columns": "further columns",
    "expected a row, found an empty line": "a blank line",
    "ends in": "lines of different ends",
    "expected the header": "another header, or none",
    "starts with a byte order mark": "another header, or none",
    "longer than any row": "a line longer than any row",
    "binary data": "a NUL byte",
    "expected a suffix": "brackets or quotes of another kind",
}


def checked_files(count: int, *, seed: int, place: Path) -> dict[str, Any]:
    """Read `count` files made from `seed`; how many were what. Raises Violation, and leaves the file at `place`."""
    place.mkdir(parents=True, exist_ok=True)
    verdicts: Counter[str] = Counter()
    stricter: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    slowest = 0.0
    before = _memory()
    for number in range(count):
        chance = random.Random(f"{seed}/{number}")
        submission = seed_of(chance)
        kind, content = mutated(submission, chance)
        path = place / f"{number}.csv"
        path.write_bytes(content)
        began = time.monotonic()
        verdict, why = _verdict(path, content, submission)
        slowest = max(slowest, time.monotonic() - began)
        if slowest > _SLOWEST_SECONDS:
            raise Violation(f"{path}: took {slowest:.1f} s to read")
        verdicts[verdict] += 1
        kinds[kind] += 1
        if why is not None:
            stricter[why] += 1
        path.unlink()
    return {
        "files": count,
        "verdicts": dict(verdicts),
        "ours_is_stricter": dict(stricter.most_common()),
        "by_mutation": dict(sorted(kinds.items())),
        "slowest_s": round(slowest, 3),
        "memory_grew_mib": round(_memory() - before),
    }


def _verdict(path: Path, content: bytes, seed: Seed) -> tuple[str, str | None]:
    """What both readings say, and the strictness that keeps out what only theirs accepts. Raises Violation."""
    theirs: list[official.Row] | None
    try:
        theirs = official.rows_of(path, seed.rules)
    except official.Refused:
        theirs = None
    faults = submission_faults(path, seed.rules)
    fault = _first_fault(path, seed.rules)
    if (fault is None) != (not faults) or (fault is not None and str(fault) != str(faults[0])):
        raise Violation(f"{path}: reading it says {fault}, listing its faults {faults[:1]}")
    for told in faults:
        _must_be_a_sentence(path, content, told)
    if len(faults) > MAX_FAULTS:
        raise Violation(f"{path}: {len(faults)} faults are told")
    if theirs is None:
        if not faults:
            raise Violation(f"{path}: accepted, and the organizers' scripts refuse it")
        return "refused by both", None
    if faults:
        if _is_plain(content, seed.rules):
            raise Violation(
                f"{path}: the organizers' scripts accept it, its layout is official, and ours says {faults[0]}"
            )
        return "refused by ours alone, as it says", _strictness(path, faults[0])
    _must_agree(path, theirs, seed)
    return "accepted by both, with the same rows and recall", None


def _first_fault(path: Path, rules: SubmissionRules) -> SubmissionFault | None:
    try:
        read_submission(path, rules)
    except SubmissionFault as fault:
        return fault
    return None


def _must_agree(path: Path, theirs: list[official.Row], seed: Seed) -> None:
    rows = read_submission(path, seed.rules)
    if [official.Row(e, tuple(s)) for e, s in zip(rows.ids.tolist(), rows.suffixes.tolist(), strict=True)] != theirs:
        raise Violation(f"{path}: its rows are read differently")
    answers = np.array(seed.answers, token_dtype(seed.rules.vocabulary))
    is_correct = correct_rows(rows.ids, rows.suffixes, answers)
    ours = recall_at_errors(is_correct, rows.ids, cap=official.ERRORS, examples=len(answers))
    if ours != official.recall_at_100_errors(theirs, seed.answers):
        raise Violation(f"{path}: recall {ours} where the organizers' walk gives another")


def _must_be_a_sentence(path: Path, content: bytes, fault: SubmissionFault) -> None:
    text = str(fault)
    lines = content.count(b"\n") + 1
    if not (text.isprintable() and len(text) < _LONGEST_SENTENCE and text.endswith(".") and 1 <= fault.line <= lines):
        raise Violation(f"{path}: refused with {text!r}, of line {fault.line} of {lines}")


def _is_plain(content: bytes, rules: SubmissionRules) -> bool:
    """The official layout: its header, rows in double quotes and brackets of plain numbers, lines that end alike."""
    end = b"\r\n" if content.partition(b"\n")[0].endswith(b"\r") else b"\n"
    header, *rows = content.removesuffix(end).split(end)
    if end == b"\r\n" and rows:
        rows[-1] = rows[-1].removesuffix(b"\r")
    longest = 64 + 16 * rules.suffix_length - len(end)
    return header == _HEADER and all(_ROW.fullmatch(row) is not None and len(row) <= longest for row in rows)


def _strictness(path: Path, fault: SubmissionFault) -> str:
    for words, name in _STRICTNESS.items():
        if words in fault.what:
            return name
    raise Violation(f"{path}: refused by ours alone, for a reason that is none of those given: {fault}")


def _memory() -> float:
    """The most memory that this process ever held, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
