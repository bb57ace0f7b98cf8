"""The screen that shows a run, and the answers of dialogs."""

from collections.abc import Callable
from typing import TypeVar

from textual.screen import Screen

from harness.core.errors import HarnessError
from harness.runs.folder import RunFolder

AnswerT = TypeVar("AnswerT")


def if_answered(action: Callable[[AnswerT], object]) -> Callable[[AnswerT | None], None]:
    """Return a callback for a dialog: it calls `action` with the answer, but not after No or Escape."""

    def callback(answer: AnswerT | None) -> None:
        if answer is not None and answer is not False:
            action(answer)

    return callback


def screen_for(folder: RunFolder) -> Screen[None]:
    """Return the screen of the run's kind of job; a run that cannot be read gets a RunScreen, which shows the error."""
    # Imported here to keep the first paint fast.
    from harness.tui.screens.audit import AuditScreen
    from harness.tui.screens.run import RunScreen

    screens: dict[str, type[RunScreen | AuditScreen]] = {"attack": RunScreen, "audit": AuditScreen}
    try:
        return screens.get(folder.spec().kind, RunScreen)(folder)
    except HarnessError:
        return RunScreen(folder)
