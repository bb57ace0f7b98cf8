"""The order of a submission and its CSV format."""

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from harness.core import submission
from harness.core.submission import current_rows, submission_bytes, submission_order, write_submission

SCORES = st.sampled_from([-np.inf, -1.5, -0.0, 0.0, 2.0, np.inf])
GUESSES = st.lists(
    st.tuples(st.integers(0, 3), st.tuples(st.integers(0, 2), st.integers(0, 2)), SCORES), min_size=0, max_size=30
)


def columns(guesses):
    ids = np.array([example for example, _, _ in guesses], np.int64)
    suffixes = np.array([suffix for _, suffix, _ in guesses], np.uint16).reshape(len(guesses), 2)
    scores = np.array([score for _, _, score in guesses], np.float64)
    return ids, suffixes, scores


def submitted_by_hand(guesses, per_example, row_cap):
    """Return the submission by its definition: (example, suffix) pairs in submission order."""
    last_score = {}
    for example, suffix, score in guesses:
        last_score[example, suffix] = score
    ordered = sorted(last_score, key=lambda guess: (-last_score[guess], *guess))
    kept, counts = [], {}
    for example, suffix in ordered:
        counts[example] = counts.get(example, 0) + 1
        if per_example == 0 or counts[example] <= per_example:
            kept.append((example, suffix))
    return kept[:row_cap]


def submitted(guesses, per_example, row_cap):
    ids, suffixes, scores = columns(guesses)
    rows = submission_order(ids, suffixes, scores, per_example=per_example, row_cap=row_cap)
    return [(int(ids[row]), tuple(map(int, suffixes[row]))) for row in rows]


@given(GUESSES, st.integers(0, 3), st.integers(0, 12))
def test_the_order_follows_its_definition(guesses, per_example, row_cap):
    assert submitted(guesses, per_example, row_cap) == submitted_by_hand(guesses, per_example, row_cap)


def test_guesses_with_equal_fingerprints_stay_distinct(monkeypatch):
    monkeypatch.setattr(submission, "_MULTIPLIER", np.uint64(0))
    ids = np.array([1, 2, 1, 2, 1])
    suffixes = np.array([[5, 7], [5, 7], [6, 7], [5, 7], [6, 7]], np.uint16)
    assert current_rows(ids, suffixes).tolist() == [0, 3, 4]


def test_suffixes_are_ordered_token_by_token():
    suffixes = np.array([[256, 0], [255, 9], [9, 300], [9, 45]], np.uint16)
    order = submission_order(np.zeros(4, np.int64), suffixes, np.zeros(4), per_example=0)
    assert order.tolist() == [3, 2, 1, 0]


@given(
    st.integers(1, 4).flatmap(
        lambda length: st.lists(
            st.tuples(st.integers(0, 10**6), st.lists(st.integers(0, 2**32 - 1), min_size=length, max_size=length)),
            max_size=8,
        )
    )
)
def test_numbers_of_any_size_are_written_as_plain_decimals(rows):
    length = len(rows[0][1]) if rows else 1
    content = submission_bytes(
        np.array([example for example, _ in rows], np.int64),
        np.array([tokens for _, tokens in rows], np.uint32).reshape(len(rows), length),
    )
    lines = [f'{example},"[{",".join(map(str, tokens))}]"\n' for example, tokens in rows]
    assert content.decode() == "Example ID,Suffix Guess\n" + "".join(lines)


def test_an_existing_file_is_replaced_without_a_temporary_file_left(tmp_path: Path):
    path = tmp_path / "submission.csv"
    path.write_text("older")
    write_submission(path, np.array([3]), np.array([[4]], np.uint16))
    assert path.read_bytes() == b'Example ID,Suffix Guess\n3,"[4]"\n'
    assert list(tmp_path.iterdir()) == [path]
