"""The screen with the difference between the sources of runs."""

import contextlib
import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from harness.core.errors import HarnessError
from harness.core.files import read_start
from harness.core.text import sanitize
from harness.runs.folder import RunFolder
from harness.tui.widgets.bars import KeyFooter, TopBar

_MAX_LINES = 2_000
_MAX_BYTES = 1 << 20
_STYLES = {"+": "$text-success", "-": "$text-error", "@": "$text-primary"}


class SourceDiffScreen(Screen[None]):
    """The changes from the first run's source to that of each other run."""

    CSS_PATH = "dialogs.tcss"
    HELP = "The difference between the sources that the runs used, as their directories keep them."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "app.pop_screen", "Back", tooltip="Close this screen"),
    ]

    def __init__(self, folders: Sequence[RunFolder]) -> None:
        super().__init__()
        self._folders = folders

    def compose(self) -> ComposeResult:
        yield TopBar()
        yield Static(Content(sanitize(" · ".join(folder.id for folder in self._folders))), id="what")
        with VerticalScroll():
            yield Static(self._diff(), id="diff")
        yield KeyFooter()

    def _diff(self) -> Content:
        first, *folders = self._folders
        lines = [line for folder in folders for line in source_diff(first, folder)]
        more = len(lines) - _MAX_LINES
        visible_lines = lines[:_MAX_LINES] + ([f"… and {more:,} more lines"] if more > 0 else [])
        return Content("\n").join(Content.styled(sanitize(line), _STYLES.get(line[:1], "")) for line in visible_lines)


def source_diff(first: RunFolder, second: RunFolder) -> list[str]:
    """Return the unified difference of every source file of two runs, as lines."""
    before, after = _sources(first.code), _sources(second.code)
    lines: list[str] = []
    for name in sorted(before.keys() | after.keys()):
        names = f"{first.id}/{name}", f"{second.id}/{name}"
        lines += difflib.unified_diff(before.get(name, []), after.get(name, []), *names, lineterm="", n=3)
    return lines


def _sources(folder: Path) -> dict[str, list[str]]:
    """Return the lines of each source file, by its path in `folder`."""
    lines = {}
    for file in sorted(folder.rglob("*.py")):
        with contextlib.suppress(OSError, HarnessError):
            text = read_start(file, _MAX_BYTES).decode(errors="replace")
            lines[str(file.relative_to(folder))] = text.splitlines()
    return lines
