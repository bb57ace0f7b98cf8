"""The difference between the sources of runs, as a file for the user's editor."""

import contextlib
import difflib
from collections.abc import Iterator
from pathlib import Path

from harness.core.errors import HarnessError
from harness.core.files import read_start
from harness.core.text import sanitize
from harness.runs.folder import RunFolder

_MAX_BYTES = 1 << 20


def source_diff(first: RunFolder, *later: RunFolder) -> Iterator[str]:
    """Yield the unified difference of every source file between a run and each of the later ones, line by line."""
    before = _sources(first.code)
    for run in later:
        after = _sources(run.code)
        for name in sorted(before.keys() | after.keys()):
            names = f"{first.id}/{name}", f"{run.id}/{name}"
            lines = difflib.unified_diff(before.get(name, []), after.get(name, []), *names, lineterm="", n=3)
            yield from map(sanitize, lines)


def _sources(folder: Path) -> dict[str, list[str]]:
    """Return the lines of each source file, by its path in `folder`."""
    lines = {}
    for file in sorted(folder.rglob("*.py")):
        with contextlib.suppress(OSError, HarnessError):
            text = read_start(file, _MAX_BYTES).decode(errors="replace").replace("\t", "    ")
            lines[str(file.relative_to(folder))] = text.splitlines()
    return lines
