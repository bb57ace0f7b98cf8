"""Completion of a path while it is typed."""

import asyncio
import os
from itertools import islice
from pathlib import Path

from textual.suggester import Suggester

from harness.core.errors import HarnessError
from harness.core.paths import expand_home
from harness.core.text import sanitize

_MAX_ENTRIES = 10_000


class PathSuggester(Suggester):
    """Suggests the alphabetically first name that completes the path; a directory ends in a slash."""

    def __init__(self) -> None:
        # No cache, because files change while the user types.
        super().__init__(use_cache=False, case_sensitive=True)

    async def get_suggestion(self, value: str) -> str | None:
        """Return the completed path. This runs in a thread because a directory may be slow to list."""
        return await asyncio.to_thread(complete_path, value)


def complete_path(text: str) -> str | None:
    """Return `text` completed with the first matching name, or None if there is none.

    Hidden names match only after a typed dot. Names with control characters are never suggested.
    """
    folder, slash, start = text.rpartition("/")
    try:
        with os.scandir(expand_home(folder + slash) if slash else Path()) as entries:
            names = sorted(
                entry.name + "/" * entry.is_dir()
                for entry in islice(entries, _MAX_ENTRIES)
                if entry.name.startswith(start) and entry.name.startswith(".") == start.startswith(".")
            )
    except (HarnessError, OSError, ValueError):
        return None
    return next((f"{folder}{slash}{name}" for name in names if name != start and sanitize(name) == name), None)
