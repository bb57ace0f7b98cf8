"""Tiers of tests: `make test` skips those marked slow or long, `make check` those marked long."""

from collections.abc import Iterable
from typing import Any

import pytest


def first_is_fast(
    parameters: Iterable[Any], *, fast: int = 1, rest: pytest.MarkDecorator = pytest.mark.long
) -> list[Any]:
    """Mark all parameters of a test with `rest` except for the first `fast`.

    A tuple has the values of several arguments. For tests whose parameters each need processes or models.
    """
    rows = [row if isinstance(row, tuple) else (row,) for row in parameters]
    return [pytest.param(*row, marks=() if place < fast else rest) for place, row in enumerate(rows)]


def slow_values(values: Iterable[Any]) -> list[Any]:
    """Mark each value of one argument as slow."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


def long_values(values: Iterable[Any]) -> list[Any]:
    """Mark each value of one argument as long."""
    return [pytest.param(value, marks=pytest.mark.long) for value in values]
