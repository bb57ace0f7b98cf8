"""Read mutated submissions with the validator and with the organizers' rules, and compare the results.

If the organizers' scripts accept a file in the official layout, the validator accepts it too, with the same rows and
the same Recall@100. The validator refuses everything that the scripts refuse. It also refuses the following, because
each would silently change or lose a submission:

- numbers other than plain digits (signs, surrounding spaces, underscores, leading zeros, digits of other scripts):
  readers other than Python's `int` read them differently or not at all;
- other brackets, quotes around an id or none around a suffix, further columns, another order of columns, a quoted
  header: the scripts ignore what they do not read;
- blank lines, mixed line ends, CR alone as line end, line breaks inside quotes: line numbers would be wrong;
- a missing header: the scripts read a file with one line as a submission without rows;
- lines longer than any row can be (such as a token followed by 4,000 spaces), so that memory is bounded;
- NUL bytes.

Every refusal is one printable line of less than 200 characters that names a line of the file.
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
from tests.soak.invariants import Violation
from tests.soak.mutations import Seed, mutate, random_seed

_MAX_MESSAGE_LENGTH = 200
_MAX_SECONDS = 5.0
_NUMBER = rb"(?:0|[1-9][0-9]*)"
_ROW = re.compile(rb"%b,\"\[%b(?:, *%b)*\]\"" % (_NUMBER, _NUMBER, _NUMBER))
_HEADER = b"Example ID,Suffix Guess"
_STRICTNESS = {
    "not a plain integer": "a number other than plain digits",
    "is not in 0..": "a number other than plain digits",
    "is not a quoted list": "other brackets or quotes",
    "follows the closing quote": "other brackets or quotes",
    "the closing quote is missing": "a line break inside quotes",
    "expected 2 columns, found 1:": "a line break inside quotes",
    "expected 2 columns": "further columns",
    "expected a row, found an empty line": "a blank line",
    "ends in": "mixed line ends",
    "expected the header": "another header, or none",
    "starts with a byte order mark": "another header, or none",
    "longer than any row": "a line longer than any row",
    "binary data": "a NUL byte",
    "expected a suffix": "other brackets or quotes",
}


def checked_files(count: int, *, seed: int, place: Path) -> dict[str, Any]:
    """Read `count` random files in `place`, and return counts of the results.

    Raises Violation if a file is not read as the module describes; that file is kept.
    """
    place.mkdir(parents=True, exist_ok=True)
    verdicts: Counter[str] = Counter()
    stricter: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    slowest = 0.0
    before = _peak_memory()
    for number in range(count):
        rng = random.Random(f"{seed}/{number}")
        submission = random_seed(rng)
        kind, content = mutate(submission, rng)
        path = place / f"{number}.csv"
        path.write_bytes(content)
        start = time.process_time()
        verdict, strictness = _compare(path, content, submission)
        slowest = max(slowest, time.process_time() - start)
        if slowest > _MAX_SECONDS:
            raise Violation(f"{path}: took {slowest:.1f} s of CPU time to read")
        verdicts[verdict] += 1
        kinds[kind] += 1
        if strictness is not None:
            stricter[strictness] += 1
        path.unlink()
    return {
        "files": count,
        "verdicts": dict(verdicts),
        "validator_is_stricter": dict(stricter.most_common()),
        "by_mutation": dict(sorted(kinds.items())),
        "slowest_s": round(slowest, 3),
        "memory_grew_mib": round(_peak_memory() - before),
    }


def _compare(path: Path, content: bytes, seed: Seed) -> tuple[str, str | None]:
    """Return the verdict of both readers, and why only the validator refuses the file. Raises Violation."""
    theirs: list[official.Row] | None
    try:
        theirs = official.rows_of(path, seed.rules)
    except official.Refused:
        theirs = None
    faults = submission_faults(path, seed.rules)
    fault = _first_fault(path, seed.rules)
    if (fault is None) != (not faults) or (fault is not None and str(fault) != str(faults[0])):
        raise Violation(f"{path}: read_submission raises {fault}, submission_faults returns {faults[:1]}")
    for one in faults:
        _check_message(path, content, one)
    if len(faults) > MAX_FAULTS:
        raise Violation(f"{path}: {len(faults)} faults, more than {MAX_FAULTS}")
    if theirs is None:
        if not faults:
            raise Violation(f"{path}: accepted, although the organizers' scripts refuse it")
        return "refused by both", None
    if faults:
        if _has_official_layout(content, seed.rules):
            raise Violation(f"{path}: refused in the official layout, although the scripts accept it: {faults[0]}")
        return "refused by the validator alone", _strictness(path, faults[0])
    _check_rows(path, theirs, seed)
    return "accepted by both, with the same rows and recall", None


def _first_fault(path: Path, rules: SubmissionRules) -> SubmissionFault | None:
    try:
        read_submission(path, rules)
    except SubmissionFault as fault:
        return fault
    return None


def _check_rows(path: Path, theirs: list[official.Row], seed: Seed) -> None:
    rows = read_submission(path, seed.rules)
    if [official.Row(e, tuple(s)) for e, s in zip(rows.ids.tolist(), rows.suffixes.tolist(), strict=True)] != theirs:
        raise Violation(f"{path}: the rows differ from those of the organizers' scripts")
    answers = np.array(seed.answers, token_dtype(seed.rules.vocabulary))
    is_correct = correct_rows(rows.ids, rows.suffixes, answers)
    ours = recall_at_errors(is_correct, rows.ids, cap=official.ERRORS, examples=len(answers))
    expected = official.recall_at_100_errors(theirs, seed.answers)
    if ours != expected:
        raise Violation(f"{path}: recall {ours}, but {expected} by the organizers' scripts")


def _check_message(path: Path, content: bytes, fault: SubmissionFault) -> None:
    text = str(fault)
    lines = content.count(b"\n") + 1
    if not (text.isprintable() and len(text) < _MAX_MESSAGE_LENGTH and text.endswith(".") and 1 <= fault.line <= lines):
        raise Violation(f"{path}: the message is {text!r}, for line {fault.line} of {lines}")


def _has_official_layout(content: bytes, rules: SubmissionRules) -> bool:
    """Return whether the file has the header, rows with quoted lists of plain numbers, and uniform line ends."""
    end = b"\r\n" if content.partition(b"\n")[0].endswith(b"\r") else b"\n"
    header, *rows = content.removesuffix(end).split(end)
    if end == b"\r\n" and rows:
        rows[-1] = rows[-1].removesuffix(b"\r")
    longest = 64 + 16 * rules.suffix_length - len(end)
    return header == _HEADER and all(_ROW.fullmatch(row) is not None and len(row) <= longest for row in rows)


def _strictness(path: Path, fault: SubmissionFault) -> str:
    for words, name in _STRICTNESS.items():
        if words in fault.fault:
            return name
    raise Violation(f"{path}: refused by the validator alone, for a reason that is not documented: {fault}")


def _peak_memory() -> float:
    """Return the peak resident memory of this process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
