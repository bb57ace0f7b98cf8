"""The exception whose text is shown to users: it says what is wrong, where, and what to do."""

from collections.abc import Iterable

from harness.core.text import shorten


class HarnessError(Exception):
    """Invalid input or an impossible request. Its text is shown unchanged and without a traceback."""


class UnknownNameError(HarnessError):
    """A name that does not exist. On the command line it is wrong usage."""


def unknown_name(kind: str, name: str, known: Iterable[str], *, see: str) -> UnknownNameError:
    """Return the error for a `name` that is not `known`. It suggests the nearest names, or else the command `see`."""
    # Imported here because every module imports this one, and few need the nearest names.
    import difflib

    known = sorted(known)
    nearest = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(nearest)}?" if nearest else f"{see} lists them."
    return UnknownNameError(f"unknown {kind} {shorten(name)!r}: {hint}")
