"""The two tiers of the tests: `make test` leaves out what is marked slow, `make check` runs everything."""

from collections.abc import Iterable
from typing import Any

import pytest


def first_is_fast(parameters: Iterable[Any], *, fast: int = 1) -> list[Any]:
    """Mark all but the `fast` first parameters slow: each costs real processes, and shows the same behaviour."""
    made = [
        one if hasattr(one, "marks") else pytest.param(*(one if isinstance(one, tuple) else (one,)))
        for one in parameters
    ]
    return [
        one if place < fast else pytest.param(*one.values, id=one.id, marks=(*one.marks, pytest.mark.slow))
        for place, one in enumerate(made)
    ]
