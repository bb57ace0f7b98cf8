"""The screen that shows a run: one for attacks, another for audits."""

from harness.core.errors import HarnessError
from harness.jobs.audit.spec import AuditSpec
from harness.runs.folder import RunFolder
from harness.tui.screens.audit import AuditScreen
from harness.tui.screens.run import RunScreen


def screen_for(folder: RunFolder) -> RunScreen | AuditScreen:
    """Return the screen of the run; a run that cannot be read gets a RunScreen, which shows the error."""
    try:
        return AuditScreen(folder) if isinstance(folder.job(), AuditSpec) else RunScreen(folder)
    except HarnessError:
        return RunScreen(folder)
