"""A suffix that is not shown is told by its length and a hash of its tokens, whatever array held them."""

import hashlib

import numpy as np
import pytest

from harness.core.redaction import redact_suffix


def test_the_hash_is_over_the_bytes_that_a_store_keeps() -> None:
    expected = hashlib.sha256(b"\x01\x00\xff\x01").hexdigest()[:12]
    assert redact_suffix(np.array([1, 511], np.uint16), 50257) == f"2 tokens, sha256 {expected}"


def test_a_large_vocabulary_takes_four_bytes_a_token() -> None:
    expected = hashlib.sha256(b"\x01\x00\x00\x00\xff\x01\x00\x00").hexdigest()[:12]
    assert redact_suffix(np.array([1, 511], np.uint32), 1 << 17).endswith(expected)


@pytest.mark.parametrize("dtype", [np.int64, np.uint32, ">u2"])
def test_equal_suffixes_are_told_alike_whatever_array_held_them(dtype: object) -> None:
    tokens = [5, 300, 50256]
    assert redact_suffix(np.array(tokens, dtype), 50257) == redact_suffix(np.array(tokens, np.uint16), 50257)
