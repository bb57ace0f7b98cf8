"""The one exception that a user reads: a sentence that says what was wrong, where, and what to do."""

from collections.abc import Iterable

from harness.core.text import shorten


class HarnessError(Exception):
    """Bad input or an impossible request; its text is shown as it is, without a traceback."""


def unknown_name(kind: str, name: str, known: Iterable[str], *, see: str) -> HarnessError:
    """The error for a `name` that is not among the `known` ones: the nearest are suggested, else `see` is named."""
    # Here: every part imports this module, and few ever need the nearest names.
    import difflib

    known = sorted(known)
    nearest = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(nearest)}?" if nearest else f"{see} lists them."
    return HarnessError(f"unknown {kind} {shorten(name)!r}: {hint}")
