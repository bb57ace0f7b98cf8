"""The rows of an audit's tables: frames preserve them, and invalid or forged columns are refused."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.core.errors import HarnessError
from harness.core.frames import Frame, FrameReader, encode_frame
from harness.core.rows import Kind, columns_from_frame, concatenate_rows, split_into_frames, table, validate_columns

TABLE = table("answer", item=Kind.INTEGER, mean=Kind.REAL, each=Kind.REALS, text=Kind.TEXT)
_ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=30)


def columns(texts: list[str]) -> dict[str, Any]:
    rows = len(texts)
    return {
        "item": np.arange(rows),
        "mean": [(np.inf, np.nan, 0.1)[row % 3] for row in range(rows)],
        "each": np.arange(rows * 3, dtype=np.float32).reshape(rows, 3),
        "text": texts,
    }


@given(st.lists(_ANY_TEXT, max_size=20))
def test_rows_survive_frames(texts: list[str]) -> None:
    checked = validate_columns(TABLE, columns(texts))
    parts = []
    for sequence, arrays in enumerate(split_into_frames(TABLE, checked)):
        frame = Frame("rows", len(arrays["item"]), arrays)
        reader = FrameReader()
        ((_, _, received),) = [*reader.feed(encode_frame(frame, 0))] if sequence == 0 else [(0, 0, frame)]
        parts.append(columns_from_frame(TABLE, received.columns, received.rows))
    received = concatenate_rows(TABLE, parts)
    assert received["text"] == [text.encode(errors="replace").decode() for text in texts]
    assert np.array_equal(received["item"], checked["item"])
    assert np.array_equal(received["mean"], checked["mean"], equal_nan=True)
    if texts:
        assert np.array_equal(received["each"], checked["each"])


def test_a_long_text_does_not_enlarge_other_frames() -> None:
    texts = ["x" * 900_000 if number == 5 else "short" for number in range(200)]
    parts = list(split_into_frames(TABLE, validate_columns(TABLE, columns(texts))))
    assert len(parts) > 1
    assert max(sum(array.nbytes for array in arrays.values()) for arrays in parts) <= 5 << 20
    assert (
        concatenate_rows(TABLE, [columns_from_frame(TABLE, arrays, len(arrays["item"])) for arrays in parts])["text"]
        == texts
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text": None}, "expected a list of texts"),
        ({"item": [0.5, 1.0]}, "another type"),
        ({"item": [[1], [2]]}, "expected 1 dimension"),
        ({"each": [1.0, 2.0]}, "expected 2 dimension"),
        ({"item": [1]}, "different lengths"),
        ({"further": [1, 2]}, "have the columns"),
        ({"text": ["a", "y" * (1 << 21)]}, "the limit is"),
    ],
)
def test_columns_that_do_not_fit_the_table_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(HarnessError, match=message):
        validate_columns(TABLE, columns(["a", "b"]) | change)


@pytest.mark.parametrize(
    "forged",
    [
        {"text": np.zeros((2, 1), np.uint8), "text.bytes": np.array([1, 7])},
        {"text": np.zeros((2, 1), np.uint8), "text.bytes": np.array([1, -1])},
        {"text": np.full((2, 1), 0xFF, np.uint8), "text.bytes": np.array([1, 1])},
        {"item": np.zeros(2, np.float64)},
        {"each": np.zeros(2)},
        {"further": np.zeros(2)},
    ],
)
def test_forged_arrays_are_refused(forged: dict[str, Any]) -> None:
    (valid,) = split_into_frames(TABLE, validate_columns(TABLE, columns(["a", "b"])))
    with pytest.raises((ValueError, KeyError)):
        columns_from_frame(TABLE, valid | forged, 2)


@pytest.mark.parametrize("name", ["seq", "batch", "attempt", "at"])
def test_a_column_of_the_store_is_no_column_of_a_table(name: str) -> None:
    with pytest.raises(ValidationError, match="the store has a column of this name"):
        table("answer", **{name: Kind.REAL})
