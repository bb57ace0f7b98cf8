"""The screen that shows a run."""

from textual.screen import Screen

from harness.core.errors import HarnessError
from harness.runs.folder import RunFolder


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
