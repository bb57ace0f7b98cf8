"""A text told without its words: how long it is, and a hash by which the same one is known again."""

import hashlib

import numpy as np

from harness.core.arrays import Tokens, token_dtype
from harness.core.text import pluralize

_DIGITS = 12


def redact_suffix(suffix: Tokens, vocabulary: int) -> str:
    """`suffix` [length] as `50 tokens, sha256 1f2e3d4c5b6a`.

    The hash is the first 12 hex digits of SHA-256 over the token ids one after the other, each as a little-endian
    unsigned integer of 2 bytes where the round's vocabulary has at most 65,536 tokens, else of 4: the bytes that run.db
    keeps of a guess. Whoever can guess a suffix can confirm it by this hash; nobody reads it off.
    """
    content = np.ascontiguousarray(suffix, token_dtype(vocabulary).newbyteorder("<")).tobytes()
    return f"{pluralize(len(suffix), 'token')}, sha256 {hashlib.sha256(content).hexdigest()[:_DIGITS]}"


def redact_text(text: str) -> str:
    """`text` as `17 words, sha256 1f2e3d4c5b6a`: SHA-256 of its UTF-8, of which 12 hex digits are told.

    Words are what white space sets apart. A short text, a name say, is guessed sooner than a suffix.
    """
    # What is no character, a lone surrogate, has three bytes here all the same.
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{pluralize(len(text.split()), 'word')}, sha256 {digest[:_DIGITS]}"
