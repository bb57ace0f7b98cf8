"""Redact text: replace it with its length and a hash that identifies equal texts."""

import hashlib

from harness.core.arrays import Tokens, tokens_sha256
from harness.core.text import pluralize

_DIGITS = 12


def redact_suffix(suffix: Tokens, vocabulary: int) -> str:
    """Return `suffix` [length] as `50 tokens, sha256 1f2e3d4c5b6a`.

    The hash is the first 12 hex digits of SHA-256 over the token ids as little-endian unsigned integers, of 2 bytes if
    the vocabulary has at most 65,536 tokens and else of 4, as run.db stores them. The hash does not reveal a suffix,
    but it confirms a suffix that somebody already guessed.
    """
    return f"{pluralize(len(suffix), 'token')}, sha256 {tokens_sha256(suffix, vocabulary)[:_DIGITS]}"


def redact_text(text: str) -> str:
    """Return `text` as `17 words, sha256 1f2e3d4c5b6a`: the first 12 hex digits of SHA-256 over its UTF-8.

    Words are separated by white space. A short text, such as a name, is easier to guess than a suffix.
    """
    # A lone surrogate is not a character, but surrogatepass encodes it in three bytes.
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{pluralize(len(text.split()), 'word')}, sha256 {digest[:_DIGITS]}"
