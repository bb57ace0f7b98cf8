"""Records that may be damaged: whatever reading one raises becomes the sentence that a user reads."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from harness.core.errors import HarnessError
from harness.core.text import shorten

_DAMAGE = (OSError, sqlite3.Error, ValueError, TypeError, LookupError, ArithmeticError)


@contextlib.contextmanager
def as_harness_error(record: Path | str) -> Iterator[None]:
    """Inside, what `record` holds is read: a fault of it is raised as a HarnessError that names the record.

    A HarnessError that comes from inside keeps its text.
    """
    try:
        yield
    except _DAMAGE as error:
        raise HarnessError(f"{record}: cannot be read ({shorten(_in_words(error), 120)}).") from error


def _in_words(error: Exception) -> str:
    # A missing key's own text is the key alone.
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)
