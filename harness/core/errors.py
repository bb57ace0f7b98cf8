"""The exception whose text is shown to users: it says what is wrong, where, and what to do."""

import contextlib
import os
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from harness.core.text import shorten


class HarnessError(Exception):
    """Invalid input or an impossible request. Its text is shown unchanged and without a traceback."""


class Interruption(HarnessError):
    """A job ended early for a reason outside it, such as a server that does not answer. A resume continues it."""


class UsageError(HarnessError):
    """A value that the user gave and that is never valid, or a name that does not exist: exit code 2."""


def did_you_mean(name: str, names: Iterable[str], cutoff: float = 0.5) -> str:
    """Return a question that suggests the nearest of `names`, such as `did you mean demo?`; '' if none is near.

    cutoff: the smallest similarity, from 0 to 1.
    """
    # Imported here because every module imports this one, and few need the nearest names.
    import difflib

    nearest = difflib.get_close_matches(name, sorted(names), n=3, cutoff=cutoff)
    return f"did you mean {' or '.join(map(shorten, nearest))}?" if nearest else ""


def unknown_name(kind: str, name: str, names: Iterable[str], *, see: str) -> UsageError:
    """Return the error for a `name` that is none of `names`. It suggests the nearest, or else the command `see`."""
    return UsageError(f"unknown {kind} {shorten(name)!r}: {did_you_mean(name, names) or f'`{see}` lists them.'}")


def missing_path(path: Path, kind: str = "file", advice: str = "") -> HarnessError:
    """Return the error for a `path` that does not exist. It suggests a name in the same directory, or else `advice`."""
    hint = ""
    with contextlib.suppress(OSError, ValueError), os.scandir(path.parent) as entries:
        hint = did_you_mean(path.name, [entry.name for entry in islice(entries, 1000)], cutoff=0.75)
    return HarnessError(f"no such {kind}: {path}. {advice or hint[:1].upper() + hint[1:] or 'Check the path.'}")
