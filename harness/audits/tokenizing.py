"""Load a tokenizer.json without torch, for audits that convert between text and tokens."""

from pathlib import Path
from typing import TYPE_CHECKING

from harness.audits.text_files import read_text
from harness.core.errors import HarnessError
from harness.core.text import shorten

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def parse_tokenizer(content: str, where: str) -> "Tokenizer":
    """Return the tokenizer described by the content of a tokenizer.json. Raises HarnessError that names `where`."""
    from tokenizers import Tokenizer  # only loaded for audits that need one

    try:
        return Tokenizer.from_str(content)
    except Exception as error:  # tokenizers raises plain Exception for every fault of a file
        raise HarnessError(f"not a tokenizer.json: {where} ({shorten(str(error), 120)}).") from None


def load_tokenizer(file: Path) -> "Tokenizer":
    """Return the tokenizer in a tokenizer.json. Raises HarnessError if the file is not readable or not valid."""
    return parse_tokenizer(read_text(file), str(file))
