"""Errors of damaged records as sentences for the user."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from harness.core.errors import HarnessError
from harness.core.inputs import first_fault
from harness.core.text import shorten

_DAMAGE = (OSError, sqlite3.Error, ValueError, TypeError, LookupError, ArithmeticError, RecursionError)


@contextlib.contextmanager
def as_harness_error(record: Path | str, action: str = "read") -> Iterator[None]:
    """Convert errors of an `action`, such as `read`, inside the block to a HarnessError that names `record`.

    A HarnessError that is raised inside keeps its text.
    """
    try:
        yield
    except _DAMAGE as error:
        # The text of a KeyError is the key alone.
        text = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        if isinstance(error, ValidationError):
            text = first_fault(error)
        raise HarnessError(f"{record}: cannot be {action} ({shorten(text, 120)}).") from error
