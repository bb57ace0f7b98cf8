"""The exception whose text is shown to users: it says what is wrong, where, and what to do."""

from collections.abc import Iterable

from harness.core.text import shorten


class HarnessError(Exception):
    """Invalid input or an impossible request. Its text is shown unchanged and without a traceback."""


class Interruption(HarnessError):
    """A job ended early for a reason outside it, such as a server that does not answer. A resume continues it."""


class UsageError(HarnessError):
    """A value that the user gave and that is never valid, or a name that does not exist: exit code 2."""


def unknown_name(kind: str, name: str, names: Iterable[str], *, see: str) -> UsageError:
    """Return the error for a `name` that is none of `names`. It suggests the nearest, or else the command `see`."""
    # Imported here because every module imports this one, and few need the nearest names.
    import difflib

    names = sorted(names)
    nearest = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(nearest)}?" if nearest else f"{see} lists them."
    return UsageError(f"unknown {kind} {shorten(name)!r}: {hint}")
