"""Commands of `harness` in processes that outlive the TUI."""

from collections.abc import Callable, Collection, Sequence
from threading import Event
from typing import Any

from textual.worker import get_current_worker

from harness.runs.subcommand import run_subcommand


def run_command(
    command: Sequence[str],
    *,
    on_progress: Callable[[str], object],
    cancelled: Event | None = None,
    answer_codes: Collection[int] = (0,),
) -> dict[str, Any] | None:
    """Run `harness COMMAND --json` in a thread worker and return the object that it prints.

    Once `cancelled` is set, the process is interrupted, and the result is None unless it had done its work. It is None
    too once the worker is cancelled, which leaves the process running. The other arguments and the errors are those of
    `run_subcommand`.
    """
    worker = get_current_worker()
    return run_subcommand(
        command,
        on_progress=on_progress,
        is_cancelled=lambda: cancelled is not None and cancelled.is_set(),
        is_abandoned=lambda: worker.is_cancelled,
        answer_codes=answer_codes,
    )
