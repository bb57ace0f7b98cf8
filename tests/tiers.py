"""The two tiers of the tests: `make test` leaves out what is marked slow, `make check` runs everything."""

from collections.abc import Iterable
from typing import Any

import pytest


def first_is_fast(parameters: Iterable[Any], *, fast: int = 1) -> list[Any]:
    """Mark all but the `fast` first parameters of a test slow; a tuple holds the values of several arguments.

    For tests whose parameters cost processes or models each, and show one behaviour.
    """
    rows = [row if isinstance(row, tuple) else (row,) for row in parameters]
    return [pytest.param(*row, marks=() if place < fast else pytest.mark.slow) for place, row in enumerate(rows)]


def slow_values(values: Iterable[Any]) -> list[Any]:
    """Mark each value of one argument slow."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]
