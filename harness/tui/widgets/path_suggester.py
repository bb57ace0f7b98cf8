"""How a path that is being typed goes on, from what lies on this machine."""

import asyncio
import os
from itertools import islice
from pathlib import Path

from textual.suggester import Suggester

from harness.core.errors import HarnessError
from harness.core.paths import expand_home
from harness.core.text import sanitize

_MOST_ENTRIES = 10_000


class PathSuggester(Suggester):
    """Proposes the first name, in order of the alphabet, that completes the path; a folder's ends in a slash."""

    def __init__(self) -> None:
        # Files come and go while somebody types.
        super().__init__(use_cache=False, case_sensitive=True)

    async def get_suggestion(self, value: str) -> str | None:
        """`value` completed, in a thread: a folder may be slow to list."""
        return await asyncio.to_thread(completed_path, value)


def completed_path(text: str) -> str | None:
    """`text` with the rest of the first name that it begins; None where there is none.

    Hidden names must be begun with their dot. Names that would not be shown as they are, are not proposed.
    """
    folder, slash, begun = text.rpartition("/")
    try:
        with os.scandir(expand_home(folder + slash) if slash else Path()) as entries:
            names = sorted(
                entry.name + "/" * entry.is_dir()
                for entry in islice(entries, _MOST_ENTRIES)
                if entry.name.startswith(begun) and entry.name.startswith(".") == begun.startswith(".")
            )
    except (HarnessError, OSError, ValueError):
        return None
    return next((f"{folder}{slash}{name}" for name in names if name != begun and sanitize(name) == name), None)
