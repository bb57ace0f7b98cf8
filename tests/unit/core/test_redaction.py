"""A redacted suffix is its length and a hash of its tokens, independent of the array type."""

import hashlib

import numpy as np
import pytest

from harness.core.redaction import redact_suffix


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
