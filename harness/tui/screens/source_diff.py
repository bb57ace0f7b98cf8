"""The difference of the sources of two runs, as each run's copy has them."""

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

from harness.core.text import sanitize
from harness.runs.folder import RunFolder
from harness.tui.widgets.key_footer import KeyFooter
from harness.tui.widgets.top_bar import TopBar

_MAX_LINES = 2_000
_MAX_BYTES = 1 << 20
_STYLES = {"+": "$text-success", "-": "$text-error", "@": "$text-primary"}


class SourceDiffScreen(Screen[None]):
    """The changes from the first run's source to that of each other run."""

    DEFAULT_CSS = """
    SourceDiffScreen #what { height: 1; padding: 0 1; text-style: bold; }
    SourceDiffScreen #diff { height: auto; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    """
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
        first, *others = self._folders
        lines = [line for other in others for line in source_diff(first, other)]
        more = len(lines) - _MAX_LINES
        shown = lines[:_MAX_LINES] + ([f"… and {more:,} more lines"] if more > 0 else [])
        return Content("\n").join(Content.styled(sanitize(line), _STYLES.get(line[:1], "")) for line in shown)


def source_diff(first: RunFolder, second: RunFolder) -> list[str]:
    """Return the unified difference of every source file of two runs, as lines."""
    files = [_sources(folder.code) for folder in (first, second)]
    lines: list[str] = []
    for name in sorted(files[0].keys() | files[1].keys()):
        before, after = (found.get(name, "").splitlines() for found in files)
        names = f"{first.id}/{name}", f"{second.id}/{name}"
        lines += difflib.unified_diff(before, after, *names, lineterm="", n=3)
    return lines


def _sources(folder: Path) -> dict[str, str]:
    found = {}
    for file in sorted(folder.rglob("*.py")):
        try:
            found[str(file.relative_to(folder))] = file.read_bytes()[:_MAX_BYTES].decode(errors="replace")
        except OSError:
            continue
    return found
