"""Progress on stderr: repainted on a terminal, otherwise a line now and then. `--quiet` hides both."""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from harness.cli import output

if TYPE_CHECKING:
    from rich.progress import TaskID


class StatusLine:
    """A line of text that changes. If stderr is not a terminal, it is printed again every `seconds` seconds."""

    def __init__(self, *, seconds: float) -> None:
        self._seconds = seconds
        self._printed_at = -seconds
        self._key: object = None
        self._live = None
        if sys.stderr.isatty() and not output.is_quiet:
            from rich.console import Console
            from rich.live import Live

            self._live = Live(
                console=Console(stderr=True), auto_refresh=False, redirect_stdout=False, redirect_stderr=False
            )

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, line: str, key: object = None) -> None:
        """Show `line`. A changed `key` prints it at once where lines are printed now and then."""
        if self._live is not None:
            from rich.text import Text

            self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)
        elif key != self._key or time.monotonic() - self._printed_at >= self._seconds:
            output.say(line)
            self._key, self._printed_at = key, time.monotonic()


class ProgressBars:
    """The progress of one named thing after another."""

    def __init__(self, *, counts_bytes: bool) -> None:
        self._unit = " bytes" if counts_bytes else ""
        self._name = ""
        self._task: TaskID | None = None
        self._lines = None
        if not sys.stderr.isatty() or output.is_quiet:
            self._bars = None
            self._lines = StatusLine(seconds=10)
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
        self._bars = Progress(*columns, console=Console(stderr=True), redirect_stdout=False, redirect_stderr=False)

    def __enter__(self) -> Self:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bars is not None:
            self._bars.stop()

    def update(self, name: str, done: int, total: int) -> None:
        """Show that `done` of `total` of the thing called `name` is done."""
        if self._lines is not None:
            self._lines.update(f"{name}: {done:,} of {total:,}{self._unit}", key=name)
        if self._bars is not None:
            if name != self._name:
                self._task = self._bars.add_task(name, total=total)
            assert self._task is not None
            self._bars.update(self._task, completed=done)
        self._name = name
