"""Progress on stderr: repainted on a terminal, otherwise a line now and then. `--quiet` hides both."""

import sys
import time
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from harness.cli import output

if TYPE_CHECKING:
    from rich.progress import TaskID


class _Repainted:
    """Opens and closes `_display`, which draws on a terminal and otherwise does nothing."""

    _display: AbstractContextManager[Any] = nullcontext()

    def __enter__(self) -> Self:
        self._display.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._display.__exit__(kind, error, at)


class StatusLine(_Repainted):
    """A line of text that changes. If stderr is not a terminal, it is printed again every `seconds` seconds."""

    def __init__(self, *, seconds: float) -> None:
        self._seconds = seconds
        self._printed_at = -seconds
        self._key: object = None
        self._live = None
        if sys.stderr.isatty() and not output.is_quiet:
            from rich.console import Console
            from rich.live import Live

            self._display = self._live = Live(
                console=Console(stderr=True), auto_refresh=False, redirect_stdout=False, redirect_stderr=False
            )

    def update(self, line: str, key: object = None) -> None:
        """Show `line`. A changed `key` prints it at once where lines are printed now and then."""
        if self._live is not None:
            from rich.text import Text

            self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)
        elif key != self._key or time.monotonic() - self._printed_at >= self._seconds:
            output.say(line)
            self._key, self._printed_at = key, time.monotonic()


class ProgressBars(_Repainted):
    """The progress of one named thing after another."""

    def __init__(self, *, counts_bytes: bool) -> None:
        self._unit = " bytes" if counts_bytes else ""
        self._tasks: dict[str, TaskID] = {}
        self._lines, self._bars = StatusLine(seconds=10), None
        if not sys.stderr.isatty() or output.is_quiet:
            return
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        amount = DownloadColumn() if counts_bytes else MofNCompleteColumn()
        name = TextColumn("{task.description}", markup=False)
        columns = (name, BarColumn(), amount, TimeRemainingColumn())
        # By default Rich sends everything printed meanwhile, data too, to stderr.
        self._display = self._bars = Progress(
            *columns, console=Console(stderr=True), redirect_stdout=False, redirect_stderr=False
        )

    def update(self, name: str, done: int, total: int) -> None:
        """Show that `done` of `total` of the thing called `name` is done."""
        if self._bars is None:
            self._lines.update(f"{name}: {done:,} of {total:,}{self._unit}", key=name)
            return
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=total)
        self._bars.update(self._tasks[name], completed=done)
