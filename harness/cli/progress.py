"""How far a fetch or a build has come: a bar where stderr is a terminal, a line now and then where it is not."""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from harness.cli.output import say

if TYPE_CHECKING:
    from rich.progress import TaskID

_SECONDS_BETWEEN_LINES = 10.0


class ProgressLines:
    """Progress of one thing after another, each with its name and total, on stderr."""

    def __init__(self, *, counts_bytes: bool) -> None:
        self.counts_bytes = counts_bytes
        self._name = ""
        self._said_at = 0.0
        self._bar = None
        self._task: TaskID | None = None
        if sys.stderr.isatty():
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
            # Left to itself rich would send what is printed meanwhile, data too, to stderr.
            self._bar = Progress(*columns, console=Console(stderr=True), redirect_stdout=False, redirect_stderr=False)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def tell(self, name: str, done: int, total: int) -> None:
        """`done` of `total` of the thing called `name`."""
        if self._bar is not None:
            if name != self._name:
                self._task = self._bar.add_task(name, total=total)
            assert self._task is not None
            self._bar.update(self._task, completed=done)
        elif name != self._name or time.monotonic() - self._said_at >= _SECONDS_BETWEEN_LINES:
            say(f"{name}: {done:,} of {total:,}{' bytes' if self.counts_bytes else ''}")
            self._said_at = time.monotonic()
        self._name = name
