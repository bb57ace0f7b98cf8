"""Read text and JSON from files that nobody vouches for."""

import json
from pathlib import Path
from typing import Any

from harness.core.errors import HarnessError


def read_text(file: Path) -> str:
    """Return the text of a UTF-8 file with line feeds as line ends. Raises HarnessError if it cannot be read."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, IsADirectoryError):
        raise HarnessError(f"no such file: {file}.") from None
    except OSError as error:
        raise HarnessError(f"cannot read {file}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise HarnessError(f"not UTF-8 text: {file}. Convert the file to UTF-8.") from None


def parse_json(content: str | bytes) -> Any:
    """Return the value of a JSON text. Raises ValueError for anything else, deep nesting included."""
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def without_surrogates(text: str) -> str:
    """Return `text` with `?` for lone surrogates, which JSON can express and tokenizers refuse."""
    return text.encode("utf-8", "replace").decode()
