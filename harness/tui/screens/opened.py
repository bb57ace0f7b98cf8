"""Which screen watches a run: that of an attack's run, or that of an audit."""

from harness.core.errors import HarnessError
from harness.jobs.audit.spec import AuditSpec
from harness.runs.folder import RunFolder
from harness.tui.screens.audit import AuditScreen
from harness.tui.screens.run import RunScreen


def screen_of(folder: RunFolder) -> RunScreen | AuditScreen:
    """The run's screen; of one whose record cannot be read the one that says so."""
    try:
        return AuditScreen(folder) if isinstance(folder.job(), AuditSpec) else RunScreen(folder)
    except HarnessError:
        return RunScreen(folder)
