"""A tokenizer.json made into its tokenizer, for audits that go between text and tokens; without torch."""

from pathlib import Path
from typing import TYPE_CHECKING

from harness.core.errors import HarnessError
from harness.core.text import shorten

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def tokenizer_of(content: str, where: str) -> "Tokenizer":
    """The tokenizer of a tokenizer.json's content. Raises HarnessError, naming `where` it stood, when it is none."""
    # Here: an audit that needs none does not load the library.
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_str(content)
    except Exception as error:  # tokenizers raises plain Exception for every fault of a file
        raise HarnessError(f"{where}: no tokenizer ({shorten(str(error), 120)}).") from None


def tokenizer_in(file: Path) -> "Tokenizer":
    """The tokenizer in a tokenizer.json. Raises HarnessError, naming the file, when it cannot be read or is none."""
    try:
        content = file.read_text(encoding="utf-8")
    except OSError as error:
        raise HarnessError(f"{file}: cannot be read ({error.strerror}).") from None
    except UnicodeError:
        raise HarnessError(f"{file}: no tokenizer (it is not UTF-8).") from None
    return tokenizer_of(content, str(file))
