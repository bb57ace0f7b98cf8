"""Progress on stderr: a status line and progress bars."""

import contextlib
import os
import select
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal

from harness.cli import output
from harness.cli.output import say
from harness.core.terminal import end_process, handled_end

if TYPE_CHECKING:
    from rich.progress import TaskID


def _is_repainted() -> bool:
    return sys.stderr.isatty() and not output.is_quiet


def _show_cursor_and_end(number: int) -> None:
    """End this process by a signal. Rich hides the cursor of the terminal while it repaints lines."""
    with contextlib.suppress(OSError):
        # A terminal that takes no output would keep the process.
        for file in select.select([], [sys.stderr.fileno()], [], 0)[1]:
            os.write(file, b"\x1b[?25h\n")
    end_process(number)


class StatusLine(ExitStack):
    """A line of text that changes. If stderr is not a terminal, it is printed again every `seconds` seconds."""

    def __init__(self, *, seconds: float, ticks: bool = False) -> None:
        """ticks: a terminal computes the line again several times a second."""
        super().__init__()
        self._seconds = seconds
        self._printed_at = -seconds
        self._key: object = None
        self._line: Callable[[], str] = str
        self._live = None
        if _is_repainted():
            from rich.console import Console
            from rich.live import Live
            from rich.text import Text

            live = Live(
                console=Console(stderr=True),
                auto_refresh=ticks,
                redirect_stdout=False,
                redirect_stderr=False,
                get_renderable=lambda: Text(self._line(), no_wrap=True, overflow="ellipsis"),
            )
            self.enter_context(handled_end(_show_cursor_and_end))
            self._live = self.enter_context(live)

    def update(self, line: str | Callable[[], str], key: object = None) -> None:
        """Show `line`. A changed `key` prints it at once where lines are printed now and then; None does not."""
        self._line = line if callable(line) else lambda: line
        if self._live is not None:
            self._live.refresh()
        elif key not in (None, self._key) or time.monotonic() - self._printed_at >= self._seconds:
            say(self._line())
            self._key, self._printed_at = self._key if key is None else key, time.monotonic()


class ProgressBars(ExitStack):
    """The progress of one named thing after another. If stderr is not a terminal, lines are printed instead."""

    def __init__(self, unit: Literal["items", "bytes", "percent"], *, seconds_between_lines: float = 10.0) -> None:
        """unit: how the amount that is done is shown."""
        super().__init__()
        self._unit = " bytes" if unit == "bytes" else ""
        self._tasks: dict[str, TaskID] = {}
        self._bars = None
        if not _is_repainted():
            self._lines = StatusLine(seconds=seconds_between_lines)
            return
        from rich import progress
        from rich.console import Console

        columns_by_unit = {
            "items": progress.MofNCompleteColumn,
            "bytes": progress.DownloadColumn,
            "percent": progress.TaskProgressColumn,
        }
        amount = columns_by_unit[unit]()
        name = progress.TextColumn("{task.description}", markup=False)
        columns = (name, progress.BarColumn(), amount, progress.TimeRemainingColumn())
        # By default Rich sends everything printed meanwhile, data too, to stderr.
        bars = progress.Progress(*columns, console=Console(stderr=True), redirect_stdout=False, redirect_stderr=False)
        self.enter_context(handled_end(_show_cursor_and_end))
        self._bars = self.enter_context(bars)

    def update(self, name: str, done: int, total: int, *, line: str | None = None) -> None:
        """Show that `done` of `total` of the thing called `name` is done. `line` replaces the text of its line."""
        if self._bars is None:
            share = f" ({done / total:.0%})" if total else ""
            self._lines.update(line or f"{name}: {done:,} of {total:,}{self._unit}{share}", key=name)
            return
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=total)
        self._bars.update(self._tasks[name], completed=done)
