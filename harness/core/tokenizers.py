"""Load a tokenizer.json, in one way for all readers of text."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.core.errors import HarnessError
from harness.core.inputs import read_bounded
from harness.core.text import sanitize, shorten

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_MAX_BYTES = 256 << 20
"""The largest vocabularies of 2026, of 260,000 tokens, take 35 MB."""


def load_tokenizer(file: Path, *, reads_special_tokens: bool = False) -> "Tokenizer":
    """Return the tokenizer in a tokenizer.json, as `parse_tokenizer` does. Raises HarnessError if there is none."""
    try:
        content = read_bounded(file, limit=_MAX_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise HarnessError(f"not a tokenizer.json: {file} (not UTF-8 text).") from None
    return parse_tokenizer(content, str(file), reads_special_tokens=reads_special_tokens)


def parse_tokenizer(content: str, where: str, *, reads_special_tokens: bool = False) -> "Tokenizer":
    """Return the tokenizer described by the content of a tokenizer.json.

    It neither truncates nor pads, whatever the file stores. A text such as `<|endoftext|>` is text like any other,
    unless `reads_special_tokens` is set. Raises HarnessError that names `where`.
    """
    from tokenizers import Tokenizer  # only loaded by what needs one

    try:
        tokenizer = Tokenizer.from_str(content)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the library is no Exception
        raise HarnessError(f"not a tokenizer.json: {where} ({sanitize(shorten(str(error), 120))}).") from None
    return plain_tokenizer(tokenizer, reads_special_tokens=reads_special_tokens)


def plain_tokenizer(tokenizer: "Tokenizer", *, reads_special_tokens: bool = False) -> "Tokenizer":
    """Return `tokenizer` without truncation and padding, reading special tokens as `parse_tokenizer` says."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = not reads_special_tokens
    return tokenizer


def normal_form(tokenizer: "Tokenizer") -> Callable[[str], str]:
    """Return the function that converts a text to the form in which the tokenizer reads it, such as NFC or lower case.

    A tokenizer without a normalizer reads a text as it is.
    """
    normalizer = tokenizer.normalizer
    # Normalizers for models of sentencepiece also write spaces as U+2581.
    return str if normalizer is None else lambda text: normalizer.normalize_str(text).replace("\u2581", " ")


def added_tokens(tokenizer: "Tokenizer") -> list[int]:
    """Return the special tokens that the tokenizer puts before every text."""
    encoding = tokenizer.encode("a")
    # The mask is 1 for what the tokenizer adds to the text.
    mask = encoding.special_tokens_mask
    added: list[int] = encoding.ids[: mask.index(0) if 0 in mask else 0]
    return added


def decode_pieces(tokenizer: "Tokenizer", ids: Sequence[int]) -> list[str]:
    """Return the text of each token, whose ids the tokenizer knows. The joined pieces are the text of all tokens.

    A character made of several tokens belongs to the last of them.
    """
    pieces, done = [], 0
    for end in range(1, len(ids) + 1):
        text = tokenizer.decode(ids[:end], skip_special_tokens=False)
        # An incomplete character decodes to U+FFFD until its last token follows.
        whole = len(text) if end == len(ids) else len(text.rstrip("\ufffd"))
        pieces.append(text[done:whole])
        done = max(done, whole)
    return pieces
