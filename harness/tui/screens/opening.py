"""The screen that shows a run."""

from typing import TYPE_CHECKING

from harness.core.errors import HarnessError
from harness.runs.folder import RunFolder

if TYPE_CHECKING:
    from harness.tui.screens.audit import AuditScreen
    from harness.tui.screens.run import RunScreen


def screen_for(folder: RunFolder) -> "RunScreen | AuditScreen":
    """Return the screen of the run's kind of job; a run that cannot be read gets a RunScreen, which shows the error."""
    # Imported here to keep the first paint fast.
    from harness.tui.screens.audit import AuditScreen
    from harness.tui.screens.run import RunScreen

    screens: dict[str, type[RunScreen | AuditScreen]] = {"attack": RunScreen, "audit": AuditScreen}
    try:
        return screens.get(folder.spec().kind, RunScreen)(folder)
    except HarnessError:
        return RunScreen(folder)
